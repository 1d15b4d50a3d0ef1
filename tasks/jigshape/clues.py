"""Clues: which pieces a prompt places, and what is left to find."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tasks.jigshape.spec import Spec


def given_ids(spec: Spec, cells: Sequence[Sequence[int]], rng: np.random.Generator) -> list[int]:
    """Ids of the pieces whose cells the prompt gives. Open are a random subset of the cells, or one square block.

    cells: [row, col] by id.
    """
    left_open = np.zeros((spec.grid, spec.grid), bool)
    if spec.clue_layout == "block":
        side = math.isqrt(spec.num_open)
        row, column = rng.integers(spec.grid - side + 1, size=2)
        left_open[row : row + side, column : column + side] = True
    else:
        left_open.flat[rng.permutation(spec.num_pieces)[: spec.num_open]] = True
    return [index for index, (row, column) in enumerate(cells) if not left_open[row, column]]
