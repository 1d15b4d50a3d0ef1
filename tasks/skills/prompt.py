"""What the model is told about the sheet, before the question of the sub-skill."""

from __future__ import annotations

from typing import Any

from tasks.contract import Message
from tasks.skills.spec import Spec

_FULL = """The sheet shows the {count} pieces of a picture that was cut into {grid} rows and {grid} columns. They are \
shuffled, but never rotated or flipped. {marks} The ids are random: an id and a place on the sheet say nothing about \
where a piece belongs. {edges}
{question}"""
_LABELLED = "Each piece has its id above it, from 0 to {last_id}."
_UNLABELLED = "Ids run from 0 to {last_id}, row by row over the sheet, from left to right."
_SHAPE = (
    "Each of the four edges of a piece is a tab (half-round bump), a blank (half-round hollow) or flat. Flat edges lie "
    "on the outer border of the picture; where two pieces meet, a tab of one fits a blank of the other."
)
_PLAIN = "All pieces are plain rectangles, so rely on their content alone."


def messages(spec: Spec, full: str, brief: str, asked: dict[str, Any]) -> list[Message]:
    """One user message: the sheet, then the question.

    `full` and `brief` are the question in each wording, to be formatted with what is `asked` (its `pieces` by position)
    and `last`, the number of the last row and column.
    """
    grid = spec.puzzle.grid
    question = full if spec.wording == "full" else brief
    text = question.format(*asked["pieces"], last=grid - 1, **asked)
    if spec.wording == "full":
        last_id = grid**2 - 1
        marks = (_LABELLED if spec.puzzle.label == "band" else _UNLABELLED).format(last_id=last_id)
        edges = _SHAPE if spec.puzzle.shape else _PLAIN
        text = _FULL.format(count=grid**2, grid=grid, marks=marks, edges=edges, question=text)
    return [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": text}]}]
