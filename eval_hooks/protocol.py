"""How answers are asked for. Every record says it, and nothing mixes them."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from models.drawing import Drawing
from recipes.schema import Recipe

_VOTED = re.compile(r"(.+) vote of ([1-9][0-9]{0,5})")
_DRAWN = re.compile(r"sampled t=([0-9.e+-]+) p=([0-9.e+-]+)")


class Protocol(NamedTuple):
    """How answers are written, and how many to each puzzle."""

    name: str
    """As records have it: greedy, constrained, sampled t=1 p=1; further fields of an endpoint's requests behind it."""
    drawing: Drawing | None = None
    """None: the most likely token each time."""
    samples: int = 1
    constrained: bool = False
    """Only what the task's grammar allows is written."""


GREEDY = Protocol("greedy")
"""The published one."""


def protocol_of(recipe: Recipe, *, served: bool = False) -> Protocol:
    """
    Args:
        served: whether an endpoint is asked, whose further fields and limit of tokens belong to the protocol.
    """
    asked, endpoint = recipe.eval, recipe.endpoint
    limit = {} if endpoint.max_completion_tokens is None else {"max_completion_tokens": endpoint.max_completion_tokens}
    extra = {**endpoint.extra, **limit} if served else {}
    further = f" {json.dumps(extra, sort_keys=True)}" if extra else ""
    if asked.protocol != "sampled":
        return Protocol(f"{asked.protocol}{further}", constrained=asked.protocol == "constrained")
    name = f"sampled t={asked.temperature:g} p={asked.top_p:g}{further}"
    return Protocol(name, Drawing(asked.temperature, asked.top_p), asked.samples)


def of_votes(protocol: str) -> tuple[str, int] | None:
    """The protocol of the answers that were voted on, and how many each puzzle has; None for no vote's."""
    found = _VOTED.fullmatch(protocol)
    return (found[1], int(found[2])) if found else None


def asked_again(protocol: str, samples: int) -> list[str]:
    """What `eval_hooks.run` is told so that it asks by a protocol; [] for one that it does not know, as of people.

    Args:
        protocol: as records have it.
        samples: answers to each puzzle.
    """
    if drawn := _DRAWN.fullmatch(protocol):
        temperature, top_p = drawn.groups()
        words = {"protocol": "sampled", "samples": samples, "temperature": temperature, "top_p": top_p}
        return [f"eval.{name}={value}" for name, value in words.items()]
    if protocol in ("greedy", "constrained"):
        return [f"eval.protocol={protocol}", "eval.samples=1"]
    return []
