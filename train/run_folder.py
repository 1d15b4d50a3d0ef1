"""The run's folder: what it holds, where it came from, where it goes on."""

from __future__ import annotations

import importlib.metadata
import json
import logging
import os
import platform
import shutil
import subprocess
from pathlib import Path

import yaml

from eval_hooks.run_files import (
    ENVIRONMENT,
    RECIPE,
    checkpoint_folders,
    checkpoints,
    evaluated_steps,
    records_file,
    what_is_missing,
)
from recipes.loader import to_yaml
from recipes.schema import Recipe, Towers, Train
from train.checkpoints import PARTIAL

logger = logging.getLogger(__name__)

_PACKAGES = (
    "torch",
    "torchvision",
    "transformers",
    "trl",
    "peft",
    "accelerate",
    "datasets",
    "numpy",
    "pillow",
    "wandb",
)
_MUST_AGREE = (
    "model.family",
    "model.pretrained",
    "model.revision",
    "model.scratch",
    "train.method",
    "train.lora.rank",
    "train.lora.alpha",
    *(f"train.towers.{tower}.{field}" for tower in Towers.model_fields for field in ("method", "targets")),
)
"""Fields that decide which weights and which optimizer state a checkpoint holds."""
_METHODS = ("train.method", *(f"train.towers.{tower}.method" for tower in Towers.model_fields))
"""Fields that say together how each tower trains."""
_MAY_DIFFER = ("resume", "dry_run", "output_dir", "wandb")
"""Recipe sections that may change between a run and its continuation without a word."""


def open_run_folder(recipe: Recipe) -> Path | None:
    """Check the run folder and find where to continue. Changes nothing on disk, so that every process may call it.

    Returns:
        The newest complete checkpoint when the recipe resumes, else None.

    Raises:
        ValueError: the folder cannot be written to, holds a run that would be overwritten, or one whose weights do not
            fit the recipe.
    """
    folder = Path(recipe.output_dir)
    nearest = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise ValueError(
            f"output_dir: got {folder}, and {nearest} is no folder that can be written to; allowed is a folder that "
            "can be made or written to; choose another output_dir=..."
        )
    there, found = list(checkpoint_folders(folder).values()), list(checkpoints(folder).values())
    if not recipe.resume:
        evaluated = [records_file(folder, step).name for step in evaluated_steps(folder)]
        held = f"a run up to {there[-1].name}" if there else f"records up to {evaluated[-1]}" if evaluated else None
        if held:
            raise ValueError(
                f"output_dir: got {folder}, which holds {held}; a new run needs an empty folder; "
                "add resume=true to continue that one, or choose another output_dir=..."
            )
        return None
    for broken in there:
        if broken not in found:
            logger.warning("resume: %s is not complete (%s) and is passed over", broken, what_is_missing(broken))
    if not found:
        logger.warning("resume=true, but %s holds no complete checkpoint: the run starts at step 0", folder)
        return None
    stored = folder / RECIPE
    if stored.is_file():
        _check_kind(folder, stored.read_text(), recipe)
        for name, (before, now) in _differences(stored.read_text(), to_yaml(recipe)).items():
            if name in _METHODS and _methods(stored.read_text()) == recipe.train.methods():
                continue
            if name.startswith(_MUST_AGREE):
                raise ValueError(
                    f"{name}: got {now}, but the run in {folder} has {before}; its weights fit that only; "
                    "resume with the stored value, or start a new run: output_dir=..."
                )
            logger.warning("resume: %s was %s in the stored recipe and is %s now", name, before, now)
    return found[-1]


def check_steps_left(checkpoint: Path, steps: int) -> None:
    """
    Args:
        checkpoint: what the run will continue from.
        steps: optimizer steps of the whole run.

    Raises:
        ValueError: the checkpoint lies behind the run's last step.
    """
    trained = int(checkpoint.name.partition("-")[2])
    if trained > steps:
        raise ValueError(
            f"resume: got a run of {steps} steps, and {checkpoint} has trained {trained}; allowed are {trained} or "
            "more; set trainer.max_steps or trainer.num_train_epochs higher, or start a new run: output_dir=..."
        )


def _check_kind(folder: Path, stored: str, recipe: Recipe) -> None:
    """A run of supervised training does not go on as GRPO, nor the other way round."""
    rewarded = yaml.safe_load(stored).get("reward") is not None
    if rewarded != (recipe.reward is not None):
        there = "one" if rewarded else "none"
        raise ValueError(
            f"reward: got {'none' if rewarded else 'one'}, but the run in {folder} has {there}; resume with a recipe "
            f"that has {there}, or start a new run from its weights: train.start={folder}/checkpoint-... output_dir=..."
        )


def _methods(stored: str) -> dict[str, str] | None:
    """How each tower trains by a stored recipe."""
    given = yaml.safe_load(stored).get("train", {})
    return Train.model_validate({name: given[name] for name in ("method", "towers") if name in given}).methods()


def write_provenance(recipe: Recipe, environment: dict[str, object]) -> None:
    """Store the resolved recipe and the environment, and clear what an interrupted save left. Main process only."""
    folder = Path(recipe.output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / PARTIAL, ignore_errors=True)
    for name, text in ((RECIPE, to_yaml(recipe)), (ENVIRONMENT, json.dumps(environment, indent=2) + "\n")):
        aside = folder / f".{name}.partial"  # a disk that is full must not cost the run its recipe
        aside.write_text(text)
        aside.replace(folder / name)


def environment() -> dict[str, object]:
    """Python, the versions of the packages that decide results, and the git commit (with -dirty)."""
    return {
        "python": platform.python_version(),
        "packages": {name: importlib.metadata.version(name) for name in _PACKAGES},
        "git_commit": git_commit(Path(__file__).resolve().parent.parent),
    }


def git_commit(repository: Path) -> str | None:
    """The checked-out commit, with -dirty when tracked files differ from it; None outside a repository."""
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            cwd=repository,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return described.stdout.strip()


def _differences(before: str, now: str) -> dict[str, tuple[object, object]]:
    old, new = _flat(yaml.safe_load(before)), _flat(yaml.safe_load(now))
    return {
        name: (old.get(name), new.get(name))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name) and name.split(".")[0] not in _MAY_DIFFER
    }


def _flat(value: object, path: str = "") -> dict[str, object]:
    if not isinstance(value, dict) or not value:
        return {path: value}
    flat: dict[str, object] = {}
    for key, inner in value.items():
        flat |= _flat(inner, f"{path}.{key}" if path else str(key))
    return flat
