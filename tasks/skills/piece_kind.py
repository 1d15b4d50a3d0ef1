"""piece_kind: is a piece a corner, a border or an interior piece?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from pydantic import model_validator

from tasks.contract import Invalid
from tasks.skills.skill import Skill
from tasks.skills.spec import ShapeSpec
from tasks.statements import after_answer, last_stated, one_of, statements, value

KINDS = ("interior", "border", "corner")
"""By the number of flat edges."""

_KIND = rf"\b(?:{'|'.join(KINDS)})\b(?!\spieces)"
_OPEN = r"[\s*_`'\"]{0,4}"
_WAYS = statements(
    after_answer(value(_KIND), r"an?\b"),
    rf"\b(?:is|it's)\b{_OPEN}(?:(?:an?|the)\b)?{_OPEN}{value(_KIND)}",
    rf"\bnot\b{_OPEN}(?:(?:an?|the)\b)?{_OPEN}{_KIND}|{value(_KIND)}",
)


class Spec(ShapeSpec):
    """Of a grid that has pieces of every kind."""

    @model_validator(mode="after")
    def _every_kind_must_exist(self) -> Spec:
        if self.puzzle.grid < 3:
            raise ValueError(
                f"got puzzle.grid {self.puzzle.grid}; allowed: 3 or more, as smaller ones have corners only; "
                "raise puzzle.grid"
            )
        return self


def ask(jigsaw: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """A kind, each as likely, then any piece of it."""
    num_flats = int(rng.integers(len(KINDS)))
    of_kind = np.flatnonzero((np.array(jigsaw["signatures"]) == 0).sum(axis=1) == num_flats)
    return {"asked": {"pieces": [int(rng.choice(of_kind))]}, "answer": KINDS[num_flats]}


def possible(spec: Spec, asked: dict[str, Any]) -> Iterable[str]:
    """Any kind."""
    return KINDS


def parse(text: str, spec: Spec) -> str | Invalid:
    """The kind stated last: after "answer", else after "is", else the last in the text that no "not" precedes."""
    return last_stated(text, _WAYS, one_of(*KINDS), "no_kind")


def chance(spec: Spec) -> dict[str, dict[str, float]]:
    """Any kind: each is asked for as often."""
    return {"random": {"correct": 1 / len(KINDS), "valid": 1.0}}


TASK = Skill(
    name="piece_kind",
    spec=Spec,
    ask=ask,
    full="A corner piece has two flat edges, a border piece exactly one, an interior piece none. Which kind is piece "
    "{0}? Answer with one word: corner, border or interior.",
    brief="Is piece {0} corner, border or interior?",
    parse=parse,
    write=str,
    possible=possible,
    invalid_reasons=("no_kind", "truncated"),
    chance=chance,
).task()
