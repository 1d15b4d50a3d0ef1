"""What is asked, told by its content: two models of one name never get into one file of records."""

from __future__ import annotations

import hashlib
from pathlib import Path

from models.load import ADAPTER_CONFIG
from recipes.schema import Recipe

_CHUNKS, _CHUNK_BYTES = 64, 4096
"""Of each file of weights, spread evenly: an optimizer step changes nearly every one."""


def source_of(place: str, recipe: Recipe) -> dict[str, str]:
    """What tells a model from another one of its name: its weights, or its name on the hub.

    Args:
        place: a folder of a model or adapter, or a hub name.
        recipe: names the base of an adapter.
    """
    folder = Path(place)
    if not folder.is_dir():
        return {"hub": f"{place}@{recipe.model.revision or 'main'}"}
    base = {"base": recipe.model.pretrained or recipe.model.name} if (folder / ADAPTER_CONFIG).is_file() else {}
    return {"weights": digest(folder), **base}


def digest(folder: Path) -> str:
    """16 hex digits of a folder's weights, equal for copies: of each file's name, size, and bytes all over it."""
    told = hashlib.blake2b(digest_size=8)
    for path in sorted(folder.glob("*.safetensors")):
        size = path.stat().st_size
        told.update(f"{path.name} {size} ".encode())
        with path.open("rb") as file:
            for chunk in range(_CHUNKS + 1):
                file.seek(max(0, size - _CHUNK_BYTES) * chunk // _CHUNKS)
                told.update(file.read(_CHUNK_BYTES))
    return told.hexdigest()
