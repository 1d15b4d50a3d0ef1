"""Answers in prose: what a text states last, in the surest way of stating it that occurs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from tasks.completion import spoken
from tasks.contract import Invalid

# A whole number: neither part of a decimal nor of a longer word. At most 9 digits are read; no grid has more.
NUMBER = r"(?<![\w.])[0-9]{1,9}(?![\w]|\.[0-9])"
_GAP = r"[\s:=*_`'\"(-]{0,4}"


def value(pattern: str) -> str:
    """Marks the part of a statement that is its value."""
    return f"(?P<value>{pattern})"


def after_answer(stated: str, filler: str) -> str:
    """A value after "answer"; `filler`: the words, as alternatives, that may stand between beside the usual ones."""
    words = rf"is\b|was\b|would\b|be\b|boxed\b|the\b|{filler}"
    return rf"\banswer\b(?:[\s:=*_`'\"({{$\\#-]|{words}){{0,12}}{stated}"


def after_noun(stated: str, nouns: str) -> str:
    """A value after "#" or one of `nouns`, given as alternatives."""
    return rf"(?:\b(?:{nouns})|#){_GAP}(?:is\b|number\b)?{_GAP}{stated}"


def statements(*patterns: str) -> tuple[re.Pattern[str], ...]:
    """Ways of stating an answer, from the surest to the least sure. In each, `value(...)` marks what is stated; a match
    without one is a mention that states nothing. Gaps must be bounded, so that time is linear in the text."""
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in patterns)


def one_of(*words: str) -> Callable[[str], str | None]:
    """Reads one of some words, in any case. Other letters that match without regard to case ("ſ") make no such word."""
    return lambda stated: stated.lower() if stated.lower() in words else None


def last_stated(text: str, ways: Sequence[re.Pattern[str]], read: Callable[[str], Any], nothing: str) -> Any | Invalid:
    """The last value that is stated in the surest way, <think> blocks aside.

    Args:
        ways: from `statements`.
        read: turns what is stated into an answer, or None if it is none.
        nothing: the reason if there is no such value; "truncated" if a <think> block is never closed.
    """
    heard = spoken(text)
    if heard is None:
        return Invalid("truncated")
    for way in ways:
        stated = [match["value"] for match in way.finditer(heard) if match["value"] is not None]
        answers = [answer for said in stated if (answer := read(said)) is not None]
        if answers:
            return answers[-1]
    return Invalid(nothing)
