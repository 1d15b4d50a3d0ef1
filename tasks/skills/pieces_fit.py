"""pieces_fit: is one piece the left, or upper, neighbour of another?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tasks.contract import Invalid
from tasks.jigshape.edges import BOTTOM, LEFT, RIGHT, TOP
from tasks.skills.skill import Skill
from tasks.skills.spec import Spec
from tasks.statements import after_answer, last_stated, one_of, statements, value

_RELATIONS = {"left of": ((0, 1), RIGHT, LEFT), "above": ((1, 0), BOTTOM, TOP)}
"""By words: the step from the first piece's cell to the second's, and the edges that face each other."""

_WORD = r"\b(?:yes|no(?!\s?\.?\s?#?[0-9]))\b"
_WAYS = statements(
    after_answer(value(_WORD), r"a\b"),
    # As a clause of its own: "no, ..." but not "no gap".
    rf"{value(_WORD)}(?=[\s*_`'\")\]]{{0,4}}(?:[.,;:!?]|\n|\Z))",
    value(_WORD),
)


def ask(jigsaw: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """A relation, then a pair, by coins.

    `pair` in the result: neighbours (half of the time), shapes fit or shapes differ (a quarter each where both exist).
    Only pieces that could have such a neighbour are asked about, so no flat edge gives the answer away.
    """
    relation = list(_RELATIONS)[rng.integers(2)]
    step, facing, faced = _RELATIONS[relation]
    cells, signatures = np.array(jigsaw["cells"]), np.array(jigsaw["signatures"])  # (N², 2), (N², 4)
    after = cells + step  # (N², 2): where the second piece would lie
    first = np.flatnonzero((after < jigsaw["grid"]).all(axis=1))  # (N(N-1),)
    second = np.flatnonzero((cells >= step).all(axis=1))  # (N(N-1),)
    neighbours = (after[first, None] == cells[second]).all(axis=-1)  # (N(N-1), N(N-1))
    others = ~neighbours & (first[:, None] != second)
    fits = signatures[first, None, facing] == -signatures[second, faced]
    wanted = ("neighbours", "neighbours", "shapes fit", "shapes differ")[rng.integers(4)]
    pairs = {"neighbours": neighbours, "shapes fit": others & fits, "shapes differ": others & ~fits}
    if not pairs[wanted].any():
        wanted = "shapes differ" if wanted == "shapes fit" else "shapes fit"
    at, to = np.divmod(rng.choice(np.flatnonzero(pairs[wanted])), len(second))
    return {
        "asked": {"pieces": [int(first[at]), int(second[to])], "relation": relation},
        "answer": "yes" if wanted == "neighbours" else "no",
        "pair": wanted,
    }


def possible(spec: Spec, asked: dict[str, Any]) -> Iterable[str]:
    """Either word."""
    return ("yes", "no")


def parse(text: str, spec: Spec) -> str | Invalid:
    """The yes or no stated last: after "answer", else before a stop, else the last in the text."""
    return last_stated(text, _WAYS, one_of("yes", "no"), "no_verdict")


def diagnose(answer: str | Invalid, target: dict[str, Any]) -> dict[str, Any]:
    """What reports draw.

    pair        neighbours, shapes fit or shapes differ
    reason      why the answer is invalid, None if it is valid
    """
    return {"pair": target["pair"], "reason": answer.reason if isinstance(answer, Invalid) else None}


def chance(spec: Spec) -> dict[str, dict[str, float]]:
    """Either word: yes is right half of the time."""
    return {"random": {"correct": 0.5, "valid": 1.0}}


TASK = Skill(
    name="pieces_fit",
    spec=Spec,
    ask=ask,
    full="Does piece {0} go directly {relation} piece {1} in the picture? Answer with yes or no only.",
    brief="Does piece {0} go directly {relation} piece {1}? Answer yes or no.",
    parse=parse,
    write=str,
    possible=possible,
    invalid_reasons=("no_verdict", "truncated"),
    chance=chance,
    diagnose=diagnose,
).task()
