"""What shares the parts have from which step on: a pure function of a curriculum and of what the run has found.

A decision by scores takes effect `lag` steps after them, so that batches which are being prepared already stay as they
are, for every number of workers and processes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from data_mix.scores import Scores
from recipes.schema import Adaptive, Curriculum, Data, Ladder, Stage


class Phase(NamedTuple):
    """A stretch of a run in which the parts' shares do not change."""

    start: int
    """Its first optimizer step, counted from 0."""
    name: str
    """For the log."""
    shares: Mapping[str, float]
    """{part: its share of a step}, in any unit; a part that is left out has none."""


def phases(curriculum: Curriculum, parts: Sequence[str], scores: Scores) -> list[Phase]:
    """The phases as far as they are decided, in their order; the first begins at 0.

    Args:
        parts: names of all training parts.
    """
    if curriculum.ladder is not None:
        return _climbed(curriculum.ladder, curriculum.lag, scores)
    if curriculum.adaptive is not None:
        return _adapted(curriculum.adaptive, parts, curriculum.lag, scores)
    stages = curriculum.stages or {}
    return [
        Phase(start, f"stage {name}", stages[name].shares)
        for start, name in zip(stage_starts(curriculum, scores), stages, strict=False)
    ]


def prompt_curriculum(data: Data) -> Curriculum:
    """A GRPO run's; where the recipe has none, one stage with the parts' counts as shares."""
    counts = {name: float(part.count) for name, part in data.parts.items()}
    return data.curriculum or Curriculum(stages={"all": Stage(shares=counts)})


def by_scores(curriculum: Curriculum) -> bool:
    """Whether anything depends on what the run finds out."""
    return curriculum.stages is None or any(stage.until for stage in curriculum.stages.values())


def possible_shares(curriculum: Curriculum, parts: Sequence[str]) -> list[Mapping[str, float]]:
    """Shares that phases of a run may have; of an adaptive one the extremes."""
    if curriculum.ladder is not None:
        return [rung_shares(curriculum.ladder, active) for active in range(len(curriculum.ladder.parts))]
    if curriculum.adaptive is not None:
        return [teaching_shares(dict.fromkeys(parts, 0.0) | {part: 1.0}, parts, curriculum.adaptive) for part in parts]
    return [stage.shares for stage in (curriculum.stages or {}).values()]


def stage_starts(curriculum: Curriculum, scores: Scores) -> list[int]:
    """The step at which each stage begins, as far as it is decided; the first at 0."""
    starts = [0]
    for stage in list((curriculum.stages or {}).values())[:-1]:
        end = _end(stage, starts[-1], curriculum.lag, scores)
        if end is None:
            break
        starts.append(end)
    return starts


def _end(stage: Stage, start: int, lag: int, scores: Scores) -> int | None:
    ends = [] if stage.steps is None else [start + stage.steps]
    if stage.until is not None:
        ends += [step + lag for step, found in scores if step > start and _reached(stage.until, found)][:1]
    return min(ends, default=None)


def _reached(wanted: Mapping[str, float], found: Mapping[str, float]) -> bool:
    return all(part in found and found[part] >= least for part, least in wanted.items())


def _climbed(ladder: Ladder, lag: int, scores: Scores) -> list[Phase]:
    active, told = 0, [Phase(0, f"part {ladder.parts[0]}", rung_shares(ladder, 0))]
    for step, found in scores:
        score = found.get(ladder.parts[active])
        if score is None or step <= told[-1].start:  # of an earlier phase: its successor is decided already
            continue
        before = active
        if score >= ladder.up:
            active = min(active + 1, len(ladder.parts) - 1)
        elif ladder.down is not None and score < ladder.down:
            active = max(active - 1, 0)
        if active != before:
            told.append(Phase(step + lag, f"part {ladder.parts[active]}", rung_shares(ladder, active)))
    return told


def rung_shares(ladder: Ladder, active: int) -> dict[str, float]:
    """Of the active part, by its place on the ladder, and of those before it, which share `replay` evenly."""
    if active == 0 or ladder.replay == 0:
        return {ladder.parts[active]: 1.0}
    replayed = dict.fromkeys(ladder.parts[:active], ladder.replay / active)
    return {**replayed, ladder.parts[active]: 1 - ladder.replay}


def _adapted(adaptive: Adaptive, parts: Sequence[str], lag: int, scores: Scores) -> list[Phase]:
    told = [Phase(0, "equal shares", dict.fromkeys(parts, 1 / len(parts)))]
    for step, spreads in scores:
        shares = teaching_shares(spreads, parts, adaptive)
        name = ", ".join(f"{part} {share:.3f}" for part, share in shares.items())
        told.append(Phase(step + lag, f"shares {name}", shares))
    return told


def teaching_shares(spreads: Mapping[str, float], parts: Sequence[str], adaptive: Adaptive) -> dict[str, float]:
    """In proportion to the spreads, above the floor; equal where nothing teaches.

    Args:
        spreads: {part: mean spread of rewards within its groups}; one that is left out counts like the largest.
    """
    most = max(spreads.values(), default=0.0) or 1.0
    worth = {part: spreads.get(part, most) for part in parts}
    total = sum(worth.values())
    floor = adaptive.floor if total else 1.0
    return {part: floor / len(parts) + (1 - floor) * worth[part] / (total or 1.0) for part in parts}
