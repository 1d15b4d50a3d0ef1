"""The only JSON value of a kind in a text, whatever stands around it."""

from __future__ import annotations

import json
import re
from typing import Any


class OnlyJson:
    """Finds values that are opened in one way and closed by the matching bracket."""

    def __init__(self, opening: str, brackets: str, several: str, decoder: json.JSONDecoder) -> None:
        """
        Args:
            opening: pattern of how such a value begins; possessive, so that time stays linear in the text.
            brackets: "{}" or "[]".
            several: the reason where there is more than one.
        """
        self._opening = re.compile(opening)
        self._inside = re.compile(rf'[{re.escape(brackets)}]|"(?:[^"\\]|\\.)*+"?+', re.DOTALL)
        self._steps = {brackets[0]: 1, brackets[1]: -1}
        self._several = several
        self._decoder = decoder

    def find(self, text: str) -> Any:
        """The value, or the reason (a str) why there is not exactly one."""
        opening = self._opening.search(text)
        if opening is None:
            return "no_json"
        depth, end = 0, len(text)
        for token in self._inside.finditer(text, opening.start()):
            depth += self._steps.get(token.group(), 0)
            if depth == 0:
                end = token.end()
                break
        if depth > 0:
            return "truncated"
        if self._opening.search(text, end):
            return self._several
        try:
            return self._decoder.decode(text[opening.start() : end])
        except (json.JSONDecodeError, RecursionError):
            return "malformed"
