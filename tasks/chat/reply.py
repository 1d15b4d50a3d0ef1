"""What is answered: the assistant's last text, word for word."""

from __future__ import annotations

from typing import Any

from tasks.chat.turns import Spec
from tasks.contract import Invalid, Span

ENTRIES = ("match", "valid")
REASONS = ("empty",)


def parse(text: str, spec: Spec) -> str | Invalid:
    """The text without the blanks around it."""
    return text.strip() or Invalid("empty")


def target_of(answer: str, spec: Spec) -> dict[str, Any]:
    """The target of a reply."""
    return {"text": answer}


def gold(target: dict[str, Any]) -> str:
    """The reply itself."""
    return target["text"]


def informative(gold_text: str) -> list[Span]:
    """All of it."""
    return [(0, len(gold_text))]


def score(answer: str | Invalid, target: dict[str, Any]) -> dict[str, float]:
    """match: 1 for the same words, any blanks and line breaks between them; valid: 1 for any text."""
    if isinstance(answer, Invalid):
        return {"match": 0.0, "valid": 0.0}
    return {"match": float(answer.split() == target["text"].split()), "valid": 1.0}


def chance(spec: Spec) -> dict[str, dict[str, float]]:
    """Nobody guesses a reply."""
    return {"random": {"match": 0.0, "valid": 1.0}}


def diagnose(answer: str | Invalid, target: dict[str, Any]) -> dict[str, Any]:
    """Why the answer is invalid, None if it is valid."""
    return {"reason": answer.reason if isinstance(answer, Invalid) else None}
