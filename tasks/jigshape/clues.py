"""Clues: which pieces a prompt places, and what is left to find."""

from __future__ import annotations

import math

import numpy as np

from tasks.jigshape.spec import Spec


def open_cells(spec: Spec, rng: np.random.Generator) -> np.ndarray:
    """Cells without a clue, bool (N, N): a random subset, or one square block at a random place."""
    left_open = np.zeros((spec.grid, spec.grid), bool)
    if spec.clue_layout == "block":
        side = math.isqrt(spec.num_open)
        row, column = rng.integers(spec.grid - side + 1, size=2)
        left_open[row : row + side, column : column + side] = True
    else:
        left_open.flat[rng.permutation(spec.num_pieces)[: spec.num_open]] = True
    return left_open
