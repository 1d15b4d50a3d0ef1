"""Examples as one HTML page for a person, without scripts and without anything from elsewhere."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from data_mix.document import document, escaped
from data_mix.mixture import Posed
from tasks import Message, Span


@dataclass(frozen=True)
class Picture:
    """An image file beside the page, and its size in px."""

    file: str
    width: int
    height: int


@dataclass(frozen=True)
class ImageTokens:
    """What a model's processor makes of one image; sizes are (width, height) in px."""

    size: tuple[int, int]
    scaled: tuple[int, int]
    count: int

    @property
    def covered(self) -> tuple[float, float]:
        """Width and height, px of the image before scaling, that one token stands for: a square after it."""
        side = math.sqrt(self.scaled[0] * self.scaled[1] / self.count)
        return side * self.size[0] / self.scaled[0], side * self.size[1] / self.scaled[1]


@dataclass(frozen=True)
class Tokens:
    """Tokens of one example, and how many the recipe allows."""

    images: tuple[ImageTokens, ...]
    prompt: int
    """Images included."""
    answer: int
    """With its end of turn."""
    allowed: int

    @property
    def total(self) -> int:
        return self.prompt + self.answer

    @property
    def of_images(self) -> int:
        return sum(image.count for image in self.images)


@dataclass(frozen=True)
class Shown:
    """One example of a page, its images already files."""

    posed: Posed
    ambiguous: bool
    images: tuple[Picture, ...]
    """In the order of the image parts in the puzzle's messages."""
    truth: Picture | None
    tokens: Tokens | str
    """Or why they are not known."""


def page(title: str, about: Sequence[str], examples: Sequence[Shown]) -> str:
    """The page, as HTML.

    Args:
        about: paragraphs below the title.
        examples: those of one part stand together.
    """
    parts = by_part(examples)
    rows = "".join(
        f'<tr><td><a href="#{escaped(part)}">{escaped(part)}</a></td><td>{escaped(shown[0].posed.task.name)}</td>'
        f"<td>{len(shown)}</td><td>{escaped(token_range(shown))}</td></tr>\n"
        for part, shown in parts
    )
    sections = "".join(_part(part, shown) for part, shown in parts)
    return document(
        title,
        f"{''.join(f'<p>{escaped(line)}</p>' for line in about)}\n"
        f'<div class="wide"><table>\n{_header("part", "task", "examples", "tokens per example")}{rows}</table></div>\n'
        f"{sections}",
    )


def by_part(examples: Sequence[Shown]) -> list[tuple[str, list[Shown]]]:
    """(part, its examples), in order."""
    return [(part, list(shown)) for part, shown in groupby(examples, lambda one: one.posed.part)]


def token_range(examples: Sequence[Shown]) -> str:
    """Fewest and most tokens of the examples whose tokens are known, and how many are allowed."""
    known = [one.tokens for one in examples if isinstance(one.tokens, Tokens)]
    if not known:
        return "not known"
    least, most = min(tokens.total for tokens in known), max(tokens.total for tokens in known)
    return f"{least:,}{f'-{most:,}' if least < most else ''} of {known[0].allowed:,}"


def _part(name: str, examples: Sequence[Shown]) -> str:
    seen: set[str] = set()
    articles = "".join(_example(one, seen) for one in examples)
    return f'<section id="{escaped(name)}">\n<h2>{escaped(name)}</h2>\n{articles}</section>\n'


def _example(shown: Shown, seen: set[str]) -> str:
    """One example; texts of the prompt in `seen` are folded away, the others are added to it."""
    posed, puzzle = shown.posed, shown.posed.puzzle
    gold = posed.task.gold(puzzle.target)
    spec = json.dumps(puzzle.spec.model_dump(mode="json", exclude_defaults=True), ensure_ascii=False)
    facts = {
        "spec": spec,
        "photo": puzzle.photo_id or "none, the task draws its own",
        "seed": str(puzzle.seed),
        "key": puzzle.key,
        "ambiguous": "yes, another answer is as right as this one" if shown.ambiguous else "no",
    }
    truth = "" if shown.truth is None else f"<h4>Truth</h4>\n{_figure(shown.truth, 'the reference answer, drawn', 960)}"
    return (
        f"<article>\n<h3>{escaped(posed.part)}, example {posed.index} of the {escaped(posed.split)} split</h3>\n"
        f"<h4>Prompt</h4>\n{_prompt(puzzle.messages, shown.images, seen)}"
        f'<h4>Answer</h4>\n<p class="text answer">{_marked(gold, posed.task.informative(gold))}</p>\n'
        '<p class="note">Marked: what does not follow from the format.</p>\n'
        f"{truth}<h4>Tokens</h4>\n{_tokens(shown.tokens)}"
        f"<h4>Puzzle</h4>\n<dl>{''.join(f'<dt>{name}</dt><dd>{escaped(fact)}</dd>' for name, fact in facts.items())}"
        "</dl>\n</article>\n"
    )


