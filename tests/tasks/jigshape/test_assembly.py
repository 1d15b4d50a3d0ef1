import numpy as np
import pytest

from tasks.jigshape.assembly import assemble_board
from tasks.jigshape.contour import PairCosts
from tasks.jigshape.edges import draw_signatures
from tasks.jigshape.penalties import penalties


def costs_of(truth, right, other=(5, 10), seed=0):
    """Pair costs under which the neighbours of a board cost `right` and all other pairs a chance number in `other`."""
    across, down = np.random.default_rng(seed).uniform(*other, (2, truth.size, truth.size))
    across[truth[:, :-1], truth[:, 1:]] = right
    down[truth[:-1], truth[1:]] = right
    np.fill_diagonal(across, np.inf)
    np.fill_diagonal(down, np.inf)
    return PairCosts(across, down)


def shuffled(grid, seed):
    return np.random.default_rng(seed).permutation(grid**2).reshape(grid, grid)


@pytest.mark.parametrize("grid", [2, 5, 10])
def test_neighbours_that_are_each_others_best_give_the_board(grid):
    truth = shuffled(grid, seed=grid)
    assert assemble_board(penalties(costs_of(truth, right=1), None)).tolist() == truth.tolist()


def test_pieces_without_sure_neighbours_are_filled_in():
    truth = shuffled(6, seed=1)
    costs = costs_of(truth, right=1)
    costs.across[truth[2, 2], truth[2, 3]] = costs.down[truth[1, 2], truth[2, 2]] = 20  # noise on two of four edges
    costs.down[truth[2, 2], truth[3, 2]] = costs.across[truth[2, 1], truth[2, 2]] = 5.1
    assert assemble_board(penalties(costs, None)).tolist() == truth.tolist()


@pytest.mark.parametrize("grid", [4, 8])
def test_with_equal_pixels_everywhere_the_edges_still_decide_the_border(grid):
    signatures = draw_signatures(np.random.default_rng(0), grid).reshape(-1, 4)
    fits_across = signatures[:, None, 1] * signatures[None, :, 3] == -1
    fits_down = signatures[:, None, 2] * signatures[None, :, 0] == -1
    costs = PairCosts(np.where(fits_across, 1.0, np.inf), np.where(fits_down, 1.0, np.inf))
    board = assemble_board(penalties(costs, signatures))
    assert sorted(board.ravel().tolist()) == list(range(grid**2))
    assert (signatures[board[0], 0] == 0).all()
    assert (signatures[board[:, -1], 1] == 0).all()
    assert (signatures[board[-1], 2] == 0).all()
    assert (signatures[board[:, 0], 3] == 0).all()
