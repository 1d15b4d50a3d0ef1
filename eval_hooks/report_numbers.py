"""The numbers of a report: scores with intervals, what they stand beside, pairs of parts, which parts a line joins.

Nothing asks which task it is: what is told apart is told by names of entries and by the fields of specs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from eval_hooks.aggregate import Aggregate
from eval_hooks.diagnose import diagnose_part
from eval_hooks.intervals import Estimate, estimate
from eval_hooks.paired import Difference, compare_scores
from eval_hooks.published import published
from eval_hooks.records import Record
from eval_hooks.several import Several, several
from eval_hooks.summary import PartSummary, Solved, summarize
from recipes.fields import problem
from tasks import TASKS


class Reference(NamedTuple):
    """Something to read a score beside: no answers of the model."""

    name: str
    kind: str
    """guesser, program or published."""
    means: Mapping[str, float]
    """Score entry -> mean in [0, 1]."""
    source: str
    """Who published it; empty for the others."""


@dataclass(frozen=True)
class PartNumbers:
    """Of one part."""

    summary: PartSummary
    version: int
    spec: Mapping[str, Any]
    """Of its first puzzle, nested fields by dotted names."""
    scores: dict[str, Estimate]
    """Score entry -> its mean and interval, the primary first; one that applies to no answer is absent."""
    references: list[Reference]
    said: Aggregate
    several: Several | None
    """Of several answers to each puzzle; None where there are none, or not of each as many."""

    @property
    def primary(self) -> Estimate:
        return self.scores[self.summary.primary]


class Pair(NamedTuple):
    """Two parts that ask about the same photos and seeds."""

    base: str
    twin: str
    primary: str
    changed: dict[str, tuple[Any, Any]]
    """Field of the spec -> (base's, twin's)."""
    differences: dict[str, Difference]
    """Score entry -> base minus twin, the primary first."""


class Place(NamedTuple):
    """Of a part in a chart."""

    part: str
    joined: bool
    """Whether a line leads here from the place before."""


def part_numbers(part: str, records: Sequence[Record], solved: Solved) -> PartNumbers:
    """
    Raises:
        ValueError: the records do not belong together, or a spec or target is none of the task.
    """
    said = diagnose_part(part, records).said
    summary = summarize(records, solved)[part]
    task = TASKS[summary.task]
    unranked = sum(task.primary not in record.scores for record in records)
    if unranked:
        got = f"{unranked} answers without a score {task.primary}"
        raise ValueError(problem(f"part {part}", got, "answers that this version scored", "do score them again"))
    scores = {
        entry: estimate((record.key, record.scores[entry]) for record in records if entry in record.scores)
        for entry in sorted(task.entries, key=lambda entry: entry != task.primary)
        if summary.counts[entry]
    }
    specs = [task.Spec.model_validate_json(text) for text in {json.dumps(record.spec) for record in records}]
    references = [
        Reference(name, "program" if name in task.solvers else "guesser", means, "")
        for name, means in summary.baselines.items()
    ]
    found = published(task.name, specs, records[0].protocol)
    references += [Reference(model, "published", figure.means, figure.source) for model, figure in found.items()]
    spec = dict(_flat(specs[0].model_dump(mode="json")))
    return PartNumbers(summary, records[0].version, spec, scores, references, said, several(part, records))


def pairs(parts: Mapping[str, Sequence[Record]], numbers: Mapping[str, PartNumbers]) -> list[Pair]:
    """Each part that shares photos and seeds with an earlier part of its task, and the first such part."""
    found = []
    names = list(parts)
    for place, twin in enumerate(names):
        for base in names[:place]:
            one, other = numbers[base], numbers[twin]
            changed = {
                name: (one.spec.get(name), other.spec.get(name))
                for name in {**one.spec, **other.spec}
                if one.spec.get(name) != other.spec.get(name)
            }
            if one.summary.task != other.summary.task or one.version != other.version or not changed:
                continue
            differences = {
                entry: difference
                for entry in one.scores
                if (difference := compare_scores(_by_origin(parts[base], entry), _by_origin(parts[twin], entry)))
            }
            if differences:
                found.append(Pair(base, twin, one.summary.primary, changed, differences))
                break
    return found


def _by_origin(records: Sequence[Record], entry: str) -> dict[str, float]:
    """Photo and seed -> mean score of the puzzle's samples."""
    scores: dict[str, list[float]] = {}
    for record in records:
        if entry in record.scores:
            scores.setdefault(json.dumps([record.photo_id, record.seed]), []).append(record.scores[entry])
    return {origin: sum(own) / len(own) for origin, own in scores.items()}


def places(numbers: Mapping[str, PartNumbers]) -> list[Place]:
    """The parts of one task in the order of a chart: such that differ in one number alone, as their grid, are a curve
    over it. A part is on one curve, the longest that it could be on; others stand for themselves."""
    families: dict[str, dict[float, str]] = {}
    for part, own in numbers.items():
        for field, value in own.spec.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                shared = json.dumps([field, {name: each for name, each in own.spec.items() if name != field}])
                families.setdefault(shared, {}).setdefault(value, part)
    curves: dict[str, list[str]] = {}
    while True:
        left = [{value: part for value, part in own.items() if part not in curves} for own in families.values()]
        longest = max(left, key=len, default={})
        if len(longest) < 2:
            break
        curve = [longest[value] for value in sorted(longest)]
        curves |= dict.fromkeys(curve, curve)
    placed: dict[str, Place] = {}
    for part in numbers:
        for at, name in enumerate(curves.get(part, [part])):
            placed.setdefault(name, Place(name, at > 0))
    return list(placed.values())


def _flat(fields: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value
