"""Where in a text each token was written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_MOST = 4
"""Bytes of a character in UTF-8, and so tokens that can share one."""


def token_starts(tokenizer: Any, ids: Sequence[int]) -> list[int]:
    """The character at which each token starts in the text of all; those that write one character together start at it.

    Where a token starts follows from those before it alone.
    """
    starts, length, unfinished = [], 0, []
    for token in ids:
        starts.append(length)
        unfinished.append(token)
        text = tokenizer.decode(unfinished, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        if len(unfinished) == _MOST or not text.endswith("\ufffd"):
            length, unfinished = length + len(text), []
    return starts
