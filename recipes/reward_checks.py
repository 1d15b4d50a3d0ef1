"""What a reward must mean: something to earn in every part, and no way to earn more by a worse answer."""

from __future__ import annotations

from collections.abc import Mapping

from recipes.fields import did_you_mean, problem, shown
from recipes.schema import Part, Reward
from tasks import TASKS

_FORM = "valid"
_MOST_FOR_FORM = 0.1


def reward_problems(reward: Reward, parts: Mapping[str, Part]) -> list[str]:
    """[] if it can be trained on.

    Args:
        parts: the training parts, of known tasks and with specs of theirs.
    """
    tasks = dict.fromkeys(part.task for part in parts.values())
    known = list(dict.fromkeys(entry for task in tasks for entry in TASKS[task].entries))
    problems = [
        problem(("reward", name), "an unknown score entry", ", ".join(known), did_you_mean(name, known))
        for name in reward.model_extra or {}
        if name not in known
    ]
    for name, part in parts.items():
        problems += _part_problems(reward, name, part)
    return problems


def entries_of(part: Part) -> tuple[str, ...]:
    """The score entries that a part's puzzles have."""
    task = TASKS[part.task]
    return tuple(task.chance(task.Spec.model_validate(part.spec))["random"])


def _part_problems(reward: Reward, name: str, part: Part) -> list[str]:
    task = TASKS[part.task]
    entries = entries_of(part)
    weights = {entry: weight for entry, weight in reward.weights.items() if entry in entries}
    got = f"{shown({entry: weight for entry, weight in weights.items() if weight})} for part {name}"
    form = weights.get(_FORM, 0.0)
    right = sum(weights.values()) - form
    if not right:
        allowed = f"a weight for one of {', '.join(entry for entry in entries if entry != _FORM)} there"
        return [problem("reward", got, allowed, f"do set reward.{task.primary}=1, or leave the part out")]
    if reward.accept_unsafe_weights:
        return []
    problems = []
    advice = "do change the weights, or set reward.accept_unsafe_weights=true"
    if form > _MOST_FOR_FORM * right:
        allowed = f"valid at most {_MOST_FOR_FORM:g} of what a right answer earns besides, {_MOST_FOR_FORM * right:.4g}"
        problems.append(problem("reward", got, allowed, advice))
    if task.unsafe is not None and (wanted := task.unsafe(weights, task.Spec.model_validate(part.spec))):
        problems.append(problem("reward", got, wanted, advice))
    return problems
