"""Weights are told apart by whether a swap that puts a piece right can lower the reward."""

import numpy as np
import pytest

from tasks.jigshape import TASK
from tasks.jigshape.spec import Spec
from tasks.jigshape.swaps import unsafe


def reward(weights, cells, target):
    scores = TASK.score(cells, target)
    return sum(weight * scores[entry] for entry, weight in weights.items())


def correcting_swaps(cells, truth):
    """Each arrangement in which one wrong piece has changed places with the piece on its cell."""
    at = {tuple(cell): index for index, cell in enumerate(cells)}
    for index, cell in enumerate(truth):
        if cells[index] != cell:
            swapped, other = [*cells], at[tuple(cell)]
            swapped[index], swapped[other] = cells[other], cells[index]
            yield swapped


def starts(puzzle, seed):
    """The truth half shuffled, in which edges are there to be lost, and an arrangement where all edges fit."""
    rng, texts = np.random.default_rng(seed), []
    texts += [TASK.partly_right(puzzle.target, share, rng) for share in (0.0, 0.5)]
    texts.append(TASK.degenerate(puzzle.target, rng)["edges fit"])
    return [TASK.parse(text, puzzle.spec) for text in texts]


@pytest.mark.parametrize("grid", [2, 3, 4, 8])
@pytest.mark.parametrize("entries", [("sc",), ("aa",), ("aa_oriented",), ("sc", "aa", "aa_oriented")])
def test_at_the_bound_no_correcting_swap_earns_less(pose, grid, entries):
    weights = dict.fromkeys(entries, (grid - 1) / (4 * grid) / len(entries)) | {"pa": 1.0}
    assert unsafe(weights, Spec(grid=grid)) is None
    assert unsafe(weights | {"pa": 0.99}, Spec(grid=grid)) is not None
    for seed in range(6):
        puzzle = pose(grid, seed)
        for cells in starts(puzzle, seed):
            before = reward(weights, cells, puzzle.target)
            after = [
                reward(weights, swapped, puzzle.target) for swapped in correcting_swaps(cells, puzzle.target["cells"])
            ]
            assert min(after, default=before) >= before - 1e-12


def test_at_equal_weights_most_correcting_swaps_from_where_all_edges_fit_earn_less(pose):
    puzzle, weights = pose(8, 0), {"pa": 1.0, "sc": 1.0}
    cells = starts(puzzle, 0)[-1]
    assert TASK.score(cells, puzzle.target)["sc"] == 1
    before = reward(weights, cells, puzzle.target)
    after = [reward(weights, swapped, puzzle.target) for swapped in correcting_swaps(cells, puzzle.target["cells"])]
    assert np.mean([value < before for value in after]) > 0.5


@pytest.mark.parametrize(("grid", "ratio"), [(2, "8"), (3, "6"), (4, "5.333"), (8, "4.571"), (16, "4.267")])
def test_the_bound_is_told(grid, ratio):
    assert unsafe({"pa": 1.0, "sc": 1.0}, Spec(grid=grid)) == f"pa at least {ratio} times sc, at grid {grid}"


@pytest.mark.parametrize(
    ("weights", "safe"),
    [
        ({"pa": 1.0}, True),
        ({"em": 1.0, "valid": 1.0, "pa_corner": 1.0}, True),
        ({"sc": 0.0}, True),
        ({"pa": 0.5, "pa_lenient": 0.5, "sc": 0.1}, True),
        ({"sc": 0.1}, False),
        ({"em": 1.0, "sc": 0.1}, False),
        ({"pa_corner": 9.0, "sc": 0.1}, False),
        ({"pa": 1.0, "sc": 0.1, "aa": 0.1}, False),
    ],
)
def test_all_entries_that_count_edges_stand_against_those_that_count_pieces(weights, safe):
    assert (unsafe(weights, Spec(grid=4)) is None) is safe
