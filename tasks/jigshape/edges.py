"""Edges and signatures: which sides of a piece are tab (1), blank (-1) or flat (0)."""

from __future__ import annotations

import numpy as np

TOP, RIGHT, BOTTOM, LEFT = range(4)


def draw_signatures(rng: np.random.Generator, grid: int) -> np.ndarray:
    """Signatures (top, right, bottom, left) by cell, int8 (N, N, 4).

    Each of the 2N(N-1) internal edges is a tab of one neighbour or of the other with probability 1/2.
    """
    coins = rng.integers(0, 2, size=2 * grid * (grid - 1), dtype=np.int8) * 2 - 1
    right = coins[: grid * (grid - 1)].reshape(grid, grid - 1)
    bottom = coins[grid * (grid - 1) :].reshape(grid - 1, grid)
    signatures = np.zeros((grid, grid, 4), np.int8)
    signatures[:, :-1, RIGHT] = right
    signatures[:, 1:, LEFT] = -right
    signatures[:-1, :, BOTTOM] = bottom
    signatures[1:, :, TOP] = -bottom
    return signatures
