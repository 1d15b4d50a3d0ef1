"""What a completion says once its reasoning is set aside."""

from __future__ import annotations

import re

_MARK = re.compile(r"(</?think>)")


def spoken(text: str) -> str | None:
    """The text outside <think> blocks; None if a block was opened and never closed.

    A closing mark without an opening one ends a block that the prompt opened: all before it is reasoning.
    """
    kept: list[str] = []
    thinking = False
    for piece in _MARK.split(text):
        if piece == "<think>":
            thinking = True
        elif piece == "</think>":
            if not thinking:
                kept.clear()
            thinking = False
        elif not thinking:
            kept.append(piece)
    return None if thinking else "".join(kept)
