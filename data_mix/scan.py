"""From folders to checked files: what is walked, what is passed over, and what is decoded to its end."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from tqdm import tqdm

from data_mix.images import BadPhoto, decode_rgb, is_one_color, photo_size, quiet_pillow
from data_mix.near_duplicates import picture_hash
from data_mix.splits import Row

_JUNK_NAMES = {"thumbs.db", "ehthumbs.db", "desktop.ini", "__macosx", "@eadir", "$recycle.bin"}


@dataclass(frozen=True)
class Skipped:
    """A file, or an unreadable folder, that gives no photo, and why."""

    path: str
    reason: str


def file_id(content: bytes) -> str:
    """A photo's id: 16 hex digits of the digest of its file's bytes."""
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def walk(folders: Sequence[Path], skipped: list[Skipped]) -> Iterator[tuple[int, str, str]]:
    """(folder's number, path below it, path) of every file that is no junk; each real folder once, sorted by name."""
    entered: set[tuple[int, int]] = set()

    def below(number: int, folder: str, relative: str) -> Iterator[tuple[int, str, str]]:
        try:
            status = os.stat(folder)
            if (status.st_dev, status.st_ino) in entered:
                return
            entered.add((status.st_dev, status.st_ino))
            names = sorted(os.listdir(folder))
        except OSError as error:
            skipped.append(Skipped(folder, _cannot_read(error)))
            return
        for name in names:
            if name.startswith(".") or name.lower() in _JUNK_NAMES:
                continue
            path, relative_path = os.path.join(folder, name), f"{relative}{name}"
            if os.path.isdir(path):
                yield from below(number, path, f"{relative_path}/")
            else:
                yield number, relative_path, path

    for number, folder in enumerate(folders):
        yield from below(number, str(folder), "")


def check_files(
    paths: Sequence[tuple[int, str, str]], stored: Sequence[Row], skipped: list[Skipped]
) -> list[tuple[str, Row]]:
    """(path, row without split) of every photo among the files, in their order; the rest goes to `skipped`."""
    known = {row.file: row for row in stored}
    rows: list[Row | Skipped] = []
    unknown: list[int] = []
    for number, relative, path in paths:
        row = _look(number, relative, path)
        if isinstance(row, Row):
            if row.file in known:
                row = known[row.file]
            else:
                unknown.append(len(rows))
        rows.append(row)
    if unknown:
        threads = ThreadPoolExecutor(_num_cores())
        try:
            with quiet_pillow():
                checks = threads.map(lambda at: _check(paths[at][2], rows[at]), unknown)
                bar = tqdm(checks, total=len(unknown), desc="checking photos", unit="file", disable=None)
                for at, row in zip(unknown, bar, strict=True):
                    rows[at] = row
        finally:
            threads.shutdown(cancel_futures=True)  # on Ctrl-C, do not check the rest first
    skipped += [row for row in rows if isinstance(row, Skipped)]
    return [(path, row) for (_, _, path), row in zip(paths, rows, strict=True) if isinstance(row, Row)]


def _look(number: int, relative: str, path: str) -> Row | Skipped:
    """What can be said of a file without opening it."""
    try:
        status = os.stat(path)
    except OSError as error:
        return Skipped(path, "a link to nothing" if os.path.islink(path) else _cannot_read(error))
    if not stat.S_ISREG(status.st_mode):
        return Skipped(path, "no regular file")
    if status.st_size == 0:
        return Skipped(path, "an empty file")
    return Row(number, relative, status.st_size, status.st_mtime_ns, id="", size=(0, 0), hash=None)


def _check(path: str, row: Row | Skipped) -> Row | Skipped:
    """The row with id, size and hash, after decoding the file to its end."""
    if isinstance(row, Skipped):
        return row
    try:
        photo_size(path)
        content = Path(path).read_bytes()
        # White whatever the recipe's ground, so that the index does not depend on it.
        rgb = decode_rgb(content, (255, 255, 255), name=path)
    except BadPhoto as error:
        return Skipped(path, error.reason)
    except OSError as error:
        return Skipped(path, _cannot_read(error))
    if is_one_color(rgb):
        return Skipped(path, "one single colour: no puzzle can be cut from it")
    return replace(row, id=file_id(content), size=rgb.size, hash=picture_hash(rgb))


def _num_cores() -> int:
    return min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def _cannot_read(error: OSError) -> str:
    return f"cannot be read: {(error.strerror or str(error)).lower()}"
