"""What a completion earns in GRPO: each score entry is a reward function of its own, so that the log shows every one.

An invalid answer earns 0 on every entry. A puzzle that lacks an entry gives None for it, which TRL leaves out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from recipes.reward_checks import entries_of
from recipes.schema import Recipe
from tasks import Spec, Task


def earned(task: Task, text: str, spec: Spec, target: dict[str, Any]) -> dict[str, float]:
    """The scores of a completion, all 0 for an invalid answer, of which the scorer may credit what a lenient reader
    makes of it."""
    scores = task.score(task.parse(text, spec), target)
    return scores if scores["valid"] else dict.fromkeys(scores, 0.0)


def reward_weights(recipe: Recipe) -> dict[str, float]:
    """{score entry: weight} of what the recipe rewards, or gives weight 0 to have it logged; entries that none of its
    parts has are left out.

    Raises:
        ValueError: the recipe rewards nothing.
    """
    if recipe.reward is None:
        raise ValueError("reward: got nothing; allowed: weights of score entries; do set reward={} for the defaults")
    there = {entry for part in recipe.data.parts.values() for entry in entries_of(part)}
    return {entry: weight for entry, weight in recipe.reward.weights.items() if entry in there}


def reward_of(scores: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """What these scores are worth: an entry that is absent does not count."""
    return sum(weight * scores[entry] for entry, weight in weights.items() if entry in scores)


class RewardFunction:
    """One score entry as TRL calls it; TRL logs it under its `__name__`, the entry's."""

    def __init__(self, entry: str) -> None:
        self.__name__ = entry

    def __call__(self, scores: Sequence[Mapping[str, float]], **others: Any) -> list[float | None]:
        """The entry of each completion in [0, 1], None where its puzzle has no such entry.

        Args:
            scores: what `earned` says of each.
            others: what else TRL passes.
        """
        return [each.get(self.__name__) for each in scores]
