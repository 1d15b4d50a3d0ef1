"""Answers as text: a cell number, found in whatever the model says around it."""

from __future__ import annotations

from typing import Any

from tasks.contract import Invalid, Span
from tasks.grammar import Grammar, OneOf
from tasks.probes.spec import Spec
from tasks.statements import NUMBER, after_answer, after_noun, last_stated, statements, value

REASONS = (
    "no_number",
    "truncated",  # a <think> block is never closed
    "out_of_range",
)

_WAYS = statements(
    after_answer(value(NUMBER), r"cell\b|number\b|no\b\.?"),
    after_noun(value(NUMBER), r"no\b\.?|number|cell"),
    value(NUMBER),
)


def parse(text: str, spec: Spec) -> int | Invalid:
    """The number stated last: after "answer", else after "No." / "number" / "cell", else the last in the text."""
    answer = last_stated(text, _WAYS, int, "no_number")
    if isinstance(answer, Invalid) or 1 <= answer <= spec.grid**2:
        return answer
    return Invalid("out_of_range")


def gold(target: dict[str, Any]) -> str:
    """The reference answer: the number alone."""
    return str(target["number"])


def write(answer: int, spec: Spec) -> str:
    """An answer as the reference answer is written."""
    return str(answer)


def grammar(spec: Spec, asked: dict[str, Any]) -> Grammar:
    """Any cell's number."""
    return OneOf(tuple(str(number) for number in range(1, spec.grid**2 + 1)))


def informative(gold_text: str) -> list[Span]:
    """All of it."""
    return [(0, len(gold_text))]
