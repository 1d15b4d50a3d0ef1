"""From a dataset's name in a recipe to rows that stay on disk: folders first, the hub only for what is no folder."""

from __future__ import annotations

import json
import re
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from datasets.exceptions import DatasetsError
from httpx import HTTPError

from recipes.schema import Dataset

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
_FAILURES = (OSError, ValueError, RuntimeError, ImportError, HTTPError, DatasetsError, pa.ArrowException)
"""What the libraries raise for datasets that are not there, not readable, or no datasets."""


def open_dataset(given: Dataset, place: str) -> datasets.Dataset:
    """The rows of one split, mapped into memory, never read as a whole.

    Args:
        place: where the recipe names it, such as data.parts.mine.dataset, for errors.

    Raises:
        ValueError: it is not there, cannot be read (a broken file is named), or has no such split.
    """
    folder = Path(given.name).expanduser()
    if not folder.is_dir() and not _HUB_NAME.fullmatch(given.name):
        raise ValueError(
            f"{place}.name: got {given.name}, which is no folder; allowed: a folder with a dataset, or a name on the "
            "hub (USER/NAME); do check the path"
        )
    if folder.is_dir() and given.revision:
        raise ValueError(
            f"{place}.revision: got {given.revision} of the folder {folder}; allowed: null for a folder; do remove it"
        )
    _check_card(folder, place)
    try:
        return _opened(given, folder, place)
    except _Refused:
        raise
    except _FAILURES as error:
        raise ValueError(f"{place}.name: {_said(given, folder, error)}") from error


def _check_card(folder: Path, place: str) -> None:
    """A folder's card may say which files are its data: they must be below it, as nothing else was asked for."""
    try:
        _, header, _ = (folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)
        card = yaml.safe_load(header)
    except (OSError, ValueError, yaml.YAMLError):
        return
    configs = card.get("configs") if isinstance(card, dict) else None
    outside = re.findall(r"[\w+]+://[^\s'\",\]}]*|\.\./[^\s'\",\]}]*", json.dumps(configs, default=str))
    if outside:
        raise ValueError(
            f"{place}.name: got the folder {folder}, whose card names {outside[0]}; allowed: files below the folder; "
            "do mend data_files in its README.md"
        )


class _Refused(ValueError):  # noqa: N818
    """A refusal of ours, told from the ValueErrors of the libraries."""


def _opened(given: Dataset, folder: Path, place: str) -> datasets.Dataset:
    if (folder / "state.json").is_file() or (folder / "dataset_dict.json").is_file():
        loaded = datasets.load_from_disk(str(folder))
        if isinstance(loaded, datasets.DatasetDict):
            return loaded[_split(given, list(loaded), place)]
        return loaded
    name = str(folder) if folder.is_dir() else given.name
    builder = datasets.load_dataset_builder(name, revision=given.revision)
    split = _split(given, [str(split) for split in builder.config.data_files or builder.info.splits or ()], place)
    builder.download_and_prepare()
    rows = builder.as_dataset(split=split)
    assert isinstance(rows, datasets.Dataset)
    return rows


def _split(given: Dataset, there: list[str], place: str) -> str:
    if given.split is None and len(there) == 1:
        return there[0]
    if given.split not in there:
        got = given.split or "nothing"
        raise _Refused(f"{place}.split: got {got}; allowed: {' | '.join(there)}; do set {place}.split to one of them")
    return given.split


def _said(given: Dataset, folder: Path, error: BaseException) -> str:
    """What went wrong, with the file to blame if it is at hand."""
    broken = _broken_file(folder)
    if broken:
        return (
            f"got a dataset with a broken file, {broken}; allowed: readable parquet files; do restore that file or "
            "make it again"
        )
    reason = " ".join(str(error.__cause__ or error).split())
    if folder.is_dir():
        return (
            f"got a folder that cannot be read as a dataset, {folder} ({reason}); allowed: one that the datasets "
            "library loads; do check its files"
        )
    return (
        f"got {given.name}, which is no folder here and cannot be had from the hub ({reason}); allowed: a folder, or a "
        "dataset that this machine can reach; do check the name, the network and the login"
    )


def _broken_file(folder: Path) -> str | None:
    for path in sorted(folder.rglob("*.parquet")) if folder.is_dir() else ():
        try:
            for _ in pq.ParquetFile(path).iter_batches(batch_size=64):
                pass
        except (OSError, pa.ArrowException) as error:
            return f"{path} ({' '.join(str(error).split())})"
    return None
