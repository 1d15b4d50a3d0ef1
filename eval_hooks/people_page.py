"""Puzzles as a form of one HTML file: what a model is shown, and a box for what a person answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from data_mix.document import escaped, sealed_document
from tasks import Message

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


def page(title: str, about: Mapping[str, str | int], puzzles: Sequence[Asked]) -> str:
    """
    Args:
        about: what the saved file says of the form, besides name and answers.
    """
    articles = "".join(_puzzle(number, len(puzzles), puzzle) for number, puzzle in enumerate(puzzles, 1))
    body = (
        f"<p>{len(puzzles)} puzzles, in the words and pictures that a model gets. Write each answer just as its puzzle "
        "asks. What you type stays in this browser; nothing is sent. Save when you are done, or in between, and give "
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
        f'<label>answer<textarea data-key="{escaped(puzzle.key)}" rows="4" spellcheck="false" autocapitalize="off">'
        "</textarea></label>\n</article>\n"
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
.turn img { margin: .5rem 0 }
.save { position: fixed; left: 0; right: 0; bottom: 0; padding: .6rem 1rem; display: flex; flex-wrap: wrap; gap: .75rem;
  align-items: center; background: var(--soft); border-top: 1px solid var(--line) }
.save input { width: 9rem }
button { cursor: pointer; font-weight: 600 }
"""
