"""What a leaderboard is made of. Rows of one board answered the same kinds of puzzles, drawn alike and scored alike."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, NamedTuple

from eval_hooks.intervals import Estimate, estimate, estimate_beyond_chance, mean_of
from tasks import TASKS

CHANCE = "random"
"""The guesser whose chance is taken off a score."""

Chance = Mapping[str, Mapping[str, float]]
"""Guesser -> score entry -> expectation."""


class PartKind(NamedTuple):
    """What the puzzles of a part are."""

    name: str
    task: str
    version: int
    specs: tuple[str, ...]
    """All that it has, as JSON, sorted; one, unless its examples come out of a dataset."""


class BoardKind(NamedTuple):
    """What two rows must share to be ranked together."""

    split: str
    protocol: str
    parts: tuple[PartKind, ...]
    """By name, numbers in it as numbers."""

    @property
    def id(self) -> str:
        """8 hex digits: equal kinds, equal id."""
        return hashlib.blake2b(json.dumps(self).encode(), digest_size=4).hexdigest()

    @property
    def versions(self) -> tuple[str, ...]:
        """`jigshape 1`, ..."""
        return tuple(dict.fromkeys(f"{part.task} {part.version}" for part in self.parts))


@dataclass(frozen=True)
class PartResult:
    """A row's means on one part."""

    primary: str
    entries: dict[str, Estimate]
    """Score entry -> mean over the answers it applies to; n is 0 where there is no interval (guesser, published)."""
    beyond: dict[str, Estimate]
    """Guesser -> the primary score beyond it; absent where the guesser is always right."""


@dataclass(frozen=True)
class Row:
    """A line of a board."""

    kind: Literal["run", "guesser", "program", "published"]
    run: str
    """Empty for a reference."""
    model: str
    step: int | None
    parts: dict[str, PartResult]
    """A reference may lack some."""
    beyond: dict[str, Estimate]
    """Guesser -> mean over the parts that have it."""
    puzzles: str = ""
    """4 hex digits: rows with the same answered the very same puzzles."""
    rank: int | None = None
    best: bool = False
    """The run's best on this board, judged by the puzzles that all its rows answered, trials apart."""
    note: str = ""

    @property
    def n(self) -> int:
        """Puzzles of all parts; 0 for guessers and published figures."""
        return sum(part.entries[part.primary].n for part in self.parts.values())


class Apart(NamedTuple):
    """Answers that a board cannot rank."""

    run: str
    model: str
    step: int | None
    reason: str


@dataclass(frozen=True)
class Board:
    """Rows that are ranked together, best first, and the references among them."""

    kind: BoardKind
    guessers: tuple[str, ...]
    rows: tuple[Row, ...]
    apart: tuple[Apart, ...]

    def score(self, row: Row, guesser: str = CHANCE) -> Estimate | None:
        """A row's mean beyond a guesser; beyond chance it ranks. None for a reference that lacks a part."""
        return row.beyond.get(guesser) if len(row.parts) == len(self.kind.parts) else None

    def entries(self, part: PartKind) -> list[str]:
        """The score entries that a row has on a part: the primary, then in the task's order."""
        task = TASKS[part.task]
        found = {entry for row in self.rows if part.name in row.parts for entry in row.parts[part.name].entries}
        return sorted((e for e in task.entries if e in found), key=lambda entry: entry != task.primary)


def part_result(task: str, scored: Iterable[tuple[str, Mapping[str, float]]], chance: Chance) -> PartResult:
    """
    Args:
        scored: (key of the puzzle, its scores) of each answer; the primary entry in all of them.
    """
    answers = list(scored)
    own = {entry: [(key, scores[entry]) for key, scores in answers if entry in scores] for entry in TASKS[task].entries}
    return result_of(task, {entry: estimate(values) for entry, values in own.items() if values}, chance)


def result_of(task: str, entries: dict[str, Estimate], chance: Chance) -> PartResult:
    """What means are worth beyond each guesser."""
    primary = TASKS[task].primary
    beyond = {name: estimate_beyond_chance(entries[primary], expected[primary]) for name, expected in chance.items()}
    return PartResult(primary, entries, {name: above for name, above in beyond.items() if above is not None})


def over_parts(parts: Mapping[str, PartResult]) -> dict[str, Estimate]:
    """Guesser -> the mean beyond it over the parts that have it."""
    guessers = dict.fromkeys(guesser for part in parts.values() for guesser in part.beyond)
    return {
        guesser: mean_of([part.beyond[guesser] for part in parts.values() if guesser in part.beyond])
        for guesser in guessers
    }


def chance_of(task: str, specs: Iterable[str]) -> dict[str, dict[str, float]]:
    """What guessers earn on the puzzles of one part; those that a puzzle has not are left out.

    Args:
        specs: of each puzzle, as JSON.
    """
    counts = Counter(specs)
    rows = [TASKS[task].chance(TASKS[task].Spec.model_validate_json(spec)) for spec in counts]
    return {
        guesser: {
            entry: fmean([row[guesser][entry] for row in rows], counts.values())
            for entry in rows[0][guesser]
            if all(entry in row[guesser] for row in rows)
        }
        for guesser in rows[0]
        if all(guesser in row for row in rows)
    }
