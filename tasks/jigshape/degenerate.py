"""Answers that are partly right, and answers that miss the point: what a reward is tried on."""

from __future__ import annotations

from typing import Any

import numpy as np

from tasks.jigshape.answer import gold
from tasks.jigshape.score import has_edges
from tasks.jigshape.signatures import solve_signatures


def partly_right(target: dict[str, Any], share: float, rng: np.random.Generator) -> str:
    """round(share x pieces) pieces on their cells, the others shuffled. Clues are kept, and not counted."""
    open_ids = _open_ids(target)
    num_right = round(share * len(open_ids))
    return _shuffled(target, [rng.permutation(open_ids)[num_right:]], rng)


def degenerate(target: dict[str, Any], rng: np.random.Generator) -> dict[str, str]:
    """What it does -> the answer.

    random           any bijection
    flats only       pieces with the same sides flat shuffled; not without shape
    mirrored         left and right exchanged: the same neighbours
    shifted          all one row down, the last row on top: most of the same neighbours, in their directions
    two cells        pieces by turns on two cells; invalid
    edges fit        all edges fit, and as few pieces are right as exchanging equal ones allows; only where edges count
    said twice       the right answer, all of it twice; invalid
    """
    grid, cells = target["grid"], target["cells"]
    answers = {"random": partly_right(target, 0.0, rng)}
    if target["shape"]:
        answers["flats only"] = _shuffled(target, _open_kinds(target), rng)
    answers["mirrored"] = _placed(target, [[row, grid - 1 - column] for row, column in cells])
    answers["shifted"] = _placed(target, [[(row + 1) % grid, column] for row, column in cells])
    answers["two cells"] = _placed(target, [[0, index % 2] for index in range(grid**2)])
    if has_edges(target) and not target.get("clues"):
        answers["edges fit"] = _placed(target, _fitting(target, rng))
    answers["said twice"] = _said_twice(gold(target))
    return answers


def _placed(target: dict[str, Any], cells: list[list[int]]) -> str:
    """An answer in the target's format. cells: [row, col] by id."""
    return gold(target | {"cells": cells})


def _open_ids(target: dict[str, Any]) -> list[int]:
    given = set(target.get("clues", ()))
    return [index for index in range(target["grid"] ** 2) if index not in given]


def _open_kinds(target: dict[str, Any]) -> list[list[int]]:
    """Ids without a clue by which of their sides are flat."""
    last = target["grid"] - 1
    kinds: dict[tuple[bool, ...], list[int]] = {}
    for index in _open_ids(target):
        row, column = target["cells"][index]
        kinds.setdefault((row == 0, column == last, row == last, column == 0), []).append(index)
    return list(kinds.values())


def _shuffled(target: dict[str, Any], groups: list[Any], rng: np.random.Generator) -> str:
    """The truth with the cells of each group of ids dealt out among them."""
    cells = np.array(target["cells"])  # (N², 2)
    for ids in groups:
        cells[ids] = cells[rng.permutation(ids)]
    return _placed(target, cells.tolist())


def _fitting(target: dict[str, Any], rng: np.random.Generator) -> list[list[int]]:
    """[row, col] by id of an arrangement in which all edges fit. Pieces of equal signature, which can be exchanged, are
    moved around in the one of their cyclic orders that has the fewest right."""
    signatures = np.array(target["signatures"], np.int8)
    truth = np.array(target["cells"])
    found = solve_signatures(signatures, target["grid"], int(rng.integers(2**63)))
    cells = truth.copy() if found is None else np.array(found)
    for signature in np.unique(signatures, axis=0):
        ids = np.flatnonzero((signatures == signature).all(axis=1))
        orders = np.array([np.roll(cells[ids], step, axis=0) for step in range(len(ids))])  # (orders, pieces, 2)
        num_right = (orders == truth[ids]).all(axis=2).sum(axis=1)
        cells[ids] = orders[num_right.argmin()]
    return cells.tolist()


def _said_twice(text: str) -> str:
    """The object, or the rows where there is none, with all it holds repeated: a careless reader keeps the last."""
    start = max(text.find("{"), 0)
    return f"{text[:-1]},{text[start + 1 :]}"
