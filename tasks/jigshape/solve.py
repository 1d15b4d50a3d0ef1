"""The joint solver: a puzzle's answer from its sheet alone, by edges and pixels, and what its failures are due to."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tasks.jigshape.annealing import anneal
from tasks.jigshape.assembly import assemble_board, grown
from tasks.jigshape.contour import pair_costs
from tasks.jigshape.penalties import Penalties, penalties
from tasks.jigshape.sheet import draw_piece, draw_sheet, piece_mask
from tasks.jigshape.signatures import count_solutions, read_signatures
from tasks.jigshape.spec import Spec
from tasks.jigshape.twins import twins

FLAT = 3.0
"""Standard deviation, in pixel values, below which a piece hardly varies."""
_SAME = 1e-6
"""Costs that differ by less differ by the order of summation only."""
_REHEATED = 3
"""How often the truth is annealed, to see whether something else costs as little."""


@dataclass(frozen=True)
class Solution:
    """An answer and its `assembly_cost`."""

    cells: list[list[int]]
    """[row, col] by id."""
    cost: float


@dataclass(frozen=True)
class Certificate:
    """What is known about a puzzle's answer."""

    geometrically_unique: bool | None
    """Edges alone decide the puzzle; None if that was not decided within a bounded effort."""
    wrong: tuple[int, ...]
    """Ids that the joint solver misplaced, those of twins, and those that could be swapped at no cost: nobody could
    tell."""
    twins: tuple[tuple[int, ...], ...]
    """Groups of ids whose pieces are equal pixel for pixel."""
    cause: Literal["search", "ambiguous"] | None
    """search: the solver's answer costs more than the truth, so a better search could mend it. ambiguous: it does not,
    so what edges and rims show is not enough. None if nothing is wrong."""
    content: Literal["clipped", "flat", "other"] | None
    """Of the wrong pieces when ambiguous. clipped: half of their values or more are 0 or 255. flat: hardly any vary."""

    @property
    def solved(self) -> bool:
        return not self.wrong


def solve_pieces(spec: Spec, sheet: np.ndarray, signatures: np.ndarray | None = None, seed: int = 0) -> Solution:
    """The cheapest answer found; equal arguments, equal answer.

    sheet: uint8 (height, width, 3). signatures: int8 (N², 4) by id, read from the sheet if None; not used without
    shape.
    """
    return _solve(_judge(spec, sheet, signatures), seed)


def assembly_cost(spec: Spec, sheet: np.ndarray, cells: list[list[int]], signatures: np.ndarray | None = None) -> float:
    """What `solve_pieces` minimises, of any bijection: where a solver's answer costs more than the truth its search
    failed, else the puzzle is ambiguous to it. cells: [row, col] by id."""
    return _judge(spec, sheet, signatures).of_board(_board(cells, spec.grid))


def certificate(spec: Spec, target: dict[str, Any], pixels: np.ndarray) -> Certificate:
    """Solve a puzzle from its sheet and compare with the truth.

    pixels: what the pieces are cut from, uint8 (N*p, N*p, 3).
    """
    sheet = draw_sheet(spec, target, pixels)
    judge = _judge(spec, sheet, None)
    solution = _solve(judge, seed=0)
    pairs = zip(solution.cells, target["cells"], strict=True)
    given = frozenset(target.get("clues", ()))
    misplaced = {index for index, (placed, true) in enumerate(pairs) if placed != true} - given
    equal = twins(spec, target, pixels)
    truth = _board(target["cells"], spec.grid)
    unclear = {index for group in equal for index in group} | (
        set() if misplaced else _exchangeable(judge, truth, given)
    )
    cause: Literal["search", "ambiguous"] | None = None
    if misplaced and solution.cost > judge.of_board(truth) + _SAME:
        cause = "search"
    if unclear or (misplaced and cause is None):
        cause = "ambiguous"
    wrong = tuple(sorted(misplaced | unclear))
    return Certificate(
        geometrically_unique=_unique(spec, target),
        wrong=wrong,
        twins=tuple(map(tuple, equal)),
        cause=cause,
        content=_content(spec, target, pixels, wrong) if cause == "ambiguous" else None,
    )


def _exchangeable(judge: Penalties, board: np.ndarray, given: Collection[int]) -> set[int]:
    """Ids of pieces that could lie elsewhere at no higher cost, by a swap of two or, where edges are unsure, by what
    annealing comes to; given pieces stay."""
    pieces, grid = board.ravel(), judge.grid
    moved = judge.of_pieces(board, pieces).reshape(len(pieces), len(pieces))  # of each piece on each cell
    own = np.diag(moved)
    change = moved + moved.T - own[:, None] - own[None, :]
    row, column = np.divmod(np.arange(len(pieces)), grid)
    touching = abs(row[:, None] - row) + abs(column[:, None] - column) == 1  # there `change` sees one that moved
    movable = ~np.isin(pieces, list(given))
    doubtful = ((change <= _SAME) | touching) & movable & movable[:, None]
    trials = []
    for one, other in np.argwhere(np.triu(doubtful, 1)).tolist():
        trial = pieces.copy()
        trial[[one, other]] = pieces[[other, one]]
        trials.append(trial)
    if (unsure := judge.unsure(board)).any():
        annealed = (anneal(judge, board, grown(unsure), np.random.default_rng(seed)) for seed in range(_REHEATED))
        trials += [trial.ravel() for trial in annealed]
    limit = judge.of_board(board) + _SAME
    found: set[int] = set()
    for trial in trials:
        moved_cells = trial != pieces
        if moved_cells[~movable].any() or judge.of_board(trial.reshape(grid, grid)) > limit:
            continue
        found |= set(pieces[moved_cells].tolist())
    return found


def _judge(spec: Spec, sheet: np.ndarray, signatures: np.ndarray | None) -> Penalties:
    if signatures is None:
        signatures = read_signatures(spec, sheet)
    return penalties(pair_costs(spec, sheet, signatures), signatures if spec.shape else None)


def _solve(judge: Penalties, seed: int) -> Solution:
    board = assemble_board(judge, seed)
    cells = np.stack(np.divmod(np.argsort(board, axis=None), judge.grid), axis=1)
    return Solution(cells.tolist(), judge.of_board(board))


def _board(cells: list[list[int]], grid: int) -> np.ndarray:
    board = np.empty((grid, grid), int)
    rows, columns = np.array(cells).T
    board[rows, columns] = np.arange(grid**2)
    return board


def _unique(spec: Spec, target: dict[str, Any]) -> bool | None:
    if not spec.shape:
        return False
    signatures = np.array(target["signatures"])
    if len(np.unique(signatures, axis=0)) < len(signatures):
        return False  # swap two of equal signature; that the truth fits need not be searched
    count = count_solutions(signatures, spec.grid, limit=2)
    return None if count is None else count == 1


def _content(
    spec: Spec, target: dict[str, Any], pixels: np.ndarray, ids: tuple[int, ...]
) -> Literal["clipped", "flat", "other"]:
    shown = [
        draw_piece(spec, target["signatures"][i], pixels, target["cells"][i])[
            piece_mask(spec, tuple(target["signatures"][i]))
        ]
        for i in ids
    ]  # (pixels, 3) each
    if np.isin(np.concatenate(shown), (0, 255)).mean() >= 0.5:
        return "clipped"
    return "flat" if np.median([piece.std(axis=0).max() for piece in shown]) < FLAT else "other"