def _prompt(messages: Iterable[Message], images: Sequence[Picture], seen: set[str]) -> str:
    numbered = iter(enumerate(images, 1))
    limit_px = 640 if len(images) == 1 else 160
    turns = []
    for message in messages:
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        body = []
        for part in parts:
            if part["type"] == "image":
                number, image = next(numbered)
                body.append(_figure(image, f"image {number}", limit_px))
            else:
                body.append(_prompt_text(part["text"], seen))
        turns.append(f'<div class="turn">\n<p class="role">{escaped(message["role"])}</p>\n{"".join(body)}</div>\n')
    return "".join(turns)


def _prompt_text(text: str, seen: set[str]) -> str:
    body = f'<p class="text">{escaped(text)}</p>\n'
    if text in seen:
        return f"<details><summary>the same text as above, {len(text):,} characters</summary>\n{body}</details>\n"
    seen.add(text)
    return body


def _figure(image: Picture, caption: str, limit_px: int) -> str:
    """The image at most limit_px wide, a small one in whole steps up to half of that, linked to its full size."""
    factor = max(1, limit_px // 2 // image.width)
    width = min(limit_px, image.width * factor)
    height = max(1, round(image.height * width / image.width))
    steps = ' class="steps"' if factor > 1 else ""
    file, caption = escaped(image.file), escaped(caption)
    return (
        f'<figure><a href="{file}"><img{steps} src="{file}" alt="{caption}" width="{width}" height="{height}" '
        f'loading="lazy"></a><figcaption>{caption}, {image.width} × {image.height} px</figcaption></figure>\n'
    )


def _marked(text: str, spans: Sequence[Span]) -> str:
    pieces, end = [], 0
    for start, stop in spans:
        pieces += [escaped(text[end:start]), f"<mark>{escaped(text[start:stop])}</mark>"]
        end = stop
    return "".join([*pieces, escaped(text[end:])])


def _tokens(tokens: Tokens | str) -> str:
    if isinstance(tokens, str):
        return f"<p>tokens: not known here ({escaped(tokens)})</p>\n"
    counts = (tokens.of_images, tokens.prompt - tokens.of_images, tokens.answer, tokens.total, tokens.allowed)
    cells = "".join(f"<td>{count:,}</td>" for count in counts)
    too_long = '<p class="bad">Too long: a run with this example is refused.</p>\n'
    return (
        f'<div class="wide"><table>\n{_header("images", "prompt text", "answer", "total", "model.max_tokens")}'
        f"<tr>{cells}</tr>\n</table></div>\n{too_long if tokens.total > tokens.allowed else ''}"
        f"<ul>{''.join(f'<li>{line}</li>' for line in _image_lines(tokens.images))}</ul>\n"
    )


def _header(*names: str) -> str:
    return f"<tr>{''.join(f'<th>{name}</th>' for name in names)}</tr>\n"


def _image_lines(images: Sequence[ImageTokens]) -> Iterator[str]:
    """One line for every run of images that cost the same."""
    first = 1
    for image, run in groupby(images):
        last = first + len(list(run)) - 1
        which = f"image {first}" if first == last else f"images {first} to {last}, each"
        scaled = "not scaled" if image.scaled == image.size else f"scaled to {_size(image.scaled)} px"
        cost = f"image tokens: {image.count:,}, one covers {_size(image.covered)} px of it"
        yield f"{which}: {_size(image.size)} px, {scaled}; {cost}"
        first = last + 1


def _size(size: tuple[float, float]) -> str:
    return " × ".join(f"{side:.1f}".removesuffix(".0") for side in size)
