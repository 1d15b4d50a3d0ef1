"""What others have reported, out of published.yaml."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tasks.contract import Spec

FILE = Path(__file__).with_name("published.yaml")


class Figure(NamedTuple):
    """One model's published means on one kind of puzzle."""

    model: str
    source: str
    protocol: str
    task: str
    spec: dict[str, Any]
    """The fields of a spec that make it this kind of puzzle."""
    means: dict[str, float]
    """Score entry -> mean, in [0, 1]."""


@lru_cache(maxsize=1)
def figures() -> tuple[Figure, ...]:
    """All that published.yaml holds, in its order."""
    stored = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    found = []
    for line in stored["figures"]:
        puzzle = stored["puzzles"][line["puzzle"]]
        means = {name: value / 100 for name, value in line.items() if name not in ("model", "puzzle", "source")}
        figure = Figure(line["model"], line["source"], stored["protocol"], puzzle["task"], puzzle["spec"], means)
        found.append(figure)
    return tuple(found)


def published(task: str, specs: Sequence[Spec], protocol: str) -> dict[str, Figure]:
    """Model -> what was published on such puzzles.

    Args:
        specs: all of a part.
    """

    def fits(figure: Figure) -> bool:
        named = figure.spec.items()
        return all(getattr(spec, name, None) == value for spec in specs for name, value in named)

    own = [each for each in figures() if (each.task, each.protocol) == (task, protocol)]
    return {figure.model: figure for figure in own if fits(figure)}
