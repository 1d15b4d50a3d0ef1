"""Answers that say which id lies in each cell: `[[id, ...], ...]`, row by row.

One JSON array of N arrays of N whole numbers outside <think> blocks, each id of 0..N²-1 once. Prose and code fences
around it are ignored.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence

from tasks.contract import Invalid
from tasks.jigshape.by_id import Cells
from tasks.jigshape.only_json import OnlyJson
from tasks.jigshape.spec import Spec

# Every quantifier is possessive and every search goes on where the last one stopped: time is linear in the text.
_SPACE = r"[ \t\n\r]*+"
_NUMBER = r"(?:0|[1-9][0-9]*+)"
_ROW = re.compile(rf"\[{_SPACE}({_NUMBER}(?:{_SPACE},{_SPACE}{_NUMBER})*+){_SPACE}\]")
_ARRAY = OnlyJson(
    rf"\[{_SPACE}\[",
    "[]",
    "several_arrays",
    json.JSONDecoder(
        parse_int=lambda digits: int(digits) if len(digits) <= 4 and digits.isdecimal() else -1,  # no grid has so many
        parse_float=lambda _: None,
        parse_constant=lambda _: None,
    ),
)


def read(text: str, spec: Spec) -> Cells | Invalid:
    """Cells by id, or why the text is no answer; `partial` then holds the pieces a lenient reader accepts."""
    rows = _ARRAY.find(text)
    answer = rows if isinstance(rows, str) else _strict(rows, spec.grid)
    return Invalid(answer, _lenient(text, spec.grid)) if isinstance(answer, str) else answer


def write(cells: Sequence[Sequence[int]], grid: int) -> str:
    """Compact JSON, row by row."""
    rows = [[0] * grid for _ in range(grid)]
    for index, (row, column) in enumerate(cells):
        rows[row][column] = index
    return json.dumps(rows, separators=(",", ":"))


def _strict(rows: list[object], grid: int) -> Cells | str:
    """Cells by id, or the first reason that applies, in the order of REASONS."""
    if len(rows) != grid or any(not isinstance(row, list) or len(row) != grid for row in rows):
        return "wrong_shape"
    ids = [index for row in rows if isinstance(row, list) for index in row]
    if any(type(index) is not int for index in ids):
        return "bad_value"
    if any(not 0 <= index < grid * grid for index in ids):
        return "out_of_range"
    if len(set(ids)) < len(ids):
        return "conflict"
    cells: Cells = [None] * (grid * grid)
    for place, index in enumerate(ids):
        cells[index] = list(divmod(place, grid))
    return cells


def _lenient(text: str, grid: int) -> Cells | None:
    """Cells by id from the rows of numbers in a text, the first the top row; None where an id appears twice or never,
    or beyond the grid. None instead of a list if nothing is left, or if there are more rows than the grid has."""
    rows = [[int(number) for number in re.findall(r"[0-9]{1,9}", row)] for row in _ROW.findall(text)]
    if len(rows) > grid:
        return None
    times = Counter(index for row in rows for index in row)
    cells: Cells = [None] * (grid * grid)
    for number, row in enumerate(rows):
        for column, index in enumerate(row[:grid]):
            if index < grid * grid and times[index] == 1:
                cells[index] = [number, column]
    return cells if any(cell is not None for cell in cells) else None
