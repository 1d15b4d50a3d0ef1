"""Answers as text, in every format: reading, the reference answer, and which of its characters carry information."""

from __future__ import annotations

import re
from typing import Any

from tasks.completion import spoken
from tasks.contract import Invalid, Span
from tasks.jigshape import by_cell, by_id
from tasks.jigshape.spec import Spec

Answer = by_id.Cells
"""[row, col] by id, whatever the format; None for a given piece that the answer leaves out."""

REASONS = (
    "no_json",  # nothing that opens like a JSON object, or like an array of arrays
    "truncated",  # it, or a <think> block, is never closed
    "several_objects",
    "several_arrays",
    "malformed",  # no JSON, or nested too deep to be an answer
    "duplicate_key",
    "wrong_keys",
    "wrong_shape",  # not N rows of N
    "bad_value",  # not a list of two whole numbers, or not a whole number
    "out_of_range",
    "conflict",  # two pieces on one cell, or an id in two cells
)

_NUMBERS = re.compile(r"(?<=[\[,])[0-9]++(?=[\],])")


def parse(text: str, spec: Spec) -> Answer | Invalid:
    """Cells by id, or why the text is no answer.

    In cells_then_ids the object alone counts: the rows before it are working.
    """
    heard = spoken(text)
    if heard is None:
        return Invalid("truncated")
    return (by_cell if spec.answer_format == "by_cell" else by_id).read(heard, spec)


def gold(target: dict[str, Any]) -> str:
    """The reference answer: compact JSON, ids or cells in order, without given pieces that are to be left out."""
    left_out = set() if target.get("repeat_clues", True) else set(target["clues"])
    cells = [None if index in left_out else cell for index, cell in enumerate(target["cells"])]
    return _written(cells, target["grid"], target["answer_format"])


def write(answer: Answer, spec: Spec) -> str:
    """An answer as the reference answer is written."""
    return _written(answer, spec.grid, spec.answer_format)


def _written(answer: Answer, grid: int, answer_format: str) -> str:
    placed = {index: cell for index, cell in enumerate(answer) if cell is not None}
    pairs = by_id.write(placed)
    if answer_format == "by_id":
        return pairs
    rows = by_cell.write(list(placed.values()), grid)  # nothing is left out in formats that have rows
    return rows if answer_format == "by_cell" else f"{rows}\n{pairs}"


def informative(gold_text: str) -> list[Span]:
    """The numbers in lists, ids or coordinates: all else in a gold answer follows from the format."""
    return [match.span() for match in _NUMBERS.finditer(gold_text)]
