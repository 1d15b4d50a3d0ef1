"""What the model is told, in our own words."""

from __future__ import annotations

from tasks.contract import Message
from tasks.jigshape.spec import Spec

_SYSTEM = """You solve jigsaw puzzles. You see all pieces of one picture, shuffled, and work out where each belongs.
Use these clues:
{clues}
The ids are RANDOM. A piece's id and its place on the sheet say NOTHING about where it belongs in the picture."""

_SHAPE_CLUES = """1. Visual content: colours, textures, lines and objects that run on from one piece into the next.
2. Edge shapes: where two pieces meet, a tab (half-round bump) of one fits a blank (half-round hollow) of the other.
3. Outer edges: a corner piece has two flat edges, a border piece exactly one, an interior piece none."""

_CONTENT_CLUE = "- Visual content: colours, textures, lines and objects that run on from one piece into the next."

_USER = """The sheet shows the {count} pieces of a picture that was cut into {grid} rows and {grid} columns. {marks}
{pieces}
{steps}
Answer with ONE JSON object and nothing else. It maps every id to [row, column]; rows and columns count from 0 at the \
top-left corner of the picture, so they run from 0 to {last}. Every id appears once and every cell is used once. Form:
{{"0": [row, column], "1": [row, column], ..., "{last_id}": [row, column]}}"""

_LABELLED = "Each piece has its id above it, from 0 to {last_id}."
_UNLABELLED = "Ids run from 0 to {last_id}, row by row over the sheet, from left to right."
_SHAPE_PIECES = "Pieces are never rotated or flipped. Their edges are tabs, blanks, or flat on the outer border."
_PLAIN_PIECES = "Pieces are never rotated or flipped. All are plain rectangles, so rely on their content alone."
_SHAPE_STEPS = (
    "First find the corner pieces, then the border pieces; then fill the interior by matching content and edges."
)
_PLAIN_STEPS = "First find pieces whose content continues in one another, then work out where each group lies."

_BRIEF = 'Solve this {grid}x{grid} jigsaw. Answer with JSON, piece id to cell, all from 0: {{"0":[row,column],...}}'


def messages(spec: Spec) -> list[Message]:
    """System and user message (full), or one user message of one sentence (brief), with the sheet's place in it."""
    image = {"type": "image"}
    if spec.wording == "brief":
        return [{"role": "user", "content": [image, _text(_BRIEF.format(grid=spec.grid))]}]
    last_id = spec.grid**2 - 1
    user = _USER.format(
        count=spec.grid**2,
        grid=spec.grid,
        last=spec.grid - 1,
        last_id=last_id,
        marks=(_LABELLED if spec.label == "band" else _UNLABELLED).format(last_id=last_id),
        pieces=_SHAPE_PIECES if spec.shape else _PLAIN_PIECES,
        steps=_SHAPE_STEPS if spec.shape else _PLAIN_STEPS,
    )
    system = _SYSTEM.format(clues=_SHAPE_CLUES if spec.shape else _CONTENT_CLUE)
    return [
        {"role": "system", "content": [_text(system)]},
        {"role": "user", "content": [image, _text(user)]},
    ]


def _text(text: str) -> Message:
    return {"type": "text", "text": text}
