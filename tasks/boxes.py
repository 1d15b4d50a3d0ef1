"""Boxes for a person to fill in, where a model must write in a format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Rows = Sequence[Sequence[str]]
"""What stands in each box, row by row; "": nothing."""


@dataclass(frozen=True)
class Boxes:
    """Rows of boxes."""

    given: Rows
    """What stands there beforehand, and stays; "": to be filled in."""
    choices: Sequence[str]
    """What may stand in a box; each is used once."""
    write: Callable[[Rows], str]
    """The text for boxes as they were filled in: a valid answer if each choice is used once, and none otherwise."""
