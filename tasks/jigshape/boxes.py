"""The puzzle's cells as boxes: the number of a piece goes into each."""

from __future__ import annotations

import json
from typing import Any

from tasks.boxes import Boxes, Rows
from tasks.jigshape.spec import Spec


def boxes(spec: Spec, asked: dict[str, Any]) -> Boxes:
    """Of a puzzle that asks this; given pieces stand in their cells."""
    rows = [[""] * spec.grid for _ in range(spec.grid)]
    for index, row, column in asked.get("given", ()):
        rows[row][column] = str(index)
    given = {box for row in rows for box in row if box}
    left_out = set() if spec.repeat_clues else given

    def write(filled: Rows) -> str:
        by_cell = json.dumps([[_number(box) for box in row] for row in filled], separators=(",", ":"))
        pairs = ",".join(
            f"{json.dumps(box)}:[{row},{column}]"
            for row, line in enumerate(filled)
            for column, box in enumerate(line)
            if box and box not in left_out
        )
        by_id = f"{{{pairs}}}"  # an id that stands in two cells is a key that is there twice
        return {"by_cell": by_cell, "by_id": by_id}.get(spec.answer_format, f"{by_cell}\n{by_id}")

    return Boxes(rows, [str(index) for index in range(spec.num_pieces)], write)


def _number(box: str) -> int | str | None:
    return int(box) if box.isascii() and box.isdigit() and len(box) < 5 else box or None
