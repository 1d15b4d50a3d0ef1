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
    cells = target["cells"]
    if target["answer_format"] == "by_cell":
        return by_cell.write(cells, target["grid"])
    given = set() if target.get("repeat_clues", True) else set(target["clues"])
    pairs = by_id.write(cells, [index for index in range(len(cells)) if index not in given])
    return pairs if target["answer_format"] == "by_id" else f"{by_cell.write(cells, target['grid'])}\n{pairs}"


def informative(gold_text: str) -> list[Span]:
    """The numbers in lists, ids or coordinates: all else in a gold answer follows from the format."""
    return [match.span() for match in _NUMBERS.finditer(gold_text)]
