"""What an export holds, pinned in its manifest before the first shard is written, so that it can be continued."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_mix.mixture import Mixture
from recipes.fields import problem, shown
from recipes.schema import Part, Recipe
from tasks import TASKS

logger = logging.getLogger(__name__)

MANIFEST = "manifest.json"
_FORMAT = {"format": "jigshape-train export", "format_version": 1}
_PACKAGES = ("datasets", "numpy", "pillow", "pyarrow")
"""Packages that decide the bytes of a row."""


@dataclass(frozen=True)
class Shard:
    """One file of the export: rows [start, stop) of the mixture."""

    file: str
    """Below the export's folder."""
    start: int
    stop: int

    @property
    def num_rows(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class Plan:
    """An export."""

    split: str
    recipe: dict[str, Any]
    """What of the resolved recipe decides the rows."""
    counts: dict[str, int]
    """Rows by part."""
    inputs: dict[str, str]
    """By part a digest of its photos or dataset rows."""
    versions: dict[str, Any]
    """Of the tasks and of the packages that decide the bytes."""
    shards: tuple[Shard, ...]

    def manifest(self) -> dict[str, Any]:
        """The plan as JSON."""
        text = json.dumps(self.recipe, sort_keys=True)
        return {
            **_FORMAT,
            "split": self.split,
            "recipe": self.recipe,
            "recipe_digest": hashlib.blake2b(text.encode(), digest_size=8).hexdigest(),
            "counts": self.counts,
            "inputs": self.inputs,
            "versions": self.versions,
            "shards": [{"file": shard.file, "rows": shard.num_rows} for shard in self.shards],
        }


def plan_export(recipe: Recipe, mixture: Mixture, parts: dict[str, Part], shard: int) -> Plan:
    """The plan for all puzzles of a mixture, `shard` rows to a file.

    Args:
        parts: the parts that the mixture was made of.
    """
    stops = [*range(shard, len(mixture), shard), len(mixture)]
    shards = [
        Shard(f"data/{mixture.split}-{at:05d}-of-{len(stops):05d}.parquet", at * shard, stop)
        for at, stop in enumerate(stops)
    ]
    photos = recipe.data.photos
    decisive = {
        "seed": recipe.seed,
        "photos": photos.model_dump(mode="json", include={"use", "min_piece_px", "ground"}),
        "parts": {name: part.model_dump(mode="json", exclude={"count"}) for name, part in parts.items()},
    }
    versions = {
        "tasks": {name: TASKS[name].version for name in sorted({part.task for part in parts.values()})},
        "packages": {name: importlib.metadata.version(name) for name in _PACKAGES},
    }
    return Plan(mixture.split, decisive, mixture.counts(), mixture.inputs(), versions, tuple(shards))


@contextmanager
def export_folder(folder: Path, plan: Plan) -> Iterator[None]:
    """The folder with the plan in its manifest, new or as it was left; inside, no other process writes there.

    Raises:
        ValueError: it holds something else, another plan, or another process writes there.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(problem("out", f"{folder}, a file", "a folder", "do name another with out=DIR"))
    try:
        (folder / "data").mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("wb")
    except OSError as error:
        allowed = "a folder that can be written"
        raise ValueError(problem("out", f"{folder} ({error.strerror})", allowed, "do name another")) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            got = f"{folder}, where another export is writing"
            raise ValueError(problem("out", got, "one at a time", "do wait for it")) from None
        except OSError:
            logger.warning("%s: its file system knows no locks; do not start a second export there", folder)
        _pin(folder, plan)
        yield


def _pin(folder: Path, plan: Plan) -> None:
    path = folder / MANIFEST
    if not path.is_file():
        others = sorted(each.name for each in folder.iterdir() if each.name not in ("data", ".lock", f".{MANIFEST}"))
        others += sorted(each.name for each in (folder / "data").iterdir())
        if others:
            got = f"{folder}, which holds {', '.join(others[:3])} and no {MANIFEST}"
            allowed = "an empty folder, or one with an export"
            raise ValueError(problem("out", got, allowed, "do name another with out=DIR"))
        aside = path.with_name(f".{MANIFEST}")
        aside.write_text(json.dumps(plan.manifest(), indent=2) + "\n", encoding="utf-8")
        aside.replace(path)
        return
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        advice = "do name another folder with out=DIR"
        raise ValueError(problem("out", f"{path} ({error})", "a manifest that can be read", advice)) from error
    before, now = _flat(stored), _flat(plan.manifest())
    names = [name for name in {**before, **now} if before.get(name) != now.get(name) and name != "recipe_digest"]
    if names:
        told = [_difference(name, before.get(name), now.get(name)) for name in names if not name.startswith("shards")]
        allowed = "the same recipe, split, counts, photos and versions"
        advice = "do ask for the same again, or name another folder with out=DIR"
        got = f"{folder}, which holds another export ({'; '.join(told or ['another number of rows to a shard'])})"
        raise ValueError(problem("out", got, allowed, advice))


def _difference(name: str, before: Any, now: Any) -> str:
    if name.startswith("inputs."):
        return f"{name.removeprefix('inputs.')}: other photos or rows than there were"
    told = ["absent" if value is None else shown(value) for value in (before, now)]
    return f"{name}: {told[0]} there, {told[1]} asked for"


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(value, dict | list) or not value:
        return {path: value}
    items = value.items() if isinstance(value, dict) else enumerate(value)
    flat: dict[str, Any] = {}
    for key, inner in items:
        flat |= _flat(inner, f"{path}.{key}" if path else str(key))
    return flat
