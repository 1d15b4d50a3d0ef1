"""Puzzles as rows of Parquet files that the `datasets` library reads by itself, images decoded."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from data_mix.dataset_rows import OUR_COLUMNS
from data_mix.export.plan import Shard
from data_mix.mixture import Mixture
from data_mix.source import Posed

FEATURES = datasets.Features(
    {
        **dict.fromkeys(OUR_COLUMNS, datasets.Value("string")),
        **dict.fromkeys(("version", "index", "seed"), datasets.Value("int64")),
        "images": datasets.List(datasets.Image()),
        "ambiguous": datasets.Value("bool"),
    }
)

_ROW_GROUP = 16
"""Rows held in memory at a time, and read at a time by who picks single rows: a 16x16 sheet is about 6 MB."""

_PNG_LEVEL = 3
"""A 16x16 sheet of a photo takes 1.5 s at level 3, 3.6 s at Pillow's own 6, which saves 8 to 14 % of the bytes."""


def row_of(posed: Posed) -> dict[str, Any]:
    """One row, rendered now: FEATURES by name, JSON without blanks, images as lossless PNG files."""
    puzzle, example = posed.puzzle, posed.example()
    signatures = puzzle.target.get("signatures")
    return {
        "key": puzzle.key,
        "task": puzzle.task,
        "version": puzzle.version,
        "part": posed.part,
        "split": posed.split,
        "index": posed.index,
        "photo_id": puzzle.photo_id,
        "seed": puzzle.seed,
        "spec": _json(puzzle.spec.model_dump(mode="json")),
        "messages": _json(puzzle.messages),
        "images": [{"bytes": _png(image), "path": None} for image in example.images],
        "target": _json(puzzle.target),
        "answer": posed.task.gold(puzzle.target),
        "signatures": None if signatures is None else _json(signatures),
        "ambiguous": example.ambiguous,
    }


def write_shard(work: tuple[Mixture, Path], shard: Shard) -> None:
    """A shard's puzzles as one Parquet file below a folder, in their order; complete or absent.

    Args:
        work: what all shards share, the mixture and the folder.

    Raises:
        BadPhoto: a photo that is gone or was changed since it was checked.
    """
    mixture, folder = work
    path, positions = folder / shard.file, range(shard.start, shard.stop)
    aside = path.with_name(f".{path.name}.partial")
    with pq.ParquetWriter(aside, FEATURES.arrow_schema) as writer:
        for start in range(0, len(positions), _ROW_GROUP):
            posed = [mixture[position] for position in positions[start : start + _ROW_GROUP]]
            rows: list[dict[str, Any]] = [{}] * len(posed)
            # One photo after the other, so that each is decoded once.
            for at in sorted(range(len(posed)), key=lambda at: posed[at].puzzle.photo_id or ""):
                rows[at] = row_of(posed[at])
            writer.write_table(pa.Table.from_pylist(rows, FEATURES.arrow_schema))
    with aside.open("rb") as file:
        os.fsync(file.fileno())
    aside.replace(path)


def broken(path: Path, num_rows: int) -> str | None:
    """Why a file is not the finished shard that it should be; None if it is."""
    try:
        with pq.ParquetFile(path) as file:
            found, schema = file.metadata.num_rows, file.schema_arrow
    except FileNotFoundError:
        return "not there"
    except (OSError, pa.ArrowException) as error:
        return " ".join(str(error).split())
    if not schema.equals(FEATURES.arrow_schema):
        return "other columns"
    return None if found == num_rows else f"{found} rows instead of {num_rows}"


def read_columns(path: Path, names: Sequence[str]) -> dict[str, list[Any]]:
    """Some columns of a finished shard, by name."""
    return pq.read_table(path, columns=list(names)).to_pydict()


def _png(pixels: np.ndarray) -> bytes:
    file = BytesIO()
    Image.fromarray(pixels).save(file, "PNG", compress_level=_PNG_LEVEL)
    return file.getvalue()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
