"""Photos from folders, or those that scikit-image bundles, each checked once and each in one split."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

import numpy as np
from PIL import Image

from data_mix.images import FORMATS, BadPhoto, Ground, decode_rgb
from data_mix.pixel_cache import PIXELS
from data_mix.scan import Skipped, check_files, file_id, walk
from data_mix.splits import SPLITS, Row, assign, read_index, write_index
from recipes.schema import Photos

BUNDLED = (
    "astronaut.png",  # NASA, public domain
    "brick.png",  # CC0Textures, CC0
    "camera.png",  # Lav Varshney, CC0
    "chelsea.png",  # Stefan van der Walt, CC0
    "clock_motion.png",  # Stefan van der Walt, public domain
    "coffee.png",  # Rachel Michetti, CC0
    "grass.png",  # linolafett, CC0
    "gravel.png",  # CC0Textures, CC0
    "hubble_deep_field.jpg",  # NASA, public domain
    "retina.jpg",  # Mikael Haggstrom, CC0
    "rocket.jpg",  # SpaceX, public domain
)
"""Files of scikit-image 0.26's wheel that are photographs, with what its documentation says of their rights.

Left out: coins and ihc ("no known copyright restrictions"), moon and the motorcycle pair (nothing said), the cell
(hardly any contrast), drawings, text and a phantom.
"""

_MAX_NAMED = 50


@dataclass(frozen=True, slots=True)
class FilePhoto:
    """A photo in a file. Travels between processes as this handful of fields; its pixels stay behind.

    `id` is the digest of the file's bytes, `size` upright (width, height) in px.
    """

    path: str
    id: str
    size: tuple[int, int]
    ground: Ground
    cache_bytes: int

    def pixels(self, width: int, height: int, box: tuple[float, float, float, float] | None = None) -> np.ndarray:
        """See tasks.contract.Photo. uint8 (height, width, 3), read-only.

        Raises:
            BadPhoto: the file was changed, or is gone, since it was checked.
        """
        return PIXELS.get(
            (self.id, self.ground, width, height, box),
            lambda: self._resized(width, height, box),
            lambda array: array.nbytes,
            self.cache_bytes,
        )

    def _resized(self, width: int, height: int, box: tuple[float, float, float, float] | None) -> np.ndarray:
        image = PIXELS.get(
            (self.id, self.ground), self._decoded, lambda rgb: 4 * rgb.width * rgb.height, self.cache_bytes
        )
        array = np.array(image.resize((width, height), Image.Resampling.LANCZOS, box=box))
        array.flags.writeable = False
        return array

    def _decoded(self) -> Image.Image:
        try:
            content = Path(self.path).read_bytes()
        except OSError as error:
            reason = (
                f"was a photo when the run started, and now: {error.strerror or error}; put it back, or start again"
            )
            raise BadPhoto(self.path, reason) from error
        if file_id(content) != self.id:
            raise BadPhoto(self.path, "has been changed since it was checked; put it back, or touch it and start again")
        return decode_rgb(content, self.ground, name=self.path)


@dataclass(frozen=True)
class PhotoSet:
    """All usable photos, sorted by id, the split of each, and what was left out, sorted by path."""

    photos: tuple[FilePhoto, ...]
    skipped: tuple[Skipped, ...]
    splits: Mapping[str, str]
    """Photo id -> train, eval or test."""
    index: Path
    """Where the splits are stored."""

    def split(self, name: str) -> tuple[FilePhoto, ...]:
        """The photos of one split, sorted by id."""
        return tuple(photo for photo in self.photos if self.splits[photo.id] == name)

    def summary(self) -> list[str]:
        """Lines for the log."""
        counts = Counter(self.splits[photo.id] for photo in self.photos)
        shares = ", ".join(f"{name} {counts[name]}" for name in SPLITS)
        lines = [f"photos: {len(self.photos)} usable ({shares}); splits are stored in {self.index}"]
        if self.skipped:
            lines.append(f"photos: {len(self.skipped)} files skipped:")
            lines += [f"  {_printable(each.path)}: {each.reason}" for each in self.skipped[:_MAX_NAMED]]
        if len(self.skipped) > _MAX_NAMED:
            lines.append(f"  and {len(self.skipped) - _MAX_NAMED} more")
        return lines


def find_photos(photos: Photos) -> PhotoSet:
    """Check every file that the recipe names, and give each photo its split.

    A file is decoded to its end once; the index remembers it by path, size and time of change, so that the next start
    reads only what is new. Every process that runs this on the same files and index gets the same result.

    Raises:
        ValueError: a folder is missing, no photo is usable, or the index cannot be read or written.
    """
    skipped: list[Skipped] = []
    if photos.folder is None:
        folders = [Path(str(files("skimage") / "data"))]
        paths = [(0, name, str(folders[0] / name)) for name in BUNDLED]
    else:
        folders = _folders(photos.folder)
        paths = list(walk(folders, skipped))
    index = Path(photos.index) if photos.index else _default_index(folders, bundled=photos.folder is None)
    stored = read_index(index)
    rows = check_files(paths, stored, skipped)

    path_of: dict[str, str] = {}
    unique: list[Row] = []
    for path, row in rows:
        if row.id in path_of:
            skipped.append(Skipped(path, f"the same file as {path_of[row.id]}"))
        else:
            path_of[row.id] = path
            unique.append(row)
    placed, dropped = assign(unique, stored, {"eval": photos.shares.eval, "test": photos.shares.test})
    skipped += [Skipped(path_of[id_], reason) for id_, reason in dropped.items()]
    if not placed:
        raise ValueError(_no_photos(folders, skipped))

    gone = [row for row in stored if row.split and row.id not in path_of]
    splits = {id_: (row.cluster, row.split) for id_, row in placed.items()}
    now = [
        replace(row, cluster=cluster, split=split)
        for _, row in rows
        for cluster, split in [splits.get(row.id, (None, None))]
    ]
    write_index(index, [*now, *gone])
    usable = tuple(
        FilePhoto(path_of[id_], id_, row.size, photos.ground, photos.cache_mb * 2**20)
        for id_, row in sorted(placed.items())
    )
    by_path = tuple(sorted(skipped, key=lambda each: each.path))
    return PhotoSet(usable, by_path, {id_: str(row.split) for id_, row in placed.items()}, index)


def _folders(given: str | list[str]) -> list[Path]:
    folders = [Path(folder).expanduser() for folder in ([given] if isinstance(given, str) else given)]
    for folder in folders:
        if not folder.is_dir():
            got = "a file" if folder.exists() else "nothing"
            raise ValueError(
                f"got {got} at data.photos.folder {folder}; allowed: a folder with photos; do name one, or leave "
                "data.photos.folder out for the photos that scikit-image bundles"
            )
    return folders


def _default_index(folders: Sequence[Path], *, bundled: bool) -> Path:
    resolved = json.dumps([str(folder.resolve()) for folder in folders])
    digest = hashlib.blake2b(resolved.encode(), digest_size=4).hexdigest()
    name = "scikit-image" if bundled else folders[0].resolve().name or "root"
    return Path(".cache", "photos", f"{name}-{digest}.jsonl")


def _no_photos(folders: Sequence[Path], skipped: Sequence[Skipped]) -> str:
    where = ", ".join(map(str, folders))
    named = "".join(f"\n  {_printable(each.path)}: {each.reason}" for each in skipped[:_MAX_NAMED])
    return (
        f"got no usable photo in {where} ({len(skipped)} files skipped); allowed: images of the kinds "
        f"{', '.join(FORMATS)}; do name a folder with some in data.photos.folder{named}"
    )


def _printable(path: str) -> str:
    """A path that can be written to any log: a name may hold line breaks, or bytes that are no UTF-8."""
    text = os.fsencode(path).decode("utf-8", errors="backslashreplace")
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)
