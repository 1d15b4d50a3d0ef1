"""What a curriculum must mean: one kind, of known parts, whose every decision can come."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from recipes.fields import did_you_mean, dotted, problem, shown
from recipes.schema import Curriculum, Eval, Groups, Ladder

_AT = ("data", "curriculum")


def unknown_part(place: tuple[str, ...], known: Collection[str]) -> str:
    """Said of a name, the last of `place`, that is none of the parts. It may be one that an override has dropped."""
    near = did_you_mean(place[-1], known).removeprefix("did you mean ").rstrip("?")
    advice = f"do remove it, {dotted(place)}=null" + (f", or write {near}" if near in known else "")
    return problem(place, "an unknown part", ", ".join(known), advice)


def curriculum_problems(
    curriculum: Curriculum, parts: Collection[str], evaluated: Collection[str], judged: Eval, rewarded: bool
) -> list[str]:
    """[] if it can be followed.

    Args:
        parts: names of the training parts.
        evaluated: names of the parts that evaluations score.
        rewarded: whether the recipe is of GRPO, whose groups decide.
    """
    kinds = [name for name in ("stages", "ladder", "adaptive") if getattr(curriculum, name) is not None]
    if len(kinds) != 1:
        got = " and ".join(kinds) or "neither of them"
        return [problem(_AT, got, "exactly one of stages, ladder and adaptive", "do give one")]
    problems = []
    if not rewarded:
        given = [kind for kind in kinds if kind != "stages"] + ["groups"] * (curriculum.groups != Groups())
        allowed = "null in a recipe without reward: groups of answers to one puzzle decide it"
        advice = "do use stages that evaluations end, or set reward={} for GRPO"
        problems += [problem((*_AT, name), "a value", allowed, advice) for name in given]
    stages = curriculum.stages or {}
    for number, (name, stage) in enumerate(stages.items(), start=1):
        at, last = (*_AT, "stages", name), number == len(stages)
        scored = parts if rewarded else evaluated
        for inside, named, known in (("shares", stage.shares, parts), ("until", stage.until or {}, scored)):
            problems += [unknown_part((*at, inside, part), known) for part in named if part not in known]
        for part in stage.until or {} if rewarded else ():
            if part in parts and part not in stage.shares:
                allowed = f"{', '.join(stage.shares)}: a stage that never asks a part has no score of it"
                problems.append(problem((*at, "until", part), "a part without a share", allowed, "do give it one"))
        if last and (stage.steps is not None or stage.until is not None):
            allowed = "neither steps nor until in the last stage, which lasts to the end of the run"
            problems.append(problem(at, "an end", allowed, "do remove it, or add a stage"))
        if not last and stage.steps is None and stage.until is None:
            problems.append(problem(at, "no end", "steps, until or both", "do say when the next stage begins"))
        if stage.until is not None and judged.count == 0 and not rewarded:
            allowed = "null where eval.count is 0: nothing is scored before the end"
            problems.append(problem((*at, "until"), shown(stage.until), allowed, "do raise eval.count"))
    if curriculum.ladder is not None:
        problems += _ladder_problems(curriculum.ladder, parts)
    if curriculum.adaptive is not None and len(parts) < 2:
        allowed = "null where there is one part"
        problems.append(problem((*_AT, "adaptive"), "a value", allowed, "do add a part, or remove it"))
    return problems


def _ladder_problems(ladder: Ladder, parts: Collection[str]) -> Iterator[str]:
    at = (*_AT, "ladder")
    for part in dict.fromkeys(ladder.parts):
        if part not in parts:
            advice = did_you_mean(part, parts)
            yield problem((*at, "parts"), f"an unknown part {shown(part)}", ", ".join(parts), advice)
        elif ladder.parts.count(part) > 1:
            yield problem((*at, "parts"), f"{shown(part)} twice", "each part once", "do remove one of the two")
    if ladder.down is not None and ladder.down >= ladder.up:
        allowed = f"less than up, {ladder.up:g}"
        yield problem((*at, "down"), f"{ladder.down:g}", allowed, "do lower it, or remove it to never go back")
