"""Which puzzles a run sees: parts of posed puzzles, made when asked for, each from streams of its own.

Nothing here asks which task it has: a task that cuts a photo says by its `board` how much of one it needs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

import numpy as np

from data_mix.photos import FilePhoto, PhotoSet
from data_mix.streams import stream, stream_seed
from recipes.schema import Part, Recipe
from tasks import TASKS, Board, Example, Photo, Puzzle, Spec, Task

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
class Posed:
    """A puzzle of a mixture, not yet rendered; `index` counts within its part."""

    part: str
    split: str
    index: int
    puzzle: Puzzle
    photo: Photo | None

    @property
    def task(self) -> Task:
        return TASKS[self.puzzle.task]

    def example(self) -> Example:
        """The puzzle with its images, rendered now."""
        return self.task.render(self.puzzle, self.photo)


@dataclass(frozen=True)
class _Source:
    """One part, ready to pose: its photos are in the order in which `distinct` deals them."""

    name: str
    task: Task
    spec: Spec
    count: int
    board: Board | None
    photos: tuple[FilePhoto, ...]
    num_too_small: int
    min_scale: float
    """Fewest source px per px of the board."""


class Mixture:
    """Posed puzzles by position, the same for every order of access, worker and rank."""

    def __init__(
        self,
        parts: Mapping[str, Part],
        photos: PhotoSet | None,
        *,
        split: str,
        seed: int,
        use: Use = "distinct",
        min_piece_px: int | None = None,
        shuffle: bool = True,
    ) -> None:
        """
        Args:
            parts: by name; each gives `count` puzzles.
            photos: None only if no part cuts a photo.
            split: train, eval or test.
            seed: the run's seed.
            use: distinct: puzzle i of a part gets the i-th photo of a permutation, whole. reuse: a random crop of any.
            min_piece_px: fewest source px of a piece's side; None: as many as the piece has.
            shuffle: mix the parts by a seeded permutation; False: part after part.

        Raises:
            ValueError: a part has too few photos that are large enough; all such parts are told.
        """
        self.split, self.seed, self.use = split, seed, use
        pool = photos.split(split) if photos else ()
        self._sources = [_source(name, part, pool, split, seed, min_piece_px) for name, part in parts.items()]
        problems = [problem for source in self._sources for problem in _too_few(source, split, use, len(pool))]
        if problems:
            raise ValueError("\n".join(problems))
        self._stops = list(accumulate(source.count for source in self._sources))
        self._order = stream("mixture", split, seed).permutation(len(self)) if shuffle else None

    def __len__(self) -> int:
        return self._stops[-1] if self._stops else 0

    def __getitem__(self, position: int) -> Posed:
        """Pose the puzzle at a position; renders nothing."""
        if not 0 <= position < len(self):
            raise IndexError(f"got position {position}; allowed: 0 to {len(self) - 1}")
        place = int(position if self._order is None else self._order[position])
        at = bisect_right(self._stops, place)
        source = self._sources[at]
        index = place - (self._stops[at] - source.count)
        names = (source.task.name, self.split, self.seed, source.name, index)
        photo = _photo(source, self.use, index, names)
        puzzle = source.task.pose(source.spec, photo, stream_seed("puzzle", *names))
        return Posed(source.name, self.split, index, puzzle, photo)

    def __iter__(self) -> Iterator[Posed]:
        return (self[position] for position in range(len(self)))

    def summary(self) -> list[str]:
        """Lines for the log: what each part has, and how many photos are too small or scaled up."""
        return [f"{self.split} part {source.name}: {self._described(source)}" for source in self._sources]

    def _described(self, source: _Source) -> str:
        said = f"{source.count} puzzles of {source.task.name}"
        if source.board is None:
            return f"{said}, drawn"
        dealt = source.photos[: source.count] if self.use == "distinct" else source.photos
        how = "a photo each" if self.use == "distinct" else "random crops"
        num_scaled_up = sum(_scale(photo, source.board) < 1 for photo in dealt)
        said += f", {how}; photos: {len(source.photos)}; {source.num_too_small} too small"
        board = f"{source.board.width}x{source.board.height} px"
        return f"{said}; {num_scaled_up} of the {len(dealt)} used are smaller than {board} and scaled up"


def training_mixture(recipe: Recipe, photos: PhotoSet | None) -> Mixture:
    """The puzzles of one epoch, from photos of the train split.

    Raises:
        ValueError: photos are too few or too small.
    """
    given = recipe.data.photos
    return Mixture(
        recipe.data.parts, photos, split="train", seed=recipe.seed, use=given.use, min_piece_px=given.min_piece_px
    )


def evaluation_mixture(recipe: Recipe, photos: PhotoSet | None, count: int) -> Mixture:
    """The first `count` held-out puzzles of every part, part after part.

    Raises:
        ValueError: photos are too few or too small.
    """
    given, parts = recipe.data.photos, recipe.eval.parts or recipe.data.parts
    counted = {name: part.model_copy(update={"count": count}) for name, part in parts.items()} if count else {}
    return Mixture(
        counted, photos, split=recipe.eval.split, seed=recipe.seed, use=given.use, min_piece_px=given.min_piece_px,
        shuffle=False,
    )  # fmt: skip


def _source(
    name: str, part: Part, pool: tuple[FilePhoto, ...], split: str, seed: int, min_piece_px: int | None
) -> _Source:
    task = TASKS[part.task]
    spec = task.Spec.model_validate(part.spec)
    board = task.board(spec)
    if board is None:
        return _Source(name, task, spec, part.count, None, (), 0, 0.0)
    piece_px = min(board.width / board.columns, board.height / board.rows)
    min_scale = 1.0 if min_piece_px is None else min(1.0, min_piece_px / piece_px)
    eligible = [photo for photo in pool if _scale(photo, board) >= min_scale]
    order = stream("photos", task.name, split, seed, name).permutation(len(eligible))
    dealt = tuple(eligible[at] for at in order)
    return _Source(name, task, spec, part.count, board, dealt, len(pool) - len(eligible), min_scale)


def _scale(photo: Photo, board: Board) -> float:
    """Source px per px of the board, in the largest rectangle of the board's aspect."""
    return min(photo.size[0] / board.width, photo.size[1] / board.height)


