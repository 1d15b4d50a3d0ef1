import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.jigshape import TASK
from tasks.jigshape import signatures as module
from tasks.jigshape.edges import draw_signatures
from tasks.jigshape.sheet import cut_photo, draw_sheet
from tasks.jigshape.signatures import count_solutions, read_signatures, solve_signatures
from tasks.jigshape.spec import Spec


def drawn(grid, seed):
    """Signatures of a puzzle in row-major order, (N², 4)."""
    return draw_signatures(np.random.default_rng(seed), grid).reshape(-1, 4)


def num_fitting(boards):
    """How many of the boards, signatures (n, N, N, 4), fit everywhere."""
    fits = (boards[:, :, :-1, 1] * boards[:, :, 1:, 3] == -1).all(axis=(1, 2))
    fits &= (boards[:, :-1, :, 2] * boards[:, 1:, :, 0] == -1).all(axis=(1, 2))
    for side, rim in enumerate((boards[:, 0], boards[:, :, -1], boards[:, -1], boards[:, :, 0])):
        fits &= (rim[..., side] == 0).all(axis=1)
    return int(fits.sum())


def count_all_orders(signatures, grid):
    orders = np.array(list(itertools.permutations(range(grid**2))), np.int8)
    return num_fitting(signatures[orders].reshape(-1, grid, grid, 4))


def count_within_kinds(signatures):
    """4x4: every order of the pieces within each side's border and within the interior."""
    sides = [(1, 2), (4, 8), (7, 11), (13, 14), (5, 6, 9, 10)]
    boards = []
    for orders in itertools.product(*(itertools.permutations(side) for side in sides)):
        order = np.arange(16)
        for side, permuted in zip(sides, orders, strict=True):
            order[list(side)] = permuted
        boards.append(signatures[order].reshape(4, 4, 4))
    return num_fitting(np.array(boards))


def flipped(signatures, piece, side):
    """One edge turned from tab to blank or back, so that it may fit nothing any more."""
    changed = signatures.copy()
    changed[piece, side] *= -1
    return changed


@settings(max_examples=60, deadline=None)
@given(
    grid=st.integers(2, 6),
    seed=st.integers(0, 2**32),
    piece_px=st.integers(12, 40),
    tab_ratio=st.floats(0.2, 0.6),
    layout=st.sampled_from(["published", "aligned"]),
)
def test_signatures_read_from_a_sheet_are_those_of_the_target(make_photo, grid, seed, piece_px, tab_ratio, layout):
    spec = Spec(grid=grid, piece_px=piece_px, tab_ratio=tab_ratio, layout=layout, token_px=16)
    photo = make_photo(97, 89)
    target = TASK.pose(spec, photo, seed).target
    sheet = draw_sheet(spec, target, cut_photo(spec, photo))
    assert read_signatures(spec, sheet).tolist() == target["signatures"]


def test_without_shape_all_edges_are_read_as_flat(make_photo):
    spec = Spec(grid=3, shape=False, piece_px=16)
    photo = make_photo(48, 48)
    sheet = draw_sheet(spec, TASK.pose(spec, photo, 0).target, cut_photo(spec, photo))
    assert not read_signatures(spec, sheet).any()


@pytest.mark.parametrize("grid", [2, 3])
def test_small_puzzles_have_one_solution_and_brute_force_agrees(grid):
    for seed in range(20 if grid == 2 else 3):
        assert count_solutions(drawn(grid, seed), grid, limit=10**6) == 1 == count_all_orders(drawn(grid, seed), grid)


@pytest.mark.parametrize("seed", range(3))
def test_pieces_that_do_not_go_together_are_counted_as_brute_force_counts_them(seed):
    signatures = flipped(drawn(3, seed), piece=4, side=seed)
    assert count_solutions(signatures, 3, limit=10**6) == 0 == count_all_orders(signatures, 3)


@pytest.mark.parametrize("seed", range(40))
def test_4x4_solutions_are_counted_as_an_independent_counter_counts_them(seed):
    expected = count_within_kinds(drawn(4, seed))
    assert count_solutions(drawn(4, seed), 4, limit=10**6) == expected
    assert count_solutions(drawn(4, seed), 4, limit=2) == min(expected, 2)


def test_a_count_that_takes_too_long_is_none(monkeypatch):
    monkeypatch.setattr(module, "MAX_STEPS", 5)
    assert count_solutions(drawn(4, 0), 4, limit=10**6) is None


@pytest.mark.parametrize("grid", [8, 16])
def test_large_puzzles_are_known_to_have_several_solutions(grid):
    assert count_solutions(drawn(grid, 1), grid, limit=1000) == 1000


def test_pieces_of_the_wrong_kinds_have_no_solution():
    signatures = drawn(4, 0)
    signatures[0] = signatures[5]  # one corner too few
    assert count_solutions(signatures, 4, limit=2) == 0
    assert solve_signatures(signatures, 4, seed=0) is None


@pytest.mark.parametrize("grid", [2, 3, 4, 5, 8, 12, 16, 32])
def test_a_solution_is_a_bijection_that_fits_everywhere(pose, grid):
    for seed in range(5):
        target = pose(grid, seed).target
        cells = solve_signatures(np.array(target["signatures"]), grid, seed)
        assert sorted(cells) == [[row, column] for row in range(grid) for column in range(grid)]
        assert TASK.score(cells, target)["sc"] == 1


def test_a_solution_follows_from_pieces_and_seed():
    signatures = drawn(8, 3)
    assert solve_signatures(signatures, 8, seed=1) == solve_signatures(signatures, 8, seed=1)
    assert solve_signatures(signatures, 8, seed=1) != solve_signatures(signatures, 8, seed=2)


def test_ids_do_not_change_which_edges_lie_where():
    signatures = drawn(6, 4)
    order = np.random.default_rng(0).permutation(36)

    def by_cell(pieces):
        rows, columns = np.array(solve_signatures(pieces, 6, seed=0)).T
        board = np.empty((6, 6, 4), np.int8)
        board[rows, columns] = pieces
        return board.tolist()

    assert by_cell(signatures) == by_cell(signatures[order])


def test_a_solver_with_the_seed_of_the_puzzle_does_not_know_its_edges(pose):
    for seed in range(20):
        target = pose(8, seed).target
        rows, columns = np.array(solve_signatures(np.array(target["signatures"]), 8, seed)).T
        true_rows, true_columns = np.array(target["cells"]).T
        given, true = np.zeros((2, 8, 8, 4))
        given[rows, columns] = true[true_rows, true_columns] = target["signatures"]
        assert (given != true).any()


def test_a_solver_that_finds_nothing_says_so(monkeypatch):
    monkeypatch.setattr(module, "MAX_FLIPS", 20_000)
    assert solve_signatures(flipped(drawn(3, 0), piece=4, side=0), 3, seed=0) is None
