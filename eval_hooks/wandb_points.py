"""Each step's points in W&B once, also where a resumed run takes steps again: a history only grows."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

import wandb
from transformers import TrainerControl, TrainerState, TrainingArguments
from transformers.integrations import WandbCallback


class Points:
    """The last step that has points of a name, kept in <run>/wandb_points.json. Main process only."""

    def __init__(self, run: Path) -> None:
        self._file = run / "wandb_points.json"

    def due(self, name: str, step: int) -> bool:
        """Whether no earlier process has logged this step, or a later one, under this name."""
        return step > self._earlier.get(name, -1)

    def add(self, name: str, step: int) -> None:
        """Called when the points are logged."""
        aside = self._file.with_name(f".{self._file.name}.partial")
        aside.write_text(json.dumps({**self._read(), "id": self._id(), name: step}) + "\n", encoding="ascii")
        aside.replace(self._file)

    @cached_property
    def _earlier(self) -> dict[str, Any]:
        return self._read()

    def _read(self) -> dict[str, Any]:
        """Empty for another W&B run, and for what is no such file: a point that is there twice is better than none."""
        try:
            stored = json.loads(self._file.read_text(encoding="ascii"))
            return stored if stored["id"] == self._id() and _are_steps(stored) else {}
        except (OSError, ValueError, LookupError, TypeError):
            return {}

    @staticmethod
    def _id() -> str | None:
        return wandb.run.id if wandb.run else None


def _are_steps(stored: dict[str, Any]) -> bool:
    return all(type(step) is int for name, step in stored.items() if name != "id")


class TrainerPoints(WandbCallback):
    """The library's callback, which logs what the trainer logs; not again what an earlier process of the run has."""

    def __init__(self, points: Points) -> None:
        super().__init__()
        self._points = points

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, *more: Any, **kwargs: Any
    ) -> None:
        if state.is_world_process_zero and self._points.due("train", state.global_step):
            super().on_log(args, state, control, *more, **kwargs)
            self._points.add("train", state.global_step)