def _photo(source: _Source, use: Use, index: int, names: tuple[str | int, ...]) -> Photo | None:
    if source.board is None:
        return None
    if use == "distinct":
        return source.photos[index]
    draw = stream("crop", *names)
    photo = source.photos[int(draw.integers(len(source.photos)))]
    scale = draw.uniform(source.min_scale, _scale(photo, source.board))
    width, height = (
        min(limit, max(1, round(side * scale))) for side, limit in zip(source.board[:2], photo.size, strict=True)
    )
    left, top = (int(draw.integers(limit - side + 1)) for side, limit in zip((width, height), photo.size, strict=True))
    return CroppedPhoto(photo, (left, top, left + width, top + height))


def _too_few(source: _Source, split: str, use: Use, num_pool: int) -> list[str]:
    """What is wrong with a part's photos, as at most one line."""
    needed = source.count if use == "distinct" else 1
    if source.board is None or len(source.photos) >= needed:
        return []
    least = [f"{side * source.min_scale:.0f}" for side in source.board[:2]]
    do = ["name a folder with more or larger photos (data.photos.folder)"]
    if use == "distinct":
        count = f"data.parts.{source.name}.count" if split == "train" else "eval.count and eval.final_count"
        do.append("let a photo serve more than once (data.photos.use=reuse)")
        if source.photos:
            do.append(f"lower {count} to {len(source.photos)}")
    if source.num_too_small:
        do.append("allow smaller photos to be scaled up (lower data.photos.min_piece_px)")
    return [
        f"got {len(source.photos)} photos for part {source.name} in the {split} split ({num_pool} there, of which "
        f"{source.num_too_small} are smaller than {' x '.join(least)} px); allowed: at least {needed}; "
        f"do {', or '.join(do)}"
    ]
