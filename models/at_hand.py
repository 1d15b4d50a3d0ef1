"""Whether a pretrained model lies on this machine, looked up by name: nothing is read but the list of its files."""

from __future__ import annotations

import json
from pathlib import Path

from huggingface_hub import try_to_load_from_cache

from models.load import WEIGHTS, WEIGHTS_INDEX


def is_whole(name: str, revision: str | None) -> bool:
    """Whether a folder, or the hub's cache, has a model's config and all files of its weights: downloads end early.

    Raises:
        HFValidationError: the name is no folder's, and cannot be one on the hub.
    """
    if _found(name, "config.json", revision) is None:
        return False
    index = _found(name, WEIGHTS_INDEX, revision)
    if index is None:
        return _found(name, WEIGHTS, revision) is not None
    files = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    return all(_found(name, file, revision) is not None for file in files)


def _found(name: str, file: str, revision: str | None) -> Path | None:
    if Path(name).is_dir():
        path = Path(name) / file
        return path if path.is_file() else None
    cached = try_to_load_from_cache(name, file, revision=revision)
    return Path(cached) if isinstance(cached, str) else None
