"""piece_edges: read one piece's four edges."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product
from typing import Any

import numpy as np

from tasks.contract import Invalid
from tasks.skills.skill import Skill, score
from tasks.skills.spec import ShapeSpec, Spec
from tasks.statements import after_answer, last_stated, statements, value

SIDES = ("top", "right", "bottom", "left")
_WORD_OF = {1: "tab", -1: "blank", 0: "flat"}

Answer = list[str]
"""tab, blank or flat at the top, right, bottom and left."""

_WORD = r"\b(?:tab|blank|flat)\b"
_MARK = r"[\s,;:/|=>\"'`*_(){}\[\]-]"
_SIDE = rf"\b(?:{'|'.join(SIDES)})\b"
_NAMED = rf"{_SIDE}(?:\s(?:edge|side)\b)?{_MARK}{{0,6}}(?:(?:is|has)\s)?(?:an?\s)?{_MARK}{{0,3}}{_WORD}"
_AND = rf"(?:{_MARK}|\.){{1,8}}(?:and\s{{1,2}})?(?:the\s)?"
# Four edges with their sides, or a row of edges; a row is read to its end, so that five words are not taken for four.
_FOUR_NAMED = rf"{_NAMED}(?:{_AND}{_NAMED}){{3}}"
_ROW = rf"{_WORD}(?:{_MARK}{{1,8}}+(?:and\s{{1,2}}+)?{_WORD})*+"
_WAYS = statements(
    after_answer(value(f"{_FOUR_NAMED}|{_ROW}"), r"edges\b|are\b"),
    value(f"{_FOUR_NAMED}|{_ROW}"),
)


def ask(jigsaw: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Any piece, each as likely."""
    piece = int(rng.integers(jigsaw["grid"] ** 2))
    return {"asked": {"pieces": [piece]}, "answer": [_WORD_OF[edge] for edge in jigsaw["signatures"][piece]]}


def possible(spec: Spec, asked: dict[str, Any]) -> Iterable[Answer]:
    """Any word on each side."""
    return map(list, product(_WORD_OF.values(), repeat=len(SIDES)))


def parse(text: str, spec: Spec) -> Answer | Invalid:
    """The last four edges in a row, or with their sides in any order; such as follow "answer" count first."""
    return last_stated(text, _WAYS, _edges, "no_edges")


def _edges(stated: str) -> Answer | None:
    """Four edges from the top on; None if they are not four, or a side is named twice."""
    words = re.findall(_WORD, stated.lower())
    sides = re.findall(_SIDE, stated.lower()) or SIDES
    if len(words) != 4 or sorted(sides) != sorted(SIDES):
        return None
    by_side = dict(zip(sides, words, strict=True))
    return [by_side[side] for side in SIDES]


def score_edges(answer: Answer | Invalid, target: dict[str, Any]) -> dict[str, float]:
    """As every sub-skill; edges: the share of the four that are right."""
    common = score(answer, target)
    right = [] if isinstance(answer, Invalid) else [a == b for a, b in zip(answer, target["answer"], strict=True)]
    return {"correct": common["correct"], "edges": sum(right) / 4, "valid": common["valid"]}


def diagnose(answer: Answer | Invalid, target: dict[str, Any]) -> dict[str, Any]:
    """What reports draw.

    wrong       the sides whose edge is not as given; empty if invalid
    reason      why the answer is invalid, None if it is valid
    """
    if isinstance(answer, Invalid):
        return {"wrong": [], "reason": answer.reason}
    sides = zip(SIDES, answer, target["answer"], strict=True)
    return {"wrong": [side for side, given, true in sides if given != true], "reason": None}


def chance(spec: Spec) -> dict[str, dict[str, float]]:
    """Always the likeliest four edges; of equally likely ones those with the most single edges right.

    Over the N² places of a piece, and its edges within the picture tab or blank by a coin, four certain edges have
    probability 1/4 · 1/N² (a corner's), 1/8 · (N-2)/N² (a border piece's) or 1/16 · (N-2)²/N² (an interior piece's).
    The first is the largest up to N = 3, the last from there on; at N = 4 all are equal. A certain edge of a piece is
    flat with 1/N, tab or blank with (N-1)/(2N) each: two flats and two tabs are right in (N+1)/(4N) of the edges, four
    tabs in (N-1)/(2N).
    """
    N = spec.puzzle.grid
    if N <= 3:
        return {"random": {"correct": 1 / (4 * N**2), "edges": (N + 1) / (4 * N), "valid": 1.0}}
    return {"random": {"correct": (N - 2) ** 2 / (16 * N**2), "edges": (N - 1) / (2 * N), "valid": 1.0}}


TASK = Skill(
    name="piece_edges",
    spec=ShapeSpec,
    ask=ask,
    full="What are the edges of piece {0}? Answer with four of the words tab, blank and flat, separated by commas: its "
    "top, right, bottom and left edge, in this order.",
    brief="Edges of piece {0}, top, right, bottom, left: tab, blank or flat?",
    parse=parse,
    write=", ".join,
    possible=possible,
    invalid_reasons=("no_edges", "truncated"),
    chance=chance,
    entries=("correct", "edges", "valid"),
    score=score_edges,
    diagnose=diagnose,
).task()
