"""Grammars: which texts answer a question in the asked form, told step by step to whoever writes one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class Grammar(Protocol):
    """A finite set of texts, each made of stretches that follow one another."""

    def options(self, written: str) -> Sequence[str]:
        """The stretches, none of them empty, that may follow after whole ones; none if the text is complete.

        Every option leads to a complete text. One may begin another ("1", "12"): then both go on.
        written: a text that ends where a stretch ends; at first "".
        """
        ...


@dataclass(frozen=True)
class OneOf:
    """Any one of a few texts, none of them empty."""

    texts: tuple[str, ...]

    def options(self, written: str) -> Sequence[str]:
        return () if written else self.texts
