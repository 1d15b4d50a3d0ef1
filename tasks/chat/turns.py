"""What is asked: turns out of a dataset. There is nothing to pose or to draw."""

from __future__ import annotations

from typing import NoReturn

from tasks.contract import Photo, Puzzle
from tasks.contract import Spec as BaseSpec

NAME = "chat"
VERSION = 1

_ONLY_DATA = "got {}; a chat example comes only out of a dataset: name one in the part's `dataset`"


class Spec(BaseSpec):
    """Conversations are of one kind."""


def board(spec: Spec) -> None:
    """No photo is cut."""


def pose(spec: Spec, photo: Photo | None, seed: int) -> NoReturn:
    """Raises ValueError: nothing poses a conversation."""
    raise ValueError(_ONLY_DATA.format("a chat to pose"))


def render(puzzle: Puzzle, photo: Photo | None) -> NoReturn:
    """Raises ValueError: the images are the dataset's."""
    raise ValueError(_ONLY_DATA.format("a chat to render"))
