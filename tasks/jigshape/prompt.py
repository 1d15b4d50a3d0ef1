"""What the model is told, in our own words."""

from __future__ import annotations

from typing import Any

from tasks.contract import Message
from tasks.jigshape.spec import Spec

_SYSTEM = """You solve jigsaw puzzles. You see all pieces of one picture, shuffled, and work out where each belongs.
Use these clues:
{clues}
The ids are RANDOM. A piece's id and {place} say NOTHING about where it belongs in the picture."""

_SHAPE_CLUES = """1. Visual content: colours, textures, lines and objects that run on from one piece into the next.
2. Edge shapes: where two pieces meet, a tab (half-round bump) of one fits a blank (half-round hollow) of the other.
3. Outer edges: a corner piece has two flat edges, a border piece exactly one, an interior piece none."""

_CONTENT_CLUE = "- Visual content: colours, textures, lines and objects that run on from one piece into the next."

_SHEET = "The sheet shows the {count} pieces of a picture that was cut into {grid} rows and {grid} columns."
_IMAGES = "You get the {count} pieces of a picture that was cut into {grid} rows and {grid} columns, an image for each."

_LABELLED = "Each piece has its id above it, from 0 to {last_id}."
_UNLABELLED = "Ids run from 0 to {last_id}, row by row over the sheet, from left to right."
_NAMED = "Each image follows its id, from 0 to {last_id}."
_SHAPE_PIECES = "Pieces are never rotated or flipped. Their edges are tabs, blanks, or flat on the outer border."
_PLAIN_PIECES = "Pieces are never rotated or flipped. All are plain rectangles, so rely on their content alone."
_SHAPE_STEPS = (
    "First find the corner pieces, then the border pieces; then fill the interior by matching content and edges."
)
_PLAIN_STEPS = "First find pieces whose content continues in one another, then work out where each group lies."

_COUNTED = (
    "rows and columns count from 0 at the top-left corner of the picture, so they run from 0 to {last}. Every {which} "
    "appears once and every {cell} is used once."
)
_BY_ID = (
    "Answer with ONE JSON object and nothing else. It maps every {which} to [row, column]; " + _COUNTED + " Form:\n"
    "{form}"
)
_BY_CELL = (
    "Answer with ONE JSON array and nothing else. It holds {grid} rows, from top to bottom, each with the {grid} ids "
    "of its pieces from left to right. Every id from 0 to {last_id} appears once. Form:\n"
    "[[id, id, ...], ..., [id, id, ...]]"
)
_CELLS_THEN_IDS = (
    "First write down the solved picture as a JSON array of {grid} rows, from top to bottom, each with the {grid} ids "
    "of its pieces from left to right. Then, on a new line, give the answer: ONE JSON object that maps every id to "
    "[row, column]; " + _COUNTED + " Write nothing else. Form:\n[[id, id, ...], ..., [id, id, ...]]\n"
    '{{"0": [row, column], "1": [row, column], ..., "{last_id}": [row, column]}}'
)
_ALL_IDS = '{{"0": [row, column], "1": [row, column], ..., "{last_id}": [row, column]}}'
_SOME_IDS = '{"id": [row, column], ...}'
_ANSWER = {"by_id": _BY_ID, "by_cell": _BY_CELL, "cells_then_ids": _CELLS_THEN_IDS}

_GIVEN = "These pieces are placed already, as [row, column]: {placed}."
_REPEAT = "Your answer must contain them as well."
_OMIT = "Leave them out of your answer: give the other {open} pieces only."
_ALIKE = "Pieces of similar colours, which often lie near each other: {groups}."

_SOLVE = "Solve this {grid}x{grid} jigsaw."
_BRIEF = {
    "by_id": 'Answer with JSON, piece id to cell, all from 0: {{"{first}":[row,column],...}}',
    "by_cell": "Answer with JSON, rows of piece ids from 0: [[id,...],...]",
    "cells_then_ids": "Answer with JSON, rows of piece ids from 0: [[id,...],...], then piece id to cell: "
    '{{"0":[row,column],...}}',
}


def messages(spec: Spec, asked: dict[str, Any]) -> list[Message]:
    """System and user message (full), or one user message (brief), with the images in their places.

    asked: what differs between puzzles of the spec: `given`, [id, row, col] of each given piece, and `alike`, groups of
    ids of like colour; both may be missing.
    """
    omitted = spec.clues > 0 and not spec.repeat_clues
    facts = {
        "count": spec.num_pieces,
        "grid": spec.grid,
        "last": spec.grid - 1,
        "last_id": spec.num_pieces - 1,
        "open": spec.num_open,
        "which": "remaining id" if omitted else "id",
        "cell": "free cell" if omitted else "cell",
        "form": _SOME_IDS if omitted else _ALL_IDS.format(last_id=spec.num_pieces - 1),
        "first": "id" if omitted else "0",
    }
    told = [line.format(**facts) for line in _told(spec, asked)]
    if spec.wording == "brief":
        question = f"{_SOLVE} {_BRIEF[spec.answer_format]}".format(**facts)
        return [{"role": "user", "content": [*_images(spec), _text("\n".join([question, *told]))]}]
    pieces = _SHAPE_PIECES if spec.shape else _PLAIN_PIECES
    steps = _SHAPE_STEPS if spec.shape else _PLAIN_STEPS
    seen = f"{_SHEET if spec.input == 'sheet' else _IMAGES} {_marks(spec)}".format(**facts)
    user = "\n".join([seen, pieces, *told, steps, _ANSWER[spec.answer_format].format(**facts)])
    place = "its place on the sheet" if spec.input == "sheet" else "its place among the images"
    system = _SYSTEM.format(clues=_SHAPE_CLUES if spec.shape else _CONTENT_CLUE, place=place)
    return [
        {"role": "system", "content": [_text(system)]},
        {"role": "user", "content": [*_images(spec), _text(user)]},
    ]


def _images(spec: Spec) -> list[Message]:
    """The image parts, each piece's after its id if pieces come one by one."""
    if spec.input == "sheet":
        return [{"type": "image"}]
    return [part for index in range(spec.num_pieces) for part in (_text(f"{index}:"), {"type": "image"})]


def _marks(spec: Spec) -> str:
    if spec.label == "band":
        return _LABELLED
    return _UNLABELLED if spec.input == "sheet" else _NAMED


def _told(spec: Spec, asked: dict[str, Any]) -> list[str]:
    """The lines of clues and hints."""
    lines = []
    if "given" in asked:
        placed = ", ".join(f"{index} at [{row}, {column}]" for index, row, column in asked["given"])
        lines.append(f"{_GIVEN.format(placed=placed)} {_REPEAT if spec.repeat_clues else _OMIT}")
    if "alike" in asked:
        lines.append(_ALIKE.format(groups="; ".join(", ".join(map(str, ids)) for ids in asked["alike"])))
    return lines


def _text(text: str) -> Message:
    return {"type": "text", "text": text}
