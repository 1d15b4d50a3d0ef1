import numpy as np
import pytest

from tasks.jigshape.contour import PairCosts
from tasks.jigshape.edges import draw_signatures
from tasks.jigshape.penalties import EMPTY, MISPLACED, TIE, UNFIT, WORST, penalties


def random_costs(count, seed=0):
    across, down = np.random.default_rng(seed).uniform(0.1, 10, (2, count, count))
    np.fill_diagonal(across, np.inf)
    np.fill_diagonal(down, np.inf)
    return PairCosts(across, down)


def test_a_pair_is_below_a_tie_only_if_both_its_pieces_prefer_it():
    costs = random_costs(9)
    judge = penalties(costs, None)
    for i in range(9):
        for j in range(9):
            best = costs.across[i, j] == costs.across[i].min() == costs.across[:, j].min()
            assert (judge.across[i, j] < TIE) == best


def test_equal_costs_are_a_tie_and_far_worse_ones_end_at_the_worst():
    across = np.full((4, 4), np.inf)
    across[0, 1] = across[0, 2] = 3.0
    across[0, 3] = 1000.0
    judge = penalties(PairCosts(across, across), None)
    assert judge.across[0, 1:].tolist() == pytest.approx([TIE, TIE, WORST])
    assert judge.across[1, 0] == UNFIT


def test_a_piece_is_misplaced_where_its_flat_sides_are_not_those_of_the_cell():
    signatures = draw_signatures(np.random.default_rng(0), 3).reshape(-1, 4)
    judge = penalties(random_costs(9), signatures)
    assert (judge.cells == MISPLACED).sum() == 9 * 9 - 9  # at 3x3 every kind has one cell
    assert judge.cells[np.arange(9), *np.divmod(np.arange(9), 3)].tolist() == [0] * 9


def test_a_board_costs_what_its_edges_and_cells_cost():
    judge = penalties(random_costs(4), draw_signatures(np.random.default_rng(0), 2).reshape(-1, 4))
    board = np.array([[2, 1], [0, 3]])
    edges = judge.across[2, 1] + judge.across[0, 3] + judge.down[2, 0] + judge.down[1, 3]
    assert judge.of_board(board) == pytest.approx(edges + 2 * MISPLACED)


def test_a_piece_on_an_empty_cell_costs_what_the_board_gains_by_it():
    judge = penalties(random_costs(9), draw_signatures(np.random.default_rng(0), 3).reshape(-1, 4))
    board = np.random.default_rng(1).permutation(9).reshape(3, 3)
    for row, column in [(1, 1), (0, 1), (2, 2)]:
        partial = board.copy()
        partial[row, column] = EMPTY
        gains = judge.of_pieces(partial, np.arange(9))[:, row, column]
        swapped = np.array([judge.of_board(np.where(partial == EMPTY, piece, partial)) for piece in range(9)])
        assert gains - gains[0] == pytest.approx(swapped - swapped[0])


def test_cells_are_unsure_beside_edges_that_have_a_better_rival():
    across = np.full((4, 4), np.inf)
    across[0, 1], across[2, 3], across[2, 1] = 1.0, 5.0, 2.0
    down = np.full((4, 4), np.inf)
    down[0, 2] = down[1, 3] = 1.0
    judge = penalties(PairCosts(across, down), None)
    assert judge.unsure(np.array([[0, 1], [2, 3]])).tolist() == [[False, False], [True, True]]
