"""The scorer: PA, EM, AA, SC and their relatives, defined here and nowhere else.

Formulas are the paper's (arXiv 2607.27670) on every bijection; an invalid answer scores 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tasks.contract import Invalid
from tasks.jigshape.answer import Answer
from tasks.jigshape.edges import BOTTOM, LEFT, RIGHT, TOP

ENTRIES = (
    "pa", "em", "aa", "sc", "aa_oriented", "valid", "pa_lenient", "pa_corner", "pa_border", "pa_interior",
)  # fmt: skip


def score(answer: Answer | Invalid, target: dict[str, Any]) -> dict[str, float]:
    """Entries in [0, 1]. E = 2N(N-1) is the number of internal edges.

    pa           pieces on their true cell / N²
    em           1 if pa is 1
    aa           pairs of ids adjacent in the answer and in the truth, unordered / E
    aa_oriented  the same, and the pair keeps its direction
    sc           internal edges of the answer where a tab faces a blank / E; absent without known edges
    valid        1 for a well-formed bijection
    pa_lenient   pa over the pieces that a lenient reader can use; equals pa if valid
    pa_corner, pa_border, pa_interior    pa over the pieces of a kind; absent where a grid has none

    With clues pa, em and pa_lenient count the other pieces alone, over their number, and only these and valid apply.
    """
    answer = checked(answer, target)
    grid, given = target["grid"], target.get("clues", ())
    names = applicable(grid, has_edges(target), clued=bool(given))
    asked = np.ones(grid**2, bool)
    asked[list(given)] = False
    cells = (answer.partial or []) if isinstance(answer, Invalid) else answer
    right = np.zeros(grid**2, bool)
    right[: len(cells)] = [placed == true for placed, true in zip(cells, target["cells"], strict=False)]
    pa = float(right[asked].mean())
    if isinstance(answer, Invalid):
        return dict.fromkeys(names, 0.0) | {"pa_lenient": pa}
    scores = {"pa": pa, "em": float(right[asked].all()), "valid": 1.0, "pa_lenient": pa}
    if not given:
        scores |= _neighbours(answer, target) | _kinds(right, target)
    return {name: scores[name] for name in names}


def checked(answer: Answer | Invalid, target: dict[str, Any]) -> Answer | Invalid:
    """The answer, invalid if it leaves out a piece that is asked for: only the target tells which those are."""
    if isinstance(answer, Invalid) or all(cell is not None for cell in answer):
        return answer
    given = set(target.get("clues", ()))
    missing = any(cell is None and index not in given for index, cell in enumerate(answer))
    return Invalid("wrong_keys", answer) if missing else answer


def has_edges(target: dict[str, Any]) -> bool:
    """Whether tabs and blanks are there and known; of a puzzle made elsewhere they are not."""
    return target["shape"] and "signatures" in target


def applicable(grid: int, shape: bool, *, clued: bool) -> tuple[str, ...]:
    """The entries that puzzles of a grid have."""
    if clued:
        return ("pa", "em", "valid", "pa_lenient")
    absent = set() if shape else {"sc"}
    if grid == 2:
        absent |= {"pa_border", "pa_interior"}
    return tuple(name for name in ENTRIES if name not in absent)


def _neighbours(answer: Answer, target: dict[str, Any]) -> dict[str, float]:
    """aa, aa_oriented and, where edges are known, sc of a bijection."""
    grid = target["grid"]
    truth = np.array(target["cells"])  # (N², 2)
    at = ids_by_cell(answer, grid)
    across = truth[at[:, 1:]] - truth[at[:, :-1]]  # (N, N-1, 2)
    down = truth[at[1:]] - truth[at[:-1]]  # (N-1, N, 2)
    num_edges = 2 * grid * (grid - 1)
    touching = sum(int((np.abs(step).sum(axis=-1) == 1).sum()) for step in (across, down))
    in_place = int((across == (0, 1)).all(axis=-1).sum() + (down == (1, 0)).all(axis=-1).sum())
    scores = {"aa": touching / num_edges, "aa_oriented": in_place / num_edges}
    if has_edges(target):
        scores["sc"] = sum(int(fits.sum()) for fits in fitting_edges(answer, target)) / num_edges
    return scores


def ids_by_cell(answer: Answer, grid: int) -> np.ndarray:
    """The id in each cell of a bijection, int (N, N)."""
    rows, columns = np.array(answer).T
    at = np.empty((grid, grid), np.intp)
    at[rows, columns] = np.arange(grid**2)
    return at


def fitting_edges(answer: Answer, target: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Where a tab faces a blank in a bijection, bool (N, N-1) across and (N-1, N) down; a flat inwards fits nothing."""
    signatures = np.array(target["signatures"])[ids_by_cell(answer, target["grid"])]  # (N, N, 4)
    across = signatures[:, :-1, RIGHT] * signatures[:, 1:, LEFT] == -1
    down = signatures[:-1, :, BOTTOM] * signatures[1:, :, TOP] == -1
    return across, down


def _kinds(right: np.ndarray, target: dict[str, Any]) -> dict[str, float]:
    """pa over corner, border and interior pieces. right: bool (N²,) by id."""
    truth = np.array(target["cells"])
    num_flats = ((truth == 0) | (truth == target["grid"] - 1)).sum(axis=1)  # 2 corner, 1 border, 0 interior
    kinds = (("pa_corner", 2), ("pa_border", 1), ("pa_interior", 0))
    return {name: float(right[num_flats == flats].mean()) for name, flats in kinds if (num_flats == flats).any()}
