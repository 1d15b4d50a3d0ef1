"""A part that poses its puzzles: cut from photos of one split, or drawn.

Nothing here asks which task it has: a task that cuts a photo says by its `board` how much of one it needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from data_mix.photos import FilePhoto
from data_mix.source import HELD_OUT_COUNT, Posed
from data_mix.streams import stream, stream_seed
from recipes.schema import Part
from tasks import TASKS, Board, Photo, Spec, Task

Use = Literal["distinct", "reuse"]


@dataclass(frozen=True)
class CroppedPhoto:
    """A rectangle of a photo as a photo of its own. `box` is (left, top, right, bottom) in the photo's px."""

    photo: Photo
    box: tuple[int, int, int, int]

    @property
    def id(self) -> str:
        return f"{self.photo.id}@{','.join(map(str, self.box))}"

    @property
    def size(self) -> tuple[int, int]:
        left, top, right, bottom = self.box
        return right - left, bottom - top

    def pixels(self, width: int, height: int, box: tuple[float, float, float, float] | None = None) -> np.ndarray:
        """See tasks.contract.Photo; `box` counts from the crop's corner. uint8 (height, width, 3)."""
        left, top, right, bottom = box or (0, 0, *self.size)
        x, y = self.box[:2]
        return self.photo.pixels(width, height, (x + left, y + top, x + right, y + bottom))


@dataclass(frozen=True)
class PhotoSource:
    """See data_mix.source.Source; `photos` are in the order in which `distinct` deals them."""

    name: str
    task: Task
    spec: Spec
    count: int
    board: Board | None
    """None for a drawn task, which gets no photo."""
    photos: tuple[FilePhoto, ...]
    num_too_small: int
    min_scale: float
    """Fewest source px per px of the board."""
    use: Use
    stream: tuple[str | int, ...]
    """What the part's random streams are named after."""
    split: str

    def __len__(self) -> int:
        return self.count

    def pose(self, index: int) -> Posed:
        names = (*self.stream, index)
        photo = self._photo(names, index)
        puzzle = self.task.pose(self.spec, photo, stream_seed("puzzle", *names))
        return Posed(self.name, self.split, index, puzzle, photo)

    def summary(self) -> str:
        caution = self.task.caution(self.spec) if self.task.caution else None
        return f"{self._described()}; mind: {caution}" if caution else self._described()

    def _described(self) -> str:
        said = f"{self.count} puzzles of {self.task.name}"
        if self.board is None:
            return f"{said}, drawn"
        dealt = self.photos[: self.count] if self.use == "distinct" else self.photos
        how = "a photo each" if self.use == "distinct" else "random crops"
        num_scaled_up = sum(_scale(photo, self.board) < 1 for photo in dealt)
        said += f", {how}; photos: {len(self.photos)}; {self.num_too_small} too small"
        board = f"{self.board.width}x{self.board.height} px"
        return f"{said}; {num_scaled_up} of the {len(dealt)} used are smaller than {board} and scaled up"

    def inputs(self) -> str:
        return f"{stream_seed(*(photo.id for photo in self.photos)):016x}"

    def _photo(self, names: tuple[str | int, ...], index: int) -> Photo | None:
        if self.board is None:
            return None
        if self.use == "distinct":
            return self.photos[index]
        draw = stream("crop", *names)
        photo = self.photos[int(draw.integers(len(self.photos)))]
        scale = draw.uniform(self.min_scale, _scale(photo, self.board))
        width, height = (
            min(limit, max(1, round(side * scale))) for side, limit in zip(self.board[:2], photo.size, strict=True)
        )
        left, top = (
            int(draw.integers(limit - side + 1)) for side, limit in zip((width, height), photo.size, strict=True)
        )
        return CroppedPhoto(photo, (left, top, left + width, top + height))


def photo_source(
    name: str,
    parts: Mapping[str, Part],
    pool: tuple[FilePhoto, ...],
    *,
    split: str,
    seed: int,
    use: Use,
    min_piece_px: int | None,
) -> PhotoSource:
    """The source of part `name`; photos and streams are those of the part that it is `paired_with`, if any.

    Args:
        parts: all parts of the mixture.
        pool: the photos of the split, sorted by id.
        split, seed, use, min_piece_px: see data_mix.mixture.Mixture.

    Raises:
        ValueError: too few photos are large enough, or the pair's boards differ.
    """
    part = parts[name]
    task, spec, board = _kind(part)
    dealer = part.paired_with or name
    if part.paired_with:
        _check_pair(name, board, dealer, _kind(parts[dealer])[2])
    streams = (task.name, split, seed, dealer)
    if board is None:
        return PhotoSource(name, task, spec, part.count, None, (), 0, 0.0, use, streams, split)
    piece_px = min(board.width / board.columns, board.height / board.rows)
    min_scale = 1.0 if min_piece_px is None else min(1.0, min_piece_px / piece_px)
    eligible = [photo for photo in pool if _scale(photo, board) >= min_scale]
    order = stream("photos", *streams).permutation(len(eligible))
    dealt = tuple(eligible[at] for at in order)
    num_too_small = len(pool) - len(eligible)
    source = PhotoSource(name, task, spec, part.count, board, dealt, num_too_small, min_scale, use, streams, split)
    _check_enough(source, board, len(pool))
    return source


def _kind(part: Part) -> tuple[Task, Spec, Board | None]:
    task = TASKS[part.task]
    spec = task.Spec.model_validate(part.spec)
    return task, spec, task.board(spec)


def _scale(photo: Photo, board: Board) -> float:
    """Source px per px of the board, in the largest rectangle of the board's aspect."""
    return min(photo.size[0] / board.width, photo.size[1] / board.height)


def _check_pair(name: str, board: Board | None, other: str, other_board: Board | None) -> None:
    """A pair shows the same area of the same photo, so the same photos must be large enough for both."""
    if board != other_board:
        got, allowed = (
            f"{each.columns}x{each.rows} pieces on {each.width}x{each.height} px" if each else "no photo"
            for each in (board, other_board)
        )
        raise ValueError(
            f"got part {name}, which takes {got}, paired with {other}; allowed: what {other} takes, {allowed}; do "
            f"give both specs the same grid and piece size, or remove data.parts.{name}.paired_with"
        )


def _check_enough(source: PhotoSource, board: Board, num_pool: int) -> None:
    needed = source.count if source.use == "distinct" else 1
    if len(source.photos) >= needed:
        return
    least = [f"{side * source.min_scale:.0f}" for side in board[:2]]
    do = ["name a folder with more or larger photos (data.photos.folder)"]
    if source.use == "distinct":
        count = f"data.parts.{source.name}.count" if source.split == "train" else HELD_OUT_COUNT
        do.append("let a photo serve more than once (data.photos.use=reuse)")
        if source.photos:
            do.append(f"lower {count} to {len(source.photos)}")
    if source.num_too_small:
        do.append("allow smaller photos to be scaled up (lower data.photos.min_piece_px)")
    raise ValueError(
        f"got {len(source.photos)} photos for part {source.name} in the {source.split} split ({num_pool} there, of "
        f"which {source.num_too_small} are smaller than {' x '.join(least)} px); allowed: at least {needed}; "
        f"do {', or '.join(do)}"
    )
