"""What a curriculum must mean: stages of known parts, each but the last with an end that can come."""

from __future__ import annotations

from collections.abc import Collection

from recipes.fields import did_you_mean, dotted, problem, shown
from recipes.schema import Curriculum, Eval


def unknown_part(place: tuple[str, ...], known: Collection[str]) -> str:
    """Said of a name, the last of `place`, that is none of the parts. It may be one that an override has dropped."""
    near = did_you_mean(place[-1], known).removeprefix("did you mean ").rstrip("?")
    advice = f"do remove it, {dotted(place)}=null" + (f", or write {near}" if near in known else "")
    return problem(place, "an unknown part", ", ".join(known), advice)


def curriculum_problems(
    curriculum: Curriculum, parts: Collection[str], evaluated: Collection[str], judged: Eval
) -> list[str]:
    """[] if it can be followed.

    Args:
        parts: names of the training parts.
        evaluated: names of the parts that evaluations score.
    """
    problems = []
    for name, stage in curriculum.stages.items():
        at = ("data", "curriculum", "stages", name)
        for inside, named, known in (("shares", stage.shares, parts), ("until", stage.until or {}, evaluated)):
            problems += [unknown_part((*at, inside, part), known) for part in named if part not in known]
        last = name == list(curriculum.stages)[-1]
        if last and (stage.steps is not None or stage.until is not None):
            allowed = "neither steps nor until in the last stage, which lasts to the end of the run"
            problems.append(problem(at, "an end", allowed, "do remove it, or add a stage"))
        if not last and stage.steps is None and stage.until is None:
            problems.append(problem(at, "no end", "steps, until or both", "do say when the next stage begins"))
        if stage.until is not None and judged.count == 0:
            allowed = "null where eval.count is 0: nothing is scored before the end"
            problems.append(problem((*at, "until"), shown(stage.until), allowed, "do raise eval.count"))
    return problems
