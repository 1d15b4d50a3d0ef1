import numpy as np
import pytest

from tasks.jigshape.annealing import anneal, recut
from tasks.jigshape.contour import PairCosts
from tasks.jigshape.edges import draw_signatures
from tasks.jigshape.penalties import penalties

GRID = 5
TRUTH = np.arange(GRID**2).reshape(GRID, GRID)


def clear_judge(shape):
    """Penalties under which the board in row-major order is the best by far."""
    across, down = np.random.default_rng(0).uniform(5, 10, (2, GRID**2, GRID**2))
    across[TRUTH[:, :-1], TRUTH[:, 1:]] = 1
    down[TRUTH[:-1], TRUTH[1:]] = 1
    signatures = draw_signatures(np.random.default_rng(0), GRID).reshape(-1, 4) if shape else None
    return penalties(PairCosts(across, down), signatures)


@pytest.mark.parametrize("shape", [True, False])
def test_annealing_puts_exchanged_pieces_back(shape):
    board = TRUTH.copy()
    board[1, 1], board[2, 3], board[1, 2] = TRUTH[2, 3], TRUTH[1, 2], TRUTH[1, 1]
    free = np.zeros_like(board, bool)
    free[1:4, 1:4] = True
    judge = clear_judge(shape)
    assert anneal(judge, board, free, np.random.default_rng(0)).tolist() == TRUTH.tolist()


def test_annealing_moves_free_pieces_only():
    judge = clear_judge(True)
    board = TRUTH.copy()
    board[0, 1:4], board[1:4, 0] = TRUTH[0, [3, 1, 2]], TRUTH[[2, 3, 1], 0]
    free = np.zeros_like(board, bool)
    free[0] = True
    after = anneal(judge, board, free, np.random.default_rng(0))
    assert after[0].tolist() == TRUTH[0].tolist()
    assert after[1:].tolist() == board[1:].tolist()


def test_annealing_nothing_that_could_move_changes_nothing():
    free = np.zeros_like(TRUTH, bool)
    free[0, 0] = free[0, 2] = free[2, 2] = True  # one of each kind
    assert anneal(clear_judge(True), TRUTH, free, np.random.default_rng(0)).tolist() == TRUTH.tolist()


@pytest.mark.parametrize("shift", [(0, 0), (1, 0), (0, 3), (4, 2)])
def test_a_rolled_board_is_cut_open_where_it_was(shift):
    assert recut(clear_judge(False), np.roll(TRUTH, shift, axis=(0, 1))).tolist() == TRUTH.tolist()
