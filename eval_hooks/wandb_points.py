"""Each step's points in W&B once, also where a resumed run takes steps again: a history only grows."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import wandb
from transformers import TrainerControl, TrainerState, TrainingArguments
from transformers.integrations import WandbCallback


class Points:
    """Which steps have points of a name, kept in a file of the run folder, a line each. Main process only."""

    def __init__(self, run: Path, file: str = "wandb_points.txt") -> None:
        self._file = run / file

    def due(self, name: str, step: int) -> bool:
        """Whether no earlier process has logged this step under this name."""
        return self._line(name, step) not in self._earlier

    def add(self, name: str, step: int) -> None:
        """Called when the points are logged."""
        with self._file.open("a", encoding="ascii") as file:
            file.write(f"{self._line(name, step)}\n")

    @cached_property
    def _earlier(self) -> set[str]:
        """Of other W&B runs, too, whose lines have another id."""
        return set(self._file.read_text(encoding="ascii").splitlines()) if self._file.is_file() else set()

    @staticmethod
    def _line(name: str, step: int) -> str:
        return f"{wandb.run.id if wandb.run else None} {name} {step}"


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
