"""Mending a full board: swaps of two pieces under a falling temperature, and cutting it open elsewhere."""

from __future__ import annotations

import numpy as np

from tasks.jigshape.penalties import Penalties

SWAPS_PER_CELL = 1000
HOT, COLD = 2.0, 0.2
"""First and last temperature, in penalties: half a tie to nearly none."""


def anneal(judge: Penalties, board: np.ndarray, free: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A board (N, N) after SWAPS_PER_CELL tried swaps for each cell in `free`, bool (N, N). Pieces are only swapped
    between cells that allow the same pieces."""
    count, grid = len(judge.across), judge.grid
    # Plain lists: a swap reads sixteen numbers, and numpy's indexing would cost more than the sums.
    across, down = (np.pad(pairs, ((0, 1), (0, 1))).tolist() for pairs in (judge.across, judge.down))
    frame = np.pad(board, 1, constant_values=count)  # a piece beyond the border, of no penalty
    width = grid + 2
    at = frame.ravel().tolist()
    kinds: dict[bytes, list[int]] = {}
    for row, column in np.argwhere(free).tolist():
        kinds.setdefault(judge.cells[:, row, column].tobytes(), []).append((row + 1) * width + column + 1)
    cells = [(cell, kind) for kind in kinds.values() if len(kind) > 1 for cell in kind]
    if not cells:
        return board
    tries = SWAPS_PER_CELL * len(cells)
    firsts = rng.integers(len(cells), size=tries).tolist()
    seconds = rng.random(tries).tolist()
    temperature = HOT * (COLD / HOT) ** (np.arange(tries) / tries)
    tolerated = (temperature * rng.exponential(size=tries)).tolist()  # Metropolis' rule, turned around

    def around(cell: int) -> float:
        piece = at[cell]
        return (
            across[at[cell - 1]][piece] + across[piece][at[cell + 1]]
            + down[at[cell - width]][piece] + down[piece][at[cell + width]]
        )  # fmt: skip

    def of_two(low: int, high: int) -> float:
        if high - low == 1:
            shared = across[at[low]][at[high]]
        else:
            shared = down[at[low]][at[high]] if high - low == width else 0.0
        return around(low) + around(high) - shared

    for first, second, worse in zip(firsts, seconds, tolerated, strict=True):
        one, kind = cells[first]
        other = kind[int(second * len(kind))]
        if one == other:
            continue
        low, high = (one, other) if one < other else (other, one)
        before = of_two(low, high)
        at[low], at[high] = at[high], at[low]
        if of_two(low, high) - before > worse:
            at[low], at[high] = at[high], at[low]
    return np.array(at).reshape(width, width)[1:-1, 1:-1]


def recut(judge: Penalties, board: np.ndarray) -> np.ndarray:
    """The board rolled so that its costliest seams, wrapped ones included, lie on the border: without flat sides
    nothing else says where a board begins."""
    for axis, pairs in enumerate((judge.down, judge.across)):
        seams = pairs[board, np.roll(board, -1, axis)].sum(axis=1 - axis)
        board = np.roll(board, -1 - int(seams.argmax()), axis)
    return board
