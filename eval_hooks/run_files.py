"""Where a run folder keeps its recipe, its checkpoints, and what evaluation reads and writes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

from eval_hooks.summary import Summary, mean_primary
from recipes.fields import problem
from recipes.loader import load_recipe
from recipes.schema import Recipe

RECIPE = "recipe.yaml"
"""The resolved recipe, written by the run."""

ENVIRONMENT = "environment.json"
"""Versions of packages and the git commit, written by the run."""

MANIFEST = "manifest.json"
"""In a checkpoint's folder: the files that it must have."""

CARD = "README.md"
"""In a checkpoint's folder, for people and the hub. Evaluations rewrite it, so a manifest does not count it."""

_CHECKPOINT = re.compile(r"checkpoint-(\d+)")
_RECORDS = re.compile(r"step-(\d+)\.jsonl")


class Best(NamedTuple):
    """The best checkpoint so far: its step and the mean of its parts' primary scores."""

    step: int
    score: float


def checkpoints(run: Path) -> dict[int, Path]:
    """Step -> folder of the run's complete checkpoints, oldest first."""
    return {step: folder for step, folder in checkpoint_folders(run).items() if what_is_missing(folder) is None}


def checkpoint_folders(run: Path) -> dict[int, Path]:
    """Step -> folder of all that bear a checkpoint's name, oldest first, complete or not."""
    found = ((_CHECKPOINT.fullmatch(path.name), path) for path in run.iterdir()) if run.is_dir() else ()
    return dict(sorted((int(match.group(1)), path) for match, path in found if match))


def write_manifest(folder: Path) -> None:
    """List the files of a checkpoint and their sizes in it, so that a copy of a part of it is known as such."""
    (folder / MANIFEST).unlink(missing_ok=True)
    files = {str(path.relative_to(folder)): path.stat().st_size for path in sorted(folder.rglob("*")) if path.is_file()}
    files.pop(CARD, None)
    (folder / MANIFEST).write_text(json.dumps({"files": files}, indent=2) + "\n", encoding="utf-8")


def what_is_missing(folder: Path) -> str | None:
    """Why a checkpoint is not complete; None if it is."""
    try:
        files = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
        for name, size in files.items():
            if name == CARD:
                continue
            there = folder / name
            if not there.is_file():
                return f"{name} is missing"
            if there.stat().st_size != size:
                return f"{name} has {there.stat().st_size:,} of {size:,} bytes"
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return f"{MANIFEST} is missing or damaged"
    return None


def records_file(run: Path, step: int | None) -> Path:
    """The records of a checkpoint's evaluation; of the final one for None."""
    return run / "records" / ("final.jsonl" if step is None else f"step-{step:06d}.jsonl")


def evaluated_steps(run: Path) -> list[int]:
    """The steps whose checkpoint evaluation is on disk, oldest first."""
    found = (_RECORDS.fullmatch(path.name) for path in (run / "records").glob("step-*.jsonl"))
    return sorted(int(match.group(1)) for match in found if match)


def pictures_folder(run: Path, step: int | None) -> Path:
    """Where the pictures of a checkpoint's evaluation are kept; of the final one for None."""
    return run / "pictures" / ("final" if step is None else f"step-{step:06d}")


def read_best(run: Path) -> Best | None:
    """The best checkpoint of the run; None before the first evaluation."""
    path = run / "best.json"
    if not path.is_file():
        return None
    stored = json.loads(path.read_text(encoding="utf-8"))
    return Best(stored["step"], stored["score"])


def keep_best(run: Path, step: int, summary: Summary) -> Best:
    """Write `step` to best.json if it is better than what stands there (the earlier step wins a tie)."""
    score, best = mean_primary(summary), read_best(run)
    if best is not None and best.step != step and best.score >= score:
        return best
    parts = {name: {part.primary: part.means[part.primary], "n": part.n} for name, part in summary.items()}
    text = json.dumps({"step": step, "score": score, "parts": parts}, indent=2) + "\n"
    run.mkdir(parents=True, exist_ok=True)
    aside = run / ".best.json.partial"
    aside.write_text(text, encoding="utf-8")
    aside.replace(run / "best.json")
    return Best(step, score)


def find_checkpoint(folder: Path) -> tuple[Path, Recipe, int]:
    """The checkpoint folder that `folder` means, the recipe of its run and its step.

    Raises:
        ValueError: `folder` is neither a run folder with a complete checkpoint nor a checkpoint in a run folder.
    """
    folder = folder.resolve()
    run = folder if (folder / RECIPE).is_file() else folder.parent
    found = checkpoints(run)
    if not (run / RECIPE).is_file() or (run != folder and folder not in found.values()):
        got = f"{folder}, which is neither" if folder.exists() else f"{folder}, which does not exist"
        if folder in checkpoint_folders(run).values():
            got = f"{folder}, which is not complete ({what_is_missing(folder)})"
        allowed = f"a run folder (it holds {RECIPE}), or a checkpoint-N folder in one"
        raise ValueError(problem("checkpoint", got, allowed, "name the output_dir of a run"))
    if not found:
        got = f"{folder}, a run without a complete checkpoint"
        raise ValueError(problem("checkpoint", got, "a run that has saved one", "wait for the run's first checkpoint"))
    best = read_best(run)
    step = best.step if best is not None and best.step in found else max(found)
    if run != folder:
        step = next(step for step, path in found.items() if path == folder)
    return found[step], load_recipe([f"recipe={run / RECIPE}"]), step
