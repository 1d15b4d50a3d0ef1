"""How much of PA an answer by cells has already decided, read from its beginning on."""

from __future__ import annotations

import re
from typing import Any, Literal

from tasks.jigshape.spec import Spec

_OPENING = re.compile(r"<think>.*?(?:</think>|\Z)|\[[ \t\n\r]*+\[", re.DOTALL)
_WORD = re.compile(r"[0-9]++|[^ \t\n\r]")
_ID = "#"


def credit(
    text: str, spec: Spec, target: dict[str, Any], per: Literal["row", "piece"]
) -> list[tuple[int, float]] | None:
    """[(character, share of the asked pieces that are right in the cells before), ...], from (0, 0.0) on; None if the
    answer is not by cells.

    One entry per row or piece that is written, where the character after it ends: before that an id may still go on.
    The share falls to 0, and reading ends, with the first character after which the text can be no valid answer.
    """
    if spec.answer_format != "by_cell":
        return None
    grid, truth = spec.grid, target["cells"]
    asked = set(range(spec.num_pieces)).difference(target.get("clues", ()))
    unplaced = {str(index): index for index in range(spec.num_pieces)}
    found: list[tuple[int, float]] = [(0, 0.0)]
    opening = next((one for one in _OPENING.finditer(text) if one.group().startswith("[")), None)
    if opening is None:
        return found
    form = "],[".join([",".join([_ID] * grid)] * grid) + "]]"
    written, num_right, num_placed = "", 0, 0
    for expected, word in zip(form, _WORD.finditer(text, opening.end()), strict=False):
        fits = word.group().isdecimal() if expected == _ID else word.group() == expected
        after = word.start() + 1
        if expected != _ID and written:
            index = unplaced.pop(written, None)
            fits = fits and index is not None
            if index in asked:
                num_right += truth[index] == [*divmod(num_placed, grid)]
            num_placed += 1
            if fits and (per == "piece" or expected == "]"):
                found.append((after, num_right / len(asked)))
        if not fits:
            return [*found, (after, 0.0)]
        written = word.group() if expected == _ID else ""
    return found
