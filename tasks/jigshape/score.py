"""The scorer: PA, EM, AA, SC and their relatives, defined here and nowhere else.

Formulas are the paper's (arXiv 2607.27670) on every bijection; an invalid answer scores 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tasks.contract import Invalid
from tasks.jigshape.answer import Answer
from tasks.jigshape.edges import BOTTOM, LEFT, RIGHT, TOP
from tasks.jigshape.spec import Spec

ENTRIES = (
    "pa", "em", "aa", "sc", "aa_oriented", "valid", "pa_lenient", "pa_corner", "pa_border", "pa_interior",
)  # fmt: skip


def score(answer: Answer | Invalid, target: dict[str, Any]) -> dict[str, float]:
    """Entries in [0, 1]. E = 2N(N-1) is the number of internal edges.

    pa           pieces on their true cell / N²
    em           1 if pa is 1
    aa           pairs of ids adjacent in the answer and in the truth, unordered / E
    aa_oriented  the same, and the pair keeps its direction
    sc           internal edges of the answer where a tab faces a blank / E; absent without shape or signatures
    valid        1 for a well-formed bijection
    pa_lenient   pa over the pieces that a lenient reader can use; equals pa if valid
    pa_corner, pa_border, pa_interior    pa over the pieces of a kind; absent where a grid has none
    """
    truth = np.array(target["cells"])  # (N², 2)
    grid = target["grid"]
    names = applicable(grid, "signatures" in target and target["shape"])
    if isinstance(answer, Invalid):
        partial = answer.partial or []
        right = sum(given == true for given, true in zip(partial, target["cells"], strict=False))
        return dict.fromkeys(names, 0.0) | {"pa_lenient": right / grid**2}
    given = np.array(answer)  # (N², 2)
    right = (given == truth).all(axis=1)  # (N²,)
    at = np.empty((grid, grid), np.intp)  # id by cell
    at[given[:, 0], given[:, 1]] = np.arange(grid**2)
    across = truth[at[:, 1:]] - truth[at[:, :-1]]  # (N, N-1, 2)
    down = truth[at[1:]] - truth[at[:-1]]  # (N-1, N, 2)
    num_edges = 2 * grid * (grid - 1)
    touching = sum(int((np.abs(step).sum(axis=-1) == 1).sum()) for step in (across, down))
    in_place = int((across == (0, 1)).all(axis=-1).sum() + (down == (1, 0)).all(axis=-1).sum())
    num_flats = ((truth == 0) | (truth == grid - 1)).sum(axis=1)  # 2 corner, 1 border, 0 interior
    scores = {
        "pa": float(right.mean()),
        "em": float(right.all()),
        "aa": touching / num_edges,
        "aa_oriented": in_place / num_edges,
        "valid": 1.0,
        "pa_lenient": float(right.mean()),
    }
    if "sc" in names:
        signatures = np.array(target["signatures"])[at]  # (N, N, 4)
        fits_across = _fits(signatures[:, :-1, RIGHT], signatures[:, 1:, LEFT])
        fits_down = _fits(signatures[:-1, :, BOTTOM], signatures[1:, :, TOP])
        scores["sc"] = (fits_across + fits_down) / num_edges
    for kind, flats in (("pa_corner", 2), ("pa_border", 1), ("pa_interior", 0)):
        if kind in names:
            scores[kind] = float(right[num_flats == flats].mean())
    return {name: scores[name] for name in names}


def target_of(answer: Answer, spec: Spec) -> dict[str, Any]:
    """The target of a sheet made elsewhere, from its right answer: nothing says which edges are tabs."""
    return {"answer_format": spec.answer_format, "grid": spec.grid, "shape": spec.shape, "cells": answer}


def applicable(grid: int, shape: bool) -> tuple[str, ...]:
    """The entries that puzzles of a grid have."""
    absent = set() if shape else {"sc"}
    if grid == 2:
        absent |= {"pa_border", "pa_interior"}
    return tuple(name for name in ENTRIES if name not in absent)


def _fits(one: np.ndarray, other: np.ndarray) -> int:
    """How many facing edges are tab and blank: a flat that faces inwards fits nothing."""
    return int((one * other == -1).sum())


def diagnose(answer: Answer | Invalid, target: dict[str, Any]) -> dict[str, Any]:
    """What reports draw.

    displacement    [rows, columns] from true to given cell by id, None where a piece is not placed
    wrong           ids that are not on their true cell
    transposed      share of the pieces off the diagonal that lie on (column, row) instead of (row, column)
    reason          why the answer is invalid, None if it is valid
    """
    cells = (answer.partial or [None] * len(target["cells"])) if isinstance(answer, Invalid) else answer
    pairs = list(zip(cells, target["cells"], strict=True))
    off_diagonal = [(given, true) for given, true in pairs if true[0] != true[1]]
    return {
        "displacement": [given and [given[0] - true[0], given[1] - true[1]] for given, true in pairs],
        "wrong": [index for index, (given, true) in enumerate(pairs) if given != true],
        "transposed": sum(given == true[::-1] for given, true in off_diagonal) / len(off_diagonal),
        "reason": answer.reason if isinstance(answer, Invalid) else None,
    }
