"""A part whose examples are rows of a dataset. They stay on disk: what is kept of a row is its number and sizes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import datasets
import numpy as np
import pyarrow as pa
from tqdm import tqdm

from data_mix.conversations import UnusableRow
from data_mix.dataset_files import open_dataset
from data_mix.dataset_rows import Rows, Sizes, rows_of
from data_mix.images import BadPhoto, decode_rgb, encoded_size
from data_mix.source import HELD_OUT_COUNT, Posed
from recipes.schema import Part
from tasks import Example, Puzzle

_GROUND = (255, 255, 255)
_MAX_NAMED = 5


class _Taken(NamedTuple):
    """A row that is used."""

    number: int
    photo_id: str | None
    sizes: Sizes


@dataclass(frozen=True)
class _Passed:
    """Rows that are not used, up to the last one that is."""

    other_kind: int
    held_out: int
    """Their photo belongs to the other side of training and evaluation."""
    unusable: tuple[tuple[int, str], ...]
    """(number, reason)."""

    def __str__(self) -> str:
        said = f"{self.other_kind} rows of another kind, {self.held_out} whose photo is "
        said += f"in another split, {len(self.unusable)} unusable"
        if self.unusable:
            named = [f"row {number}: {reason}" for number, reason in self.unusable[:_MAX_NAMED]]
            more = ["..."] if len(self.unusable) > _MAX_NAMED else []
            said += f" ({'; '.join([*named, *more])})"
        return said


@dataclass(frozen=True)
class StoredRow:
    """The images of one row. See data_mix.source.Stored."""

    pictures: datasets.Dataset
    """One column, in Arrow's format."""
    number: int
    name: str
    ambiguous: bool

    def example(self, puzzle: Puzzle) -> Example:
        """
        Raises:
            BadPhoto: an image that cannot be decoded, or has another size than its header says.
        """
        images = []
        for content, size in zip(encoded_images(self.pictures, self.number), puzzle.image_sizes, strict=True):
            image = decode_rgb(content.to_pybytes(), _GROUND, name=self.name)
            if image.size != size:
                raise BadPhoto(self.name, f"an image of {image.size} px whose header says {size}")
            images.append(np.array(image))
        return Example(puzzle, images, self.ambiguous)


@dataclass(frozen=True)
class DatasetSource:
    """See data_mix.source.Source; its first `count` usable rows, in the dataset's order."""

    name: str
    split: str
    task: str
    dataset: str
    rows: Rows
    texts: datasets.Dataset
    """All columns but the images."""
    pictures: datasets.Dataset
    """The column of the images, in Arrow's format."""
    taken: tuple[_Taken, ...]
    passed: _Passed
    digest: str

    def __len__(self) -> int:
        return len(self.taken)

    def pose(self, index: int) -> Posed:
        number, photo_id, sizes = self.taken[index]
        row = self.texts[number]
        puzzle = self.rows.puzzle(row, number, photo_id, sizes)
        stored = StoredRow(self.pictures, number, f"{self.dataset}, row {number}", self.rows.ambiguous(row))
        return Posed(self.name, self.split, index, puzzle, None, stored)

    def summary(self) -> str:
        said = f"{len(self)} rows of {self.dataset} as puzzles of {self.task}; passed over: {self.passed}"
        return f"{said}; evaluated only where eval.parts names it" if self.split == "train" else said

    def inputs(self) -> str:
        return self.digest

    def photo_ids(self) -> set[str]:
        """Ids of the photos that the used rows show."""
        return {_of_file(id_) for row in self.taken if row.photo_id for id_ in row.photo_id.split("+")}


