"""Puzzles as a form of one HTML file: what a model is shown, and a box for what a person answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from data_mix.document import escaped, sealed_document
from tasks import Message
from tasks.boxes import Boxes

_SCRIPT = Path(__file__).with_name("people.js").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Asked:
    """A puzzle of the form."""

    part: str
    index: int
    key: str
    messages: tuple[Message, ...]
    images: tuple[tuple[str, int, int], ...]
    """(URL, width, height) in the order of the image parts in `messages`."""
    boxes: Boxes | None = None
    """What is filled in; None: text is written."""


def page(title: str, about: Mapping[str, str | int], puzzles: Sequence[Asked]) -> str:
    """
    Args:
        about: what the saved file says of the form, besides name and answers.
    """
    articles = "".join(_puzzle(number, len(puzzles), puzzle) for number, puzzle in enumerate(puzzles, 1))
    body = (
        f"<p>{len(puzzles)} puzzles, in the words and pictures that a model gets. Where there are boxes, fill them in: "
        "how an answer would have to be written is no concern of yours then. Else write it just as the puzzle asks. "
        "What you type stays in this browser; nothing is sent. Save when you are done, or in between, and give "
        "the file to whoever asked you. A puzzle that you leave empty does not count.</p>\n"
        f'<form data-about="{escaped(json.dumps(about))}" autocomplete="off">\n{articles}'
        '<div class="save"><label>your name <input name="name" maxlength="40" required '
        'pattern="[A-Za-z0-9][A-Za-z0-9_.\\-]*" title="letters, digits, _ . and -"></label>\n'
        '<button>Save answers</button> <output name="done"></output></div>\n</form>\n'
    )
    return sealed_document(title, body, style=_STYLE, script=_SCRIPT)


def _puzzle(number: int, of: int, puzzle: Asked) -> str:
    images = iter(puzzle.images)
    turns = "".join(
        f'<div class="turn">{"".join(_content(message, images, len(puzzle.images)))}</div>\n'
        for message in puzzle.messages
    )
    return (
        f"<article>\n<h2>{number} of {of} <small>{escaped(puzzle.part)}, puzzle {puzzle.index}</small></h2>\n{turns}"
        f"{_boxes(puzzle.key, puzzle.boxes) if puzzle.boxes else _text(puzzle.key)}</article>\n"
    )


def _text(key: str) -> str:
    return (
        f'<label>answer<textarea data-key="{escaped(key)}" rows="4" spellcheck="false" autocapitalize="off">'
        "</textarea></label>\n"
    )


def _boxes(key: str, boxes: Boxes) -> str:
    longest = max(map(len, boxes.choices))
    rows = "".join(
        f"<tr>{''.join(_box(given, row, column, longest) for column, given in enumerate(line))}</tr>\n"
        for row, line in enumerate(boxes.given)
    )
    return (
        f'<div class="boxes" data-key="{escaped(key)}" data-choices="{escaped(json.dumps(boxes.choices))}">'
        f'<p class="note">answer: one in each box, each once</p>\n<div class="wide"><table>\n{rows}</table></div>\n'
        '<p class="note left"></p></div>\n'
    )


def _box(given: str, row: int, column: int, longest: int) -> str:
    fixed = " readonly tabindex=-1" if given else ""
    return (
        f'<td><input value="{escaped(given)}" maxlength="{longest}" size="{longest}" inputmode="numeric" '
        f'aria-label="row {row}, column {column}"{fixed}></td>'
    )


def _content(message: Message, images: Iterator[tuple[str, int, int]], num_images: int) -> Iterator[str]:
    content = message["content"]
    for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        if part["type"] == "image":
            url, width, height = next(images)
            # a small drawing is shown in whole steps, so that its pixels stay square
            factor = max(1, 480 // width) if num_images == 1 else 1
            yield (
                f'<img class="steps" src="{url}" alt="picture of the puzzle" width="{factor * width}" '
                f'height="{factor * height}">\n'
            )
        else:
            yield f'<p class="text">{escaped(part["text"])}</p>\n'


_STYLE = """
body { padding-bottom: 6rem }
article h2 { margin: 0; border: 0; font-size: 1.15rem }
small { color: var(--dim); font-weight: normal }
label { display: block; color: var(--dim); font-size: .85rem }
textarea, input, button { font: inherit; color: var(--ink); background: var(--paper); border: 1px solid var(--dim);
  border-radius: .375rem; padding: .4rem .6rem }
textarea { display: block; box-sizing: border-box; width: 100%; font: .9rem/1.4 ui-monospace, monospace }
.boxes td { padding: 1px; border: 0 }
.boxes input { box-sizing: content-box; padding: .3rem .25rem; text-align: center }
.boxes input[readonly] { background: var(--soft); color: var(--dim) }
.boxes input.twice { border-color: var(--bad); color: var(--bad) }
.turn img { margin: .5rem 0 }
.save { position: fixed; left: 0; right: 0; bottom: 0; padding: .6rem 1rem; display: flex; flex-wrap: wrap; gap: .75rem;
  align-items: center; background: var(--soft); border-top: 1px solid var(--line) }
.save input { width: 9rem }
button { cursor: pointer; font-weight: 600 }
"""
