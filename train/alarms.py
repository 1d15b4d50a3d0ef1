"""Alarms of a GRPO run: told in its log and, where there is a W&B run, as alerts of it."""

from __future__ import annotations

import logging
from typing import Any

import wandb
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from eval_hooks.wandb_points import Points
from recipes.schema import Recipe
from tasks import TASKS
from train.alarm_rules import Watch

logger = logging.getLogger(__name__)

_AT_ONCE_S = 0.001
"""W&B takes 0 for its default, a minute in which alerts of the same title are dropped."""


def chances(recipe: Recipe) -> dict[str, float]:
    """{part: primary score of valid answers at random}; 0 where a task names none."""
    found = {}
    for name, part in recipe.data.parts.items():
        task = TASKS[part.task]
        found[name] = task.chance(task.Spec.model_validate(part.spec))["random"].get(task.primary, 0.0)
    return found


class Alarms(TrainerCallback):
    """Judges each entry of the trainer's log by the rules in `train.alarm_rules`. Main process only.

    A resumed run knows from the log in its checkpoint what has been told. Of steps that it takes again, its own log has
    the alarms once more, W&B has not.
    """

    def __init__(self, recipe: Recipe, points: Points) -> None:
        """
        Args:
            points: which steps' alarms have been sent to W&B.
        """
        self._chances = chances(recipe)
        self._points = points

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._watch = Watch(self._chances)
        for entry in state.log_history:
            self._watch.add(entry)

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if not state.is_world_process_zero:
            return
        alarms = self._watch.add(state.log_history[-1])
        for alarm in alarms:
            logger.warning("alarm: %s: %s", alarm.title, alarm.text)
        if alarms and wandb.run is not None and self._points.due("alarms", state.global_step):
            for alarm in alarms:
                wandb.run.alert(alarm.title, alarm.text, level="WARN", wait_duration=_AT_ONCE_S)
            self._points.add("alarms", state.global_step)
