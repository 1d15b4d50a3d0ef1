"""piece_cell: in which cell of the picture does a piece belong?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from tasks.contract import Invalid
from tasks.skills.skill import Skill
from tasks.skills.spec import Spec
from tasks.statements import after_answer, last_stated, statements, value

Answer = list[int]
"""[row, column], from 0."""

_COUNT = r"[0-9]{1,9}"
_BRACKETS = rf"(?<!\[)[\[(]\s{{0,4}}{_COUNT}\s{{0,4}},\s{{0,4}}{_COUNT}\s{{0,4}}[\])](?!\])"
_GAP = r"[\s:=*_`'\"#]{0,4}"
_NAME = rf"{_GAP}(?:is\b|no\b\.?|number\b)?{_GAP}"
_AND = r"[\s,;.*_`'\"]{0,6}(?:and\b\s)?[\s*_`'\"]{0,4}"
_NAMED = rf"\brow\b{_NAME}{_COUNT}{_AND}\bcol(?:umn)?\b{_NAME}{_COUNT}(?!\w|\.[0-9])"
# Two numbers, no more, that neither a bracket nor a minus sign precedes.
_BARE = rf"(?<![\w.,\[(-])(?<![,\[(-]\s){_COUNT}\s?,\s?{_COUNT}(?!\s?[,\])]|\w|\.[0-9])"
_WAYS = statements(
    after_answer(value(f"{_BRACKETS}|{_NAMED}|{_BARE}"), r"cell\b|at\b|in\b"),
    value(f"{_BRACKETS}|{_NAMED}"),
    value(_BARE),
)


def ask(jigsaw: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Any piece, each as likely."""
    piece = int(rng.integers(jigsaw["grid"] ** 2))
    return {"asked": {"pieces": [piece]}, "answer": jigsaw["cells"][piece]}


def possible(spec: Spec, asked: dict[str, Any]) -> Iterable[Answer]:
    """Any cell."""
    return [[row, column] for row in range(spec.puzzle.grid) for column in range(spec.puzzle.grid)]


def parse(text: str, spec: Spec) -> Answer | Invalid:
    """The cell stated last: after "answer", else in brackets or with the words row and column, else as two
    numbers."""
    answer = last_stated(text, _WAYS, _cell, "no_cell")
    if isinstance(answer, Invalid) or max(answer) < spec.puzzle.grid:
        return answer
    return Invalid("out_of_range")


def _cell(stated: str) -> Answer:
    row, column = map(int, re.findall(_COUNT, stated))
    return [row, column]


def diagnose(answer: Answer | Invalid, target: dict[str, Any]) -> dict[str, Any]:
    """What reports draw.

    displacement    [rows, columns] from the true cell to the answered one, None if invalid
    transposed      the answer is wrong, and is the true cell with row and column exchanged
    reason          why the answer is invalid, None if it is valid
    """
    if isinstance(answer, Invalid):
        return {"displacement": None, "transposed": False, "reason": answer.reason}
    true = target["answer"]
    return {
        "displacement": [answer[0] - true[0], answer[1] - true[1]],
        "transposed": answer != true and answer == true[::-1],
        "reason": None,
    }


def chance(spec: Spec) -> dict[str, dict[str, float]]:
    """Any cell: a piece is as likely to belong in each."""
    return {"random": {"correct": 1 / spec.puzzle.grid**2, "valid": 1.0}}


TASK = Skill(
    name="piece_cell",
    spec=Spec,
    ask=ask,
    full="In which cell of the picture does piece {0} belong? Rows and columns count from 0 at the top-left corner of "
    "the picture, so they run from 0 to {last}. Answer with [row, column] and nothing else.",
    brief="Which cell is piece {0}? Answer [row,column], from 0.",
    parse=parse,
    write=partial(json.dumps, separators=(",", ":")),
    possible=possible,
    invalid_reasons=("no_cell", "truncated", "out_of_range"),
    chance=chance,
    diagnose=diagnose,
).task()
