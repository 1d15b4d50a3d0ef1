import numpy as np
import pytest
from PIL import Image

from tasks.jigshape import TASK
from tasks.jigshape.contour import NOISE, pair_costs
from tasks.jigshape.sheet import cut_photo, draw_sheet
from tasks.jigshape.spec import Spec
from tasks.photo import ImagePhoto


def puzzle(photo, **fields):
    """(spec, target, sheet, signatures) of a small puzzle."""
    spec = Spec(**{"grid": 4, "piece_px": 16, "tab_ratio": 0.4} | fields)
    target = TASK.pose(spec, photo, seed=5).target
    return spec, target, draw_sheet(spec, target, cut_photo(spec, photo)), np.array(target["signatures"], np.int8)


def board_of(target):
    board = np.empty((target["grid"], target["grid"]), int)
    rows, columns = np.array(target["cells"]).T
    board[rows, columns] = np.arange(len(rows))
    return board


def ramp(side):
    """Red grows by 3 a pixel to the right, green by 2 downwards."""
    y, x = np.mgrid[:side, :side]
    return ImagePhoto(Image.fromarray(np.stack([3 * x, 2 * y, 0 * x], axis=-1).astype(np.uint8)))


@pytest.mark.parametrize("shape", [True, False])
@pytest.mark.parametrize("piece_px", [16, 17])
def test_an_even_ramp_is_continued_exactly_along_every_contour(shape, piece_px):
    spec, target, sheet, signatures = puzzle(ramp(4 * piece_px), shape=shape, piece_px=piece_px)
    costs = pair_costs(spec, sheet, signatures)
    board = board_of(target)
    assert costs.across[board[:, :-1], board[:, 1:]] == pytest.approx(0, abs=1e-6)
    assert costs.down[board[:-1], board[1:]] == pytest.approx(0, abs=1e-6)
    finite = costs.across[np.isfinite(costs.across)]
    assert (finite > 1).sum() > 12


def test_pairs_whose_edges_do_not_fit_are_infinite(make_photo):
    spec, target, sheet, signatures = puzzle(make_photo(64, 64))
    costs = pair_costs(spec, sheet, signatures)
    for i, one in enumerate(target["signatures"]):
        for j, other in enumerate(target["signatures"]):
            assert np.isfinite(costs.across[i, j]) == (i != j and {one[1], other[3]} == {1, -1})
            assert np.isfinite(costs.down[i, j]) == (i != j and {one[2], other[0]} == {1, -1})


def test_costs_are_those_of_the_formula_written_out(make_photo):
    spec, target, sheet, signatures = puzzle(make_photo(64, 64), shape=False)
    costs = pair_costs(spec, sheet, signatures)
    pixels = cut_photo(spec, make_photo(64, 64)).astype(float)
    bodies = [pixels[16 * row : 16 * row + 16, 16 * column : 16 * column + 16] for row, column in target["cells"]]

    def one_way(own, before, other):
        steps = own - before
        precision = np.linalg.inv(np.cov(steps.T, bias=True) + NOISE * np.eye(3))
        errors = other - own - steps.mean(axis=0)
        return np.mean([error @ precision @ error for error in errors])

    for i, j in [(0, 1), (3, 9), (15, 2)]:
        left, right = bodies[i], bodies[j]
        expected = one_way(left[:, -1], left[:, -2], right[:, 0]) + one_way(right[:, 0], right[:, 1], left[:, -1])
        assert costs.across[i, j] == pytest.approx(expected)
        expected = one_way(left[-1], left[-2], right[0]) + one_way(right[0], right[1], left[-1])
        assert costs.down[i, j] == pytest.approx(expected)
