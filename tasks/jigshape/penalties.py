"""By what an arrangement of pieces is judged: pair costs made comparable, and flat sides on the border."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.jigshape.contour import PairCosts

TIE = 4.0
"""Penalty of a pair that costs exactly what its best rival costs; a pair that is mutually best gets less."""
WORST = 5.5
"""Highest penalty of edges that fit: the rival costs 1 / 4.5 of it, or less."""
UNFIT = 8.0
"""Penalty of edges that do not fit. Far above WORST the search could not pass through such arrangements."""
MISPLACED = 400.0
"""Penalty of a piece whose flat sides are not those of its cell."""

EMPTY = -1
"""On a board, int (N, N) of ids: no piece lies there."""
STEPS = ((-1, 0), (1, 0), (0, -1), (0, 1))
"""From a cell to its neighbours, (rows, columns)."""


@dataclass(frozen=True)
class Penalties:
    """What an arrangement of N² pieces costs, float64; lower is better."""

    grid: int
    across: np.ndarray
    """(N², N²) of [i, j]: j is the right neighbour of i."""
    down: np.ndarray
    """(N², N²) of [i, j]: j is below i."""
    cells: np.ndarray
    """(N², N, N) of a piece on a cell."""

    def beside(self, piece: np.ndarray | int, other: np.ndarray | int, step: tuple[int, int]) -> np.ndarray:
        """Of `piece` when `other` lies one step from it; the two are broadcast."""
        pairs = self.down if step[0] else self.across
        return pairs[piece, other] if sum(step) > 0 else pairs[other, piece]

    def of_board(self, board: np.ndarray) -> float:
        """Sum over the internal edges and the cells of a full board."""
        edges = self.across[board[:, :-1], board[:, 1:]].sum() + self.down[board[:-1], board[1:]].sum()
        return float(edges + np.take_along_axis(self.cells, board[None], axis=0).sum())

    def of_pieces(self, board: np.ndarray, pieces: np.ndarray) -> np.ndarray:
        """Each of `pieces` (n,) on each cell of a board, (n, N, N): with the pieces beside it, each less TIE, so that
        many good neighbours beat few."""
        grid = self.grid
        costs = self.cells[pieces]
        framed = np.pad(board, 1, constant_values=EMPTY)
        for down, right in STEPS:
            other = framed[1 + down : 1 + down + grid, 1 + right : 1 + right + grid]
            there = other != EMPTY
            costs[:, there] += self.beside(pieces[:, None], other[there], (down, right)) - TIE
        return costs

    def unsure(self, board: np.ndarray) -> np.ndarray:
        """Cells of a full board with an edge that is not clearly the best for both its pieces, bool (N, N)."""
        cells = np.zeros(board.shape, bool)
        across = self.across[board[:, :-1], board[:, 1:]] >= TIE
        down = self.down[board[:-1], board[1:]] >= TIE
        cells[:, :-1] |= across
        cells[:, 1:] |= across
        cells[:-1] |= down
        cells[1:] |= down
        return cells


def penalties(costs: PairCosts, signatures: np.ndarray | None) -> Penalties:
    """Each pair is compared with its best rival, on a log scale that ends at both sides: sums of raw costs would be
    ruled by a few busy edges.

    signatures: int8 (N², 4) by id; None without shape.
    """
    count = len(costs.across)
    grid = round(count**0.5)
    cells = np.zeros((count, grid, grid))
    if signatures is not None:
        row, column = np.indices((grid, grid))
        border = np.stack([row == 0, column == grid - 1, row == grid - 1, column == 0])  # (4, N, N)
        cells[((signatures == 0)[:, :, None, None] != border).any(axis=1)] = MISPLACED
    return Penalties(grid, _penalty(costs.across), _penalty(costs.down), cells)


def _penalty(cost: np.ndarray) -> np.ndarray:
    noise = 0.05  # costs near 0 that differ by less are a tie
    rival = np.minimum(_best_other(cost), _best_other(cost.T).T)
    rival[~np.isfinite(rival)] = 1e6  # no other pair fits, so this one is sure
    ratio = (cost + noise) / (rival + noise)
    scaled = np.log(np.maximum(ratio, np.exp(-TIE))) + TIE
    return np.where(np.isfinite(cost), np.minimum(scaled, WORST), UNFIT)


def _best_other(cost: np.ndarray) -> np.ndarray:
    """The lowest cost in the row of each entry, that entry left out."""
    lowest, second = np.partition(cost, 1, axis=1)[:, :2, None].transpose(1, 0, 2)
    return np.where(cost <= lowest, second, lowest)
