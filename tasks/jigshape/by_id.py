"""Answers that map ids to cells: `{"0": [row, col], ...}`.

One JSON object outside <think> blocks, its keys exactly "0".."N²-1" once each, its values lists of two whole numbers in
0..N-1, all cells distinct. Prose and code fences around it are ignored. Where given pieces are to be left out, there
are as many keys as other pieces.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tasks.contract import Invalid
from tasks.jigshape.only_json import OnlyJson
from tasks.jigshape.spec import Spec

Cells = list[list[int] | None]
"""[row, col] by id; None for an id that the answer leaves out."""

# Every quantifier is possessive and every search goes on where the last one stopped: time is linear in the text.
_SPACE = r"[ \t\n\r]*+"
_ITEM = re.compile(
    rf'"(0|[1-9][0-9]{{0,3}}+)"{_SPACE}:{_SPACE}\[{_SPACE}(0|[1-9][0-9]?+){_SPACE},{_SPACE}(0|[1-9][0-9]?+){_SPACE}\]'
)
_FAR = 10**4  # beyond every grid; spares int() of numbers that no answer holds


def _whole_number(digits: str) -> int:
    """The value for numbers that could be a coordinate, else one out of range; "-0" is none either."""
    return int(digits) if len(digits) <= 2 and digits.isdecimal() else _FAR


_OBJECT = OnlyJson(
    rf'\{{(?={_SPACE}["}}])',
    "{}",
    "several_objects",
    json.JSONDecoder(
        object_pairs_hook=tuple,  # keeps repeated keys visible, and objects apart from lists
        parse_int=_whole_number,
        parse_float=lambda _: None,
        parse_constant=lambda _: None,
    ),
)


def read(text: str, spec: Spec) -> Cells | Invalid:
    """Cells by id, or why the text is no answer; `partial` then holds the pieces a lenient reader accepts."""
    pairs = _OBJECT.find(text)
    needed = spec.num_pieces if spec.repeat_clues else spec.num_open
    answer = pairs if isinstance(pairs, str) else _strict(pairs, spec.grid, needed)
    return Invalid(answer, _lenient(text, spec.grid)) if isinstance(answer, str) else answer


def write(cells: Mapping[int, Sequence[int]]) -> str:
    """Compact JSON of cells by id, in their order."""
    return json.dumps({str(index): cell for index, cell in cells.items()}, separators=(",", ":"))


def _strict(pairs: tuple[tuple[str, Any], ...], grid: int, needed: int) -> Cells | str:
    """Cells by id, or the first reason that applies, in the order of REASONS. needed: how many ids must be there."""
    by_key = dict(pairs)
    if len(by_key) < len(pairs):
        return "duplicate_key"
    ids = [str(index) for index in range(grid * grid)]
    if len(by_key) != needed or not by_key.keys() <= set(ids):
        return "wrong_keys"
    given = [by_key[key] for key in ids if key in by_key]
    for cell in given:
        if not (isinstance(cell, list) and len(cell) == 2 and type(cell[0]) is int and type(cell[1]) is int):
            return "bad_value"
    if any(not (0 <= row < grid and 0 <= column < grid) for row, column in given):
        return "out_of_range"
    if len({(row, column) for row, column in given}) < len(given):
        return "conflict"
    return [by_key.get(key) for key in ids]


def _lenient(text: str, grid: int) -> Cells | None:
    """Cells by id from every well-formed item of a text; None where an id is never placed, placed twice differently, or
    shares its cell with another id. None instead of a list if nothing is left."""
    placed: dict[int, set[tuple[int, int]]] = {}
    for key, row, column in _ITEM.findall(text):
        if int(key) < grid * grid:
            placed.setdefault(int(key), set()).add((int(row), int(column)))
    claims = Counter(cell for cells in placed.values() for cell in cells)
    partial: Cells = [None] * (grid * grid)
    for index, cells in placed.items():
        cell = next(iter(cells))
        if len(cells) == 1 and claims[cell] == 1 and max(cell) < grid:
            partial[index] = list(cell)
    return partial if any(cell is not None for cell in partial) else None
