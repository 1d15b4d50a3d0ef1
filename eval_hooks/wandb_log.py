"""Weights & Biases: a view of the records. Offline unless the recipe says otherwise; it never asks anything."""

from __future__ import annotations

import logging
import netrc
import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import wandb

from eval_hooks.records import Record, printable
from eval_hooks.run_files import Best
from eval_hooks.summary import Summary, mean_primary, metrics
from eval_hooks.wandb_points import Points
from recipes.schema import Recipe

logger = logging.getLogger(__name__)

SHOWN_CHARACTERS = 500
"""How much of a completion the table shows."""

ID = "wandb_id.txt"
"""In the run folder: the id of the training's W&B run."""

STEP = "train/global_step"
"""The x axis that the trainer's own W&B callback uses."""

_COLUMNS = ("part", "index", "key", "invalid", "finish_reason", "completion_tokens", "scores", "answer", "text")


def check_wandb(recipe: Recipe) -> None:
    """Refuse mode online without a key, before anything is loaded. Looks for the key and never keeps or shows it.

    Raises:
        ValueError: neither the environment nor a netrc file holds a key.
    """
    if recipe.wandb.mode == "online" and not has_key():
        raise ValueError(
            "wandb.mode: got online, but neither WANDB_API_KEY nor a netrc file holds a key; allowed without one: "
            "offline, disabled; export WANDB_API_KEY, or set wandb.mode=offline and run `wandb sync` later"
        )


def has_key() -> bool:
    """Whether the environment or a netrc file holds a W&B key."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = urlsplit(os.environ.get("WANDB_BASE_URL") or "https://api.wandb.ai").netloc
    given = os.environ.get("NETRC")
    for path in [Path(given)] if given else [Path.home() / ".netrc", Path.home() / "_netrc"]:
        try:
            found = netrc.netrc(path).authenticators(host)
        except (OSError, netrc.NetrcParseError):
            continue  # as good as absent: the refusal says what to do
        if found and found[2]:
            return True
    return False


def start_wandb(recipe: Recipe, provenance: Mapping[str, object] | None = None) -> None:
    """Start the run that the trainer and `log_evaluation` write to; nothing in mode disabled. Main process only.

    The run's id is kept in <output_dir>/wandb_id.txt, and a resumed run continues under it. Files go to
    <output_dir>/wandb/; the config is the resolved recipe and what `provenance` tells of versions and commit.

    Offline each start writes a folder of its own, all of the one id.

    Raises:
        ValueError: mode online without a key, or the server cannot be reached or refuses.
    """
    check_wandb(recipe)
    if recipe.wandb.mode == "disabled":
        return
    folder = Path(recipe.output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / ID
    known = recipe.resume and kept.is_file() and kept.read_text(encoding="ascii").strip()  # empty: of a full disk
    if not known:
        kept.write_text(uuid.uuid4().hex[:12] + "\n", encoding="ascii")
    config = {"recipe": recipe.model_dump(mode="json"), "provenance": dict(provenance or {})}
    init(recipe, folder, kept.read_text(encoding="ascii").strip(), name=recipe.name, config=config)
    offline = f"offline, in {folder / 'wandb'}; `wandb sync` uploads it"
    logger.info("W&B: %s", wandb.run.url if recipe.wandb.mode == "online" and wandb.run else offline)


def init(recipe: Recipe, folder: Path, run_id: str, **about: Any) -> None:
    """Start or continue the W&B run of that id, its files in `folder`/wandb, as the recipe says.

    Args:
        about: further arguments of wandb.init.

    Raises:
        ValueError: the server cannot be reached or refuses.
    """
    try:
        wandb.init(
            mode=recipe.wandb.mode,
            project=recipe.wandb.project,
            entity=recipe.wandb.entity,
            id=run_id,
            resume="allow",
            dir=folder,
            settings=wandb.Settings(console="off", silent=True),
            **about,
        )
    except wandb.errors.Error as error:
        raise ValueError(
            f"wandb.mode: got {recipe.wandb.mode}, but W&B refused to start: {error}; "
            "set wandb.mode=offline and run `wandb sync` later"
        ) from error


def standing(name: str, summary: Summary, best: Best | None = None) -> dict[str, float]:
    """What W&B gets of an evaluation as plain numbers, so that runs and sweeps can be sorted by them.

    Args:
        name: eval or final; the first word of all names but best/score and best/step.
        best: the run's best checkpoint so far.
    """
    numbers = {f"{name}/{metric}": value for metric, value in metrics(summary).items()}
    numbers[f"{name}/score"] = mean_primary(summary)
    return numbers if best is None else {**numbers, "best/score": best.score, "best/step": best.step}


def set_summary(numbers: Mapping[str, float]) -> None:
    """Say what holds of the current W&B run, without a point in its history; does nothing where there is no run."""
    if wandb.run is not None:
        wandb.run.summary.update(dict(numbers))


def log_evaluation(
    points: Points,
    name: str,
    step: int,
    numbers: Mapping[str, float],
    records: Sequence[Record],
    pictures: Mapping[str, Sequence[Path]],
) -> None:
    """Log one evaluation to the current W&B run; does nothing where there is none. Where an earlier process of the run
    has logged this step, only the summary is set.

    Args:
        name: eval or final; the first word of the table's and the pictures' names.
        numbers: see `standing`.
        records: rows of the table.
        pictures: part -> picture files.
    """
    if wandb.run is None:
        return
    if not points.due(name, step):
        set_summary(numbers)
        return
    table = wandb.Table(columns=list(_COLUMNS), data=[_row(record) for record in records])
    wandb.run.log(
        {
            STEP: step,
            **numbers,
            f"{name}/records": table,
            **{
                f"{name}/pictures/{part}": [wandb.Image(str(path), caption=path.stem) for path in paths]
                for part, paths in pictures.items()
                if paths
            },
        }
    )
    points.add(name, step)


def _row(record: Record) -> list[object]:
    scores = ", ".join(f"{entry} {value:.3f}" for entry, value in record.scores.items())
    shown = [record.invalid or "", record.finish_reason, record.completion_tokens, scores]
    return [record.part, record.index, record.key, *shown, _shortened(str(record.answer)), _shortened(record.text)]


def _shortened(text: str) -> str:
    clean = printable(text[:SHOWN_CHARACTERS])
    return clean if len(text) <= SHOWN_CHARACTERS else f"{clean}... ({len(text):,} characters)"
