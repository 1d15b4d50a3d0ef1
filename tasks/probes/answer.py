"""Answers as text: a cell number, found in whatever the model says around it."""

from __future__ import annotations

import re
from typing import Any

from tasks.completion import spoken
from tasks.contract import Invalid, Span
from tasks.probes.spec import Spec

REASONS = (
    "no_number",
    "truncated",  # a <think> block is never closed
    "out_of_range",
)

# A whole number: neither part of a decimal nor of a longer word. At most 9 digits are read; no grid has more.
_NUMBER = r"(?<![\w.])([0-9]{1,9})(?![\w]|\.[0-9])"
# From the surest way of stating an answer to the least sure. Gaps are bounded, so time is linear in the text.
_STATEMENTS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\banswer\b(?:[\s:=*_`'\"({{$\\#-]|is\b|was\b|cell\b|number\b|no\b\.?|would\b|be\b|boxed\b|the\b){{0,12}}{_NUMBER}",
        rf"(?:\b(?:no\b\.?|number|cell)|#)[\s:=*_`'\"(-]{{0,4}}(?:is\b|number\b)?[\s:=*_`'\"(-]{{0,4}}{_NUMBER}",
        _NUMBER,
    )
)


def parse(text: str, spec: Spec) -> int | Invalid:
    """The number stated last: after "answer", else after "No." / "number" / "cell", else the last in the text."""
    heard = spoken(text)
    if heard is None:
        return Invalid("truncated")
    for statement in _STATEMENTS:
        found = statement.findall(heard)
        if found:
            number = int(found[-1])
            return number if 1 <= number <= spec.grid**2 else Invalid("out_of_range")
    return Invalid("no_number")


def gold(target: dict[str, Any]) -> str:
    """The reference answer: the number alone."""
    return str(target["number"])


def informative(gold_text: str) -> list[Span]:
    """All of it."""
    return [(0, len(gold_text))]
