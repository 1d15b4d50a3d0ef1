"""Where a part's puzzles come from: one small interface for photos and datasets, and the posed puzzle that flows on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from PIL import Image

from tasks import TASKS, Example, Photo, Puzzle, Task

HELD_OUT_COUNT = "the number of puzzles (count, or eval.count and eval.final_count)"
"""What decides how many held-out puzzles are asked for, in errors."""


class Stored(Protocol):
    """Images that exist already, instead of being rendered."""

    def example(self, puzzle: Puzzle) -> Example:
        """The puzzle with these images, decoded now."""
        ...


@dataclass(frozen=True)
class Posed:
    """A puzzle of a mixture, not yet rendered; `index` counts within its part."""

    part: str
    split: str
    index: int
    puzzle: Puzzle
    photo: Photo | None
    stored: Stored | None = None
    """Where the images are, for a puzzle out of a dataset."""

    @property
    def task(self) -> Task:
        return TASKS[self.puzzle.task]

    def example(self) -> Example:
        """The puzzle with its images, rendered or decoded now."""
        if self.stored is not None:
            return self.stored.example(self.puzzle)
        return self.task.render(self.puzzle, self.photo)

    def picture(self, answer: Any) -> Image.Image | None:
        """An answer, or Invalid, drawn for a person; None where the task draws none, or the photo is not at hand."""
        if self.task.picture is None or self.stored is not None:
            return None
        return self.task.picture(self.puzzle, answer, self.photo)


class Source(Protocol):
    """The puzzles of one part, by index, the same for every order of access, worker and rank. Can be pickled."""

    @property
    def name(self) -> str:
        """The part's."""
        ...

    def __len__(self) -> int: ...

    def pose(self, index: int) -> Posed:
        """Puzzle `index` of the part; renders nothing."""
        ...

    def summary(self) -> str:
        """What the part has, for the log."""
        ...

    def inputs(self) -> str:
        """A digest of the photos or rows that the puzzles are made of: with the recipe it fixes every one of them."""
        ...
