"""Which split a photo belongs to: decided once by its content, stored, and never changed.

Photos that show the same picture form a cluster and share a split. Clusters go, in the order of their ids, to the split
that is furthest below its share. The index holds one JSON object per line and file; it outlives files that are removed.
"""

from __future__ import annotations

import json
import os
import uuid
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from data_mix.near_duplicates import near_pairs

SPLITS = ("train", "eval", "test")
_HEADER = {"format": "jigshape-train photos", "version": 1}


@dataclass(frozen=True)
class Row:
    """A photo file as it was when it was checked."""

    folder: int
    """Position among the recipe's folders."""
    path: str
    """Below that folder."""
    bytes: int
    mtime_ns: int
    id: str
    size: tuple[int, int]
    """Upright (width, height) in px."""
    hash: str | None
    """near_duplicates.picture_hash."""
    cluster: str | None = None
    """Smallest id in the cluster when it was made."""
    split: str | None = None
    """None: linked to two splits, so in none."""

    @property
    def file(self) -> tuple[int, str, int, int]:
        """What tells that a file is still the one that was checked."""
        return (self.folder, self.path, self.bytes, self.mtime_ns)


def read_index(path: Path) -> tuple[Row, ...]:
    """The stored rows; none where there is no file yet.

    Raises:
        ValueError: the file cannot be read, or is no index.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(_unreadable(path, str(error))) from error
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            value = json.loads(line)
            if number == 1:
                if value != _HEADER:
                    raise ValueError(f"not {json.dumps(_HEADER)}")
                continue
            row = Row(**{**value, "size": tuple(value["size"])})
            if row.split not in (*SPLITS, None):
                raise ValueError(f"unknown split {row.split!r}")
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(_unreadable(path, f"line {number}: {error}")) from error
        rows.append(row)
    if not lines:
        raise ValueError(_unreadable(path, "it is empty"))
    return tuple(rows)


def write_index(path: Path, rows: Sequence[Row]) -> None:
    """Replace the index in one step, so that no process ever reads half of it; nothing is written if nothing changed.

    Raises:
        ValueError: it cannot be written.
    """
    ordered = sorted(rows, key=lambda row: (row.folder, row.path, row.id))
    text = "\n".join([json.dumps(_HEADER), *(json.dumps(asdict(row)) for row in ordered), ""])
    try:
        if path.exists() and path.read_text(encoding="utf-8") == text:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, path)
    except OSError as error:
        raise ValueError(
            f"got a photo index that cannot be written, {path} ({error.strerror}); allowed: a file in a "
            "writable folder; do set data.photos.index=FILE"
        ) from error


def assign(
    found: Sequence[Row], stored: Sequence[Row], held_out: Mapping[str, float]
) -> tuple[dict[str, Row], dict[str, str]]:
    """Give every photo its split.

    Args:
        found: the photos there are, each id once.
        stored: the index; photos that are gone still hold their cluster's place.
        held_out: share of eval and test in [0, 1]; train gets the rest.

    Returns:
        (id -> row with cluster and split, id -> why it is in none: linked to two splits, it would leak between them).
    """
    known = {row.id: row for row in stored if row.split}
    new = sorted((row for row in found if row.id not in known), key=lambda row: row.id)
    placed = {
        row.id: replace(row, cluster=known[row.id].cluster, split=known[row.id].split)
        for row in found
        if row.id in known
    }
    shares = {"train": 1 - sum(held_out.values()), **held_out}
    counts = Counter(row.split for row in placed.values())
    dropped: dict[str, str] = {}
    fresh: list[list[Row]] = []
    for members, neighbours in _clusters(new, list(known.values())):
        splits = sorted({str(row.split) for row in neighbours})
        if len(splits) > 1:
            dropped |= {row.id: f"resembles photos of two splits, {' and '.join(splits)}" for row in members}
        elif splits:
            cluster = min(str(row.cluster) for row in neighbours)
            placed |= {row.id: replace(row, cluster=cluster, split=splits[0]) for row in members}
            counts[splits[0]] += len(members)
        else:
            fresh.append(members)
    for members in fresh:
        total = counts.total() + len(members)
        split = max(SPLITS, key=lambda name: shares[name] * total - counts[name])
        placed |= {row.id: replace(row, cluster=members[0].id, split=split) for row in members}
        counts[split] += len(members)
    return placed, dropped


def _clusters(new: Sequence[Row], known: Sequence[Row]) -> list[tuple[list[Row], list[Row]]]:
    """New photos that resemble each other, at once or through others, with the known ones that they resemble.

    Sorted by the first id of each, as `new` is.
    """
    parent = {row.id: row.id for row in new}

    def root(id_: str) -> str:
        while parent[id_] != id_:
            parent[id_] = parent[parent[id_]]
            id_ = parent[id_]
        return id_

    hashed = [row for row in new if row.hash]
    others = [*hashed, *(row for row in known if row.hash)]
    neighbours = defaultdict(list)
    for i, j in near_pairs([str(row.hash) for row in hashed], [str(row.hash) for row in others]):
        if j < len(hashed):
            low, high = sorted((root(hashed[i].id), root(others[j].id)))
            parent[high] = low
        else:
            neighbours[hashed[i].id].append(others[j])
    members: dict[str, list[Row]] = defaultdict(list)
    for row in new:
        members[root(row.id)].append(row)
    return [(rows, [known_row for row in rows for known_row in neighbours[row.id]]) for rows in members.values()]


def _unreadable(path: Path, reason: str) -> str:
    return (
        f"got a photo index that cannot be read, {path} ({reason}); allowed: the file that an earlier run wrote; "
        "do restore it, or delete it to draw the splits anew (photos may then change from held out to trained on)"
    )
