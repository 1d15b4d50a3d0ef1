"""A W&B run beside the training's own, for evaluations that another process makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import wandb

from eval_hooks.records import Record
from eval_hooks.wandb_log import ID, STEP, init, log_evaluation
from eval_hooks.wandb_points import Points
from recipes.schema import Recipe

LOGGED = "wandb_watch_points.txt"
"""In the run folder: which points are logged."""


def log_beside(recipe: Recipe, run: Path, step: int, numbers: Mapping[str, float], records: Sequence[Record]) -> None:
    """Log a checkpoint's evaluation, once; nothing where the training has no W&B run, or in mode disabled.

    The run is in the group of the training's and has its id with -watch behind it.

    Args:
        numbers: see `eval_hooks.wandb_log.standing`.

    Raises:
        ValueError: W&B refuses to start.
    """
    kept = run / ID
    training = kept.read_text(encoding="ascii").strip() if kept.is_file() else ""
    if recipe.wandb.mode == "disabled" or not training:
        return
    if wandb.run is None:
        init(recipe, run, f"{training}-watch", name=f"{recipe.name} watch", group=training, job_type="evaluation")
        wandb.define_metric("*", step_metric=STEP)
    log_evaluation(Points(run, LOGGED), "eval", step, numbers, records, {})
