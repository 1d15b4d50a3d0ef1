"""piece_right: which piece goes directly right of a piece?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tasks.contract import Invalid
from tasks.skills.skill import Skill
from tasks.skills.spec import Spec
from tasks.statements import NUMBER, after_answer, after_noun, last_stated, statements, value

_NOUNS = r"no\b\.?|number\b|piece\b|id\b"
# "right of piece 3" and "piece 3's" say which piece was asked about, not which one is the answer. Keys of an object and
# lists of numbers are answers to other questions.
_STATED = value(rf"{NUMBER}(?!['’]s)")
_MENTIONED = rf"\bof\b\s(?:the\s)?(?:{_NOUNS})?[\s#*_`'\"]{{0,4}}{NUMBER}"
_WAYS = statements(
    after_answer(_STATED, _NOUNS),
    f"{_MENTIONED}|{after_noun(_STATED, _NOUNS)}",
    rf"{_MENTIONED}|(?<![\[,]){_STATED}(?!\"\s?:)",
)


def ask(jigsaw: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Any piece that is not in the last column, each as likely."""
    cells = np.array(jigsaw["cells"])  # (N², 2)
    piece = int(rng.choice(np.flatnonzero(cells[:, 1] < jigsaw["grid"] - 1)))
    row, column = jigsaw["cells"][piece]
    return {"asked": {"pieces": [piece]}, "answer": jigsaw["cells"].index([row, column + 1])}


def possible(spec: Spec, asked: dict[str, Any]) -> Iterable[int]:
    """Any other piece."""
    return [index for index in range(spec.puzzle.grid**2) if index not in asked["pieces"]]


def parse(text: str, spec: Spec) -> int | Invalid:
    """The id stated last: after "answer", else after "piece" and the like, else the last; never one after "of"."""
    answer = last_stated(text, _WAYS, int, "no_number")
    if isinstance(answer, Invalid) or answer < spec.puzzle.grid**2:
        return answer
    return Invalid("out_of_range")


def chance(spec: Spec) -> dict[str, dict[str, float]]:
    """Any other piece: ids are a uniform permutation, so each of the N² - 1 is as likely."""
    return {"random": {"correct": 1 / (spec.puzzle.grid**2 - 1), "valid": 1.0}}


TASK = Skill(
    name="piece_right",
    spec=Spec,
    ask=ask,
    full="Which piece goes directly to the right of piece {0} in the picture? Answer with its id only.",
    brief="Which piece goes directly right of piece {0}?",
    parse=parse,
    write=str,
    possible=possible,
    invalid_reasons=("no_number", "truncated", "out_of_range"),
    chance=chance,
).task()
