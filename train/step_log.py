"""What each process notes of every step: <output_dir>/<folder>/rank-0.jsonl, a line per step."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments


class StepLog(TrainerCallback):
    """Every process writes its own file. A resumed run drops what was written after its checkpoint."""

    def __init__(self, folder: Path, rank: int, tell: Callable[[], Mapping[str, Any]]) -> None:
        """
        Args:
            tell: what there is to note of the step that has ended, as JSON.
        """
        self._file = folder / f"rank-{rank}.jsonl"
        self._tell = tell

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        _cut(self._file, state.global_step)
        if state.is_world_process_zero:  # of more processes than there are by now
            for file in self._file.parent.glob("rank-*.jsonl"):
                if int(file.stem.partition("-")[2]) >= args.world_size:
                    _cut(file, state.global_step)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": state.global_step, **self._tell()}) + "\n")


def _cut(file: Path, step: int) -> None:
    """Drop what was written after a step; the last line may be half of one."""
    if file.is_file():
        lines = file.read_bytes().splitlines(keepends=True)
        kept = [line for line in lines if line.endswith(b"\n") and json.loads(line)["step"] <= step]
        file.write_bytes(b"".join(kept))