def dataset_source(name: str, part: Part, *, split: str, foreign: frozenset[str]) -> DatasetSource:
    """The source of a part that names a dataset. Its rows are looked through, headers of images included, once.

    Args:
        split: train, eval or test, as the mixture has it.
        foreign: ids of photos whose rows are left out.

    Raises:
        ValueError: the dataset cannot be read, lacks what the part needs, or has fewer usable rows than `count`.
    """
    assert part.dataset is not None
    place = f"{'data' if split == 'train' else 'eval'}.parts.{name}.dataset"
    data = open_dataset(part.dataset, place)
    rows = rows_of(part, data, place)
    texts = data.select_columns(list(rows.texts))
    pictures = data.select_columns([rows.images]).with_format("arrow")
    digest = hashlib.blake2b(digest_size=8)
    taken: list[_Taken] = []
    unusable: list[tuple[int, str]] = []
    num_other = num_held_out = 0
    bar = tqdm(total=part.count, desc=f"looking through {part.dataset.name}", unit="row", leave=False, disable=None)
    for number, row in _numbered(texts):
        if len(taken) == part.count:
            break
        if not rows.wanted(row):
            num_other += 1
            continue
        try:
            contents = encoded_images(pictures, number)
            photo_id = rows.photo_id(row, contents)
            if photo_id is not None and any(_of_file(id_) in foreign for id_ in photo_id.split("+")):
                num_held_out += 1
                continue
            sizes = tuple(encoded_size(pa.BufferReader(content), name="image") for content in contents)
            if not rows.ours:  # decoded to their end now, or a broken one would end the run later
                for content in contents:
                    decode_rgb(content.to_pybytes(), _GROUND, name="image")
            puzzle = rows.puzzle(row, number, photo_id, sizes)
        except UnusableRow as error:
            unusable.append((number, str(error)))
            continue
        except BadPhoto as error:
            unusable.append((number, f"an image that is none: {error.reason}"))
            continue
        digest.update(f"{number} {puzzle.key}\n".encode())
        taken.append(_Taken(number, photo_id, sizes))
        bar.update()
    bar.close()
    passed = _Passed(num_other, num_held_out, tuple(unusable))
    if len(taken) < part.count:
        count = f"data.parts.{name}.count" if split == "train" else HELD_OUT_COUNT
        lower = f"lower {count} to {len(taken)}, or " if taken else ""
        raise ValueError(
            f"got {len(taken)} rows for part {name} from {part.dataset.name}, which has {len(data)} ({passed}); "
            f"allowed: at least {part.count}; do {lower}name a dataset with more such rows"
        )
    return DatasetSource(
        name, split, part.task, part.dataset.name, rows, texts, pictures, tuple(taken), passed, digest.hexdigest()
    )


def _numbered(texts: datasets.Dataset) -> Iterator[tuple[int, dict[str, Any]]]:
    number = 0
    for batch in texts.iter(batch_size=256):
        columns = list(batch)
        for values in zip(*batch.values(), strict=True):
            yield number, dict(zip(columns, values, strict=True))
            number += 1


def _of_file(photo_id: str) -> str:
    """The id of the photo that a crop was taken from, see photo_source.CroppedPhoto."""
    return photo_id.partition("@")[0]


def encoded_images(pictures: datasets.Dataset, number: int) -> list[pa.Buffer]:
    """The files of a row's images, not copied. Raises UnusableRow where there is none."""
    cell = pictures[number].column(0)[0]
    if isinstance(cell, pa.ListScalar | pa.LargeListScalar | pa.FixedSizeListScalar):
        images = list(cell.values or ())
    else:
        images = [cell]
    images = [image for image in images if image.is_valid]
    if not images:
        raise UnusableRow("no image")
    return [_content(image) for image in images]


def _content(image: pa.StructScalar) -> pa.Buffer:
    if image["bytes"].is_valid:
        return image["bytes"].as_buffer()
    path = Path(image["path"].as_py() or "")
    if not path.is_file():  # a device or a pipe might never end
        raise UnusableRow(f"an image whose file {path} is none")
    try:
        return pa.py_buffer(path.read_bytes())
    except OSError as error:
        raise UnusableRow(f"an image whose file {path} cannot be read") from error
