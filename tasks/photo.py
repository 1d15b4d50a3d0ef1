"""Photos as tasks see them: what one can do, the board cut from it, and one made of a bare PIL image."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from PIL import Image


class Photo(Protocol):
    """A source image. `size` is (width, height) in px; `id` never changes for the same content."""

    @property
    def id(self) -> str: ...

    @property
    def size(self) -> tuple[int, int]: ...

    def pixels(self, width: int, height: int, box: tuple[float, float, float, float] | None = None) -> np.ndarray:
        """The photo's `box` (left, top, right, bottom in source px; None: all of it), Lanczos-resized
        to uint8 (height, width, 3). Callers must not write into the array: it may be cached."""
        ...


class Board(NamedTuple):
    """The area that a task takes from a photo: size in px, and how many pieces it is cut into."""

    width: int
    height: int
    columns: int
    rows: int


@dataclass(frozen=True)
class ImagePhoto:
    """Wraps an RGB image; its id is the digest of size and pixels."""

    image: Image.Image

    def __post_init__(self) -> None:
        if self.image.mode != "RGB":
            raise ValueError(
                f"got an image of mode {self.image.mode}; a photo is RGB: "
                "call data_mix.images.to_rgb(image) first, it knows how each mode must be turned"
            )

    @cached_property
    def id(self) -> str:
        digest = hashlib.blake2b(repr(self.image.size).encode(), digest_size=8)
        digest.update(self.image.tobytes())
        return digest.hexdigest()

    @property
    def size(self) -> tuple[int, int]:
        return self.image.size

    def pixels(self, width: int, height: int, box: tuple[float, float, float, float] | None = None) -> np.ndarray:
        resized = self.image.resize((width, height), Image.Resampling.LANCZOS, box=box)
        return np.asarray(resized)  # (height, width, 3)


def as_photo(photo: Photo | Image.Image | None) -> Photo | None:
    """The photo itself, or a bare PIL image wrapped as one."""
    return ImagePhoto(photo) if isinstance(photo, Image.Image) else photo


def needed(photo: Photo | None, task: str) -> Photo:
    """The photo, for a task that cannot do without.

    Raises:
        ValueError: there is none.
    """
    if photo is None:
        raise ValueError(f"got no photo; {task} cuts one: pass the photo that the puzzle is posed with")
    return photo


def cut_board(photo: Photo, board: Board) -> np.ndarray:
    """The photo's largest centred rectangle of the board's shape, uint8 (board.height, board.width, 3)."""
    width, height = photo.size
    box_width = min(width, height * board.width / board.height)
    box_height = min(height, width * board.height / board.width)
    left, top = (width - box_width) // 2, (height - box_height) // 2
    return photo.pixels(board.width, board.height, (left, top, left + box_width, top + box_height))
