"""What a completion earns in GRPO: each score entry is a reward function of its own, so that the log shows every one.

An invalid answer earns 0 on every entry. A puzzle that lacks an entry gives None for it, which TRL leaves out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

from data_mix.source import Posed
from recipes.reward_checks import entries_of
from recipes.schema import Recipe
from tasks import TASKS, Spec, Task

_REMEMBERED = 4096
"""Completions whose scores are kept while one function after another asks for them."""

Completion = str | Sequence[Mapping[str, Any]]
"""A text, or the one message of a conversation."""


def reward_columns(posed: Posed) -> dict[str, str]:
    """What a row of the trainer's dataset must carry of its puzzle, beside the prompt and the images."""
    puzzle = posed.puzzle
    return {
        "task": puzzle.task,
        "spec": puzzle.spec.model_dump_json(),
        "target": json.dumps(puzzle.target, separators=(",", ":")),
    }


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


class RewardFunction:
    """One score entry as TRL calls it; TRL logs it under its `__name__`, the entry's."""

    def __init__(self, entry: str, end_ids: Collection[int] | None = None) -> None:
        """
        Args:
            end_ids: tokens that end an answer, padding included: this function then logs for all what is invalid.
        """
        self.__name__ = entry
        self._end_ids = None if end_ids is None else frozenset(end_ids)

    def __call__(
        self,
        completions: Sequence[Completion],
        completion_ids: Sequence[Sequence[int]],
        task: Sequence[str],
        spec: Sequence[str],
        target: Sequence[str],
        log_metric: Callable[[str, float], None],
        **others: Any,
    ) -> list[float | None]:
        """The entry of each completion in [0, 1], None where its puzzle has no such entry.

        Args:
            completion_ids: with the token that ended the completion, if one did.
            task, spec, target: see `reward_columns`.
            log_metric: gets the shares of completions that are invalid: cut at the limit, and ended by the model.
            others: what else TRL passes.
        """
        texts = [each if isinstance(each, str) else each[0]["content"] for each in completions]
        scores = [_earned(*each) for each in zip(texts, task, spec, target, strict=True)]
        if self._end_ids is not None and scores:
            invalid = [not each["valid"] for each in scores]
            ended = [bool(ids) and ids[-1] in self._end_ids for ids in completion_ids]
            wrong = sum(bad and done for bad, done in zip(invalid, ended, strict=True))
            log_metric("invalid/truncated", (sum(invalid) - wrong) / len(scores))
            log_metric("invalid/ended", wrong / len(scores))
        return [each.get(self.__name__) for each in scores]


def reward_functions(entries: Sequence[str], end_ids: Collection[int]) -> list[RewardFunction]:
    """A function for each entry; the first logs what is invalid. Each completion is scored once for all of them.

    Args:
        end_ids: see `RewardFunction`.
    """
    return [RewardFunction(entry, None if number else end_ids) for number, entry in enumerate(entries)]


@lru_cache(maxsize=_REMEMBERED)
def _earned(text: str, task: str, spec: str, target: str) -> Mapping[str, float]:
    return earned(TASKS[task], text, _spec(task, spec), json.loads(target))


@lru_cache(maxsize=256)
def _spec(task: str, spec: str) -> Spec:
    return TASKS[task].Spec.model_validate_json(spec)
