"""What edges alone say: reading them off a sheet, and the vision-free solver that counts arrangements or finds one.

An arrangement is told by the signature on each cell. Pieces of equal signature are interchangeable, so the searches
run over signatures, each written as one whole number, its code.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from tasks.jigshape.edges import BOTTOM, LEFT, RIGHT, TOP, draw_signatures
from tasks.jigshape.geometry import geometry
from tasks.jigshape.sheet import piece_mask
from tasks.jigshape.spec import Spec

MAX_FLIPS = 2_000_000
"""After so many tried edges `solve_signatures` gives up; 16x16 takes some thousands."""
MAX_STEPS = 1_000_000
"""After so many laid pieces `count_solutions` gives up."""

_PLACE_VALUES = (1, 3, 9, 27)
"""Of top, right, bottom, left in a code; each digit is the edge + 1."""
_NUM_CODES = 81
_TEMPERATURE = 0.5
"""In pieces of a wrong code. From 4x4 to 32x32 both .4 and .6 settle soon; at 1 large boards never do."""
_BATCH = 4096


def read_signatures(spec: Spec, sheet: np.ndarray) -> np.ndarray:
    """Signatures by id as they are drawn, int8 (N², 4): tab where anything shows outside the body, blank where nothing
    shows inside, else flat.

    All flat without shape. What has the colour of the ground is not seen: a tab of that colour reads as flat.

    sheet: uint8 (height, width, 3).
    """
    signatures = np.zeros((spec.grid**2, 4), np.int8)
    if not spec.shape:
        return signatures
    bodies = np.array([geometry(spec).body(index, spec.grid) for index in range(spec.grid**2)])  # (N², 2)
    for side in range(4):
        shown = []
        for edge in (1, -1):
            y, x = _half_disc(spec, side, edge)
            shown.append((sheet[bodies[:, :1] + y, bodies[:, 1:] + x] != spec.ground).any(axis=(1, 2)))
        signatures[:, side] = np.where(shown[0], 1, np.where(shown[1], 0, -1))
    return signatures


@lru_cache(maxsize=256)
def _half_disc(spec: Spec, side: int, edge: int) -> tuple[np.ndarray, np.ndarray]:
    """(y, x) relative to the body of the pixels that an edge adds (tab) or takes (blank)."""
    one_edge = (edge * np.eye(4, dtype=int)[side]).tolist()
    y, x = np.nonzero(piece_mask(spec, (0, 0, 0, 0)) ^ piece_mask(spec, tuple(one_edge)))
    return y - geometry(spec).reach, x - geometry(spec).reach


def count_solutions(signatures: np.ndarray, grid: int, limit: int) -> int | None:
    """How many assignments of the pieces, all told apart, to the cells have fitting edges everywhere and flat sides
    exactly on the outer border: `limit` if they are as many or more, None if MAX_STEPS did not decide it.

    signatures: int8 (N², 4) by id.
    """
    codes = _codes(signatures)
    if not _can_be_framed(codes, grid):
        return 0
    each = math.prod(math.factorial(int(count)) for count in np.bincount(codes))  # assignments per arrangement
    if each >= limit and _repair(codes, grid, np.random.default_rng(0)) is not None:
        return limit
    arrangements = _count_arrangements(codes, grid, math.ceil(limit / each))
    return None if arrangements is None else min(limit, arrangements * each)


def solve_signatures(signatures: np.ndarray, grid: int, seed: int) -> list[list[int]] | None:
    """[row, col] by id of one assignment as above, chosen by chance among many; None if MAX_FLIPS found none.

    It says nothing that edges do not say: equal pieces are dealt out by the seed.

    signatures: int8 (N², 4) by id.
    """
    rng = np.random.default_rng([1, seed])  # [1, ...]: not the stream from which a puzzle of this seed draws its edges
    codes = _codes(signatures)
    arrangement = _repair(codes, grid, rng) if _can_be_framed(codes, grid) else None
    if arrangement is None:
        return None
    order = rng.permutation(len(codes))
    pieces = order[np.argsort(codes[order], kind="stable")]
    places = np.empty(len(codes), int)
    places[pieces] = np.argsort(arrangement, kind="stable")
    return np.stack(np.divmod(places, grid), axis=1).tolist()


def _codes(signatures: np.ndarray) -> np.ndarray:
    return (signatures.reshape(-1, 4).astype(int) + 1) @ _PLACE_VALUES


def _can_be_framed(codes: np.ndarray, grid: int) -> bool:
    """Whether there are as many pieces of each kind (by flat sides) as cells."""
    some_board = _codes(draw_signatures(np.random.default_rng(0), grid))
    have, want = (
        sorted(tuple(_digit(each, side) == 1 for side in range(4)) for each in c) for c in (codes, some_board)
    )
    return have == want


def _digit(code: int, side: int) -> int:
    """0 blank, 1 flat, 2 tab."""
    return int(code) // _PLACE_VALUES[side] % 3


def _repair(codes: np.ndarray, grid: int, rng: np.random.Generator) -> np.ndarray | None:
    """The code on each cell, (N²,) row by row, found by repair: every board of edges fits, so edges are flipped from
    tab to blank and back until each code occurs as often as among the pieces. A solution is rare among the boards but
    there are so many that this walk, at a fixed temperature, soon meets one."""
    board = _codes(draw_signatures(rng, grid))
    surplus = (np.bincount(board, minlength=_NUM_CODES) - np.bincount(codes, minlength=_NUM_CODES)).tolist()
    at = board.tolist()
    edges = _internal_edges(grid)
    wrong = sum(map(abs, surplus))
    for _ in range(MAX_FLIPS // _BATCH):
        if wrong == 0:
            return np.array(at)
        picks = rng.integers(len(edges), size=_BATCH).tolist()
        tolerated = (_TEMPERATURE * rng.exponential(size=_BATCH)).tolist()
        for pick, worse in zip(picks, tolerated, strict=True):
            one, side, other, facing = edges[pick]
            step = 2 * (1 - _digit(at[one], side))  # from tab, digit 2, to blank, digit 0, or back
            moves = (
                (at[one], -1), (at[one] + step * _PLACE_VALUES[side], 1),
                (at[other], -1), (at[other] - step * _PLACE_VALUES[facing], 1),
            )  # fmt: skip
            change = 0
            for code, amount in moves:
                change += abs(surplus[code] + amount) - abs(surplus[code])
                surplus[code] += amount
            if change <= worse:
                at[one], at[other] = moves[1][0], moves[3][0]
                wrong += change
                if wrong == 0:
                    break
            else:
                for code, amount in moves:
                    surplus[code] -= amount
    return np.array(at) if wrong == 0 else None


def _internal_edges(grid: int) -> list[tuple[int, int, int, int]]:
    """(cell, its side, neighbour, its side), cells counted row by row."""
    cells = np.arange(grid**2).reshape(grid, grid)
    across = [(one, RIGHT, one + 1, LEFT) for one in cells[:, :-1].ravel().tolist()]
    return across + [(one, BOTTOM, one + grid, TOP) for one in cells[:-1].ravel().tolist()]


def _count_arrangements(codes: np.ndarray, grid: int, limit: int) -> int | None:
    """Boards of codes, counted up to `limit` by laying pieces row by row; None after MAX_STEPS."""
    stock = np.bincount(codes, minlength=_NUM_CODES).tolist()
    kinds: dict[tuple[int, int, bool, bool], list[int]] = {}  # codes by top, left, right is flat, bottom is flat
    for code in np.unique(codes).tolist():
        top, right, bottom, left = (_digit(code, side) for side in range(4))
        kinds.setdefault((top, left, right == 1, bottom == 1), []).append(code)

    def candidates(laid: list[int]) -> list[int]:
        row, column = divmod(len(laid), grid)
        top = 2 - _digit(laid[-grid], BOTTOM) if row else 1
        left = 2 - _digit(laid[-1], RIGHT) if column else 1
        fitting = kinds.get((top, left, column == grid - 1, row == grid - 1), [])
        return [code for code in fitting if stock[code]]

    laid: list[int] = []
    untried = [candidates(laid)]
    found = 0
    for _ in range(MAX_STEPS):
        while not untried[-1]:
            untried.pop()
            if not laid:
                return found
            stock[laid.pop()] += 1
        code = untried[-1].pop()
        if len(laid) == grid**2 - 1:
            found += 1
            if found == limit:
                return found
            continue
        laid.append(code)
        stock[code] -= 1
        untried.append(candidates(laid))
    return None
