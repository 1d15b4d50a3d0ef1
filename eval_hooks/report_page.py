"""A report as one HTML page. All that comes out of records is data of a model: clipped, printable, escaped."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from PIL import Image

from data_mix.document import escaped, sealed_document
from eval_hooks import diagnosis_table, report_chart
from eval_hooks.data_urls import lossless
from eval_hooks.gallery import Case
from eval_hooks.heat_map import displacement_map, fits_map
from eval_hooks.intervals import Estimate, estimate_beyond_chance, mean_of
from eval_hooks.percent import percent
from eval_hooks.protocol import asked_again, of_votes
from eval_hooks.records import Giver
from eval_hooks.report_numbers import Pair, PartNumbers
from eval_hooks.report_tables import (
    MOST_NAME,
    breakdown_section,
    by_task,
    charts_section,
    clip,
    clip_shown,
    interval,
    invalid_section,
    one_line,
    pairs_section,
    scores_section,
    several_section,
)
from tasks import TASKS, Message

_MOST_TEXT = 6000
_TEXT_BYTES = 400_000
"""Of all completions together; as much for prompts."""


class Drawn(NamedTuple):
    """An image of the page."""

    url: str
    width: int
    height: int


class Shown(NamedTuple):
    """A case with all that there is to see of it."""

    case: Case
    messages: tuple[Message, ...]
    images: tuple[Drawn, ...]
    lacking: str
    """Why prompt and images are not there."""


class Origin(NamedTuple):
    """Where the numbers come from."""

    file: str
    digest: str
    """SHA-256 of the file of records, hex."""
    num_bytes: int
    chosen: Sequence[str]
    """The words that named the records: records=FILE, part=NAME, ..."""
    versions: Mapping[str, str]
    """Of what made the page."""
    recipe: str | None
    """YAML."""
    environment: str | None
    """What the run stored of the libraries that it ran on, JSON."""


def page(
    giver: Giver,
    numbers: Mapping[str, PartNumbers],
    pairs: Sequence[Pair],
    gallery: Mapping[str, Sequence[Shown]],
    no_photos: str,
    origin: Origin,
) -> str:
    """
    Args:
        numbers: by part; so is `gallery`.
        no_photos: why no photo could be had; empty where that is not so.
    """
    title = " ".join(clip(giver.model, MOST_NAME).split()) + ("" if giver.step is None else f", step {giver.step}")
    body = "".join(
        [
            f"<p>{one_line(giver.split)} split, {one_line(giver.protocol)} protocol. Scores are percentages; what "
            "stands below or after one is its 95 % interval, for other puzzles of the kind.</p>\n",
            _headline(numbers),
            scores_section(numbers),
            charts_section(numbers),
            breakdown_section(numbers),
            several_section(numbers),
            pairs_section(pairs),
            _displacement(numbers),
            invalid_section(numbers),
            _gallery(gallery, no_photos),
            _diagnosis(numbers),
            _reproduce(giver, numbers, origin),
        ]
    )
    return sealed_document(title, body, style=report_chart.STYLE + _STYLE)


def _headline(numbers: Mapping[str, PartNumbers]) -> str:
    own = list(numbers.values())
    over = f"mean over {len(own)} parts" if len(own) > 1 else escaped(next(iter(numbers)))
    primaries = escaped(" and ".join(dict.fromkeys(part.summary.primary for part in own)))
    tiles = [(f"{primaries}, {over}", mean_of([part.primary for part in own]))]
    guessers = dict.fromkeys(ref.name for part in own for ref in part.references if ref.kind == "guesser")
    for guesser in guessers:
        beyond = [_beyond(part, guesser) for part in own]
        if known := [each for each in beyond if each is not None]:
            which = over if len(known) == len(own) else f"mean over {len(known)} of {len(own)} parts"
            tiles.append((f"beyond {escaped(guesser)}, {which}", mean_of(known)))
    told = "".join(
        f'<div class="tile"><b>{percent(score.mean)}</b><span>{interval(score)}</span><p>{name}</p></div>'
        for name, score in tiles
    )
    note = "Beyond a guesser who earns c, a score x is (x - c) / (1 - c): 0 for the guesser, 100 for all right."
    return f'<div class="tiles">{told}</div>\n<p class="note">{note}</p>\n'


def _beyond(part: PartNumbers, guesser: str) -> Estimate | None:
    for reference in part.references:
        if reference.name == guesser and part.summary.primary in reference.means:
            return estimate_beyond_chance(part.primary, reference.means[part.summary.primary])
    return None


def _displacement(numbers: Mapping[str, PartNumbers]) -> str:
    figures = ""
    for name, part in numbers.items():
        grids = part.said.grids
        if part.said.displacement is not None:
            title = f"{name}: where pieces lie, seen from where they belong"
            figures += _figure(displacement_map(part.said.displacement, title), title)
        if {"fits_across", "fits_down"} <= grids.keys():
            title = f"{name}: where edges fit"
            figures += _figure(fits_map(grids["fits_across"], grids["fits_down"], title), title)
    if not figures:
        return ""
    note = (
        "An antidiagonal: rows and columns are exchanged. One dark cell beside the middle: everything is shifted. Of "
        "invalid answers counts what can still be read."
    )
    return f'<section><h2>Displacement</h2>\n{figures}<p class="note">{note}</p></section>\n'


def _figure(image: Image.Image, alt: str) -> str:
    return _image(Drawn(lossless(image), *image.size), alt, "map")


def _image(image: Drawn, alt: str, kind: str) -> str:
    """An image of this class; a wide one is scrolled on a phone, as it would be too small to see."""
    size = f'width="{image.width}" height="{image.height}" style="--width:{image.width}px"'
    return f'<figure class="{kind}"><img src="{image.url}" alt="{escaped(alt)}" {size}></figure>\n'


def _gallery(gallery: Mapping[str, Sequence[Shown]], no_photos: str) -> str:
    missing = f'<p class="bad">Without pictures of photos: {escaped(no_photos)}.</p>\n' if no_photos else ""
    sections = ""
    most_bytes = _TEXT_BYTES // max(1, sum(map(len, gallery.values())))
    for part, cases in gallery.items():
        articles, seen = "", set[str]()
        for shown in cases:
            articles += _case(shown, seen, no_photos, most_bytes)
        sections += f"<h3>{escaped(part)}</h3>\n{articles}"
    return f"<section><h2>Answers</h2>\n{missing}{sections}</section>\n"


def _case(shown: Shown, seen: set[str], no_photos: str, most_bytes: int) -> str:
    """A case; prompts in `seen` stand further up already, others are added to it.

    Args:
        most_bytes: of its completion, and of its prompt.
    """
    record = shown.case.record
    primary = TASKS[record.task].primary
    sample = f", sample {record.sample}" if record.sample else ""
    title = f"{shown.case.kind}: puzzle {record.index}{sample}, {primary} {percent(record.scores[primary])}"
    invalid = f'<p class="bad">invalid: {one_line(record.invalid)}</p>\n' if record.invalid is not None else ""
    images = "".join(_image(image, "the answer, drawn", "drawn") for image in shown.images)
    lacking = ""
    if shown.lacking and not no_photos:
        lacking = f'<p class="note">No picture: {escaped(clip(shown.lacking, 300))}.</p>\n'
    scores = ", ".join(f"{entry} {percent(score)}" for entry, score in record.scores.items())
    photo, key = (escaped(clip(each, MOST_NAME)) for each in (record.photo_id or "none", record.key))
    facts = (
        f"{scores}; {record.completion_tokens} tokens, {one_line(record.finish_reason)}; photo {photo}, seed "
        f"{record.seed}, key {key}"
    )
    return (
        f"<article>\n<h4>{escaped(title)}</h4>\n{invalid}{images}{lacking}{_prompt(shown.messages, seen, most_bytes)}"
        f"<details open><summary>completion, {len(record.text):,} characters</summary>"
        f'<p class="text answer">{clip_shown(record.text, min(_MOST_TEXT, most_bytes))}</p></details>\n'
        f'<p class="note">{facts}</p>\n</article>\n'
    )


def _prompt(messages: Sequence[Message], seen: set[str], most_bytes: int) -> str:
    if not messages:
        return ""
    most_bytes //= len(messages)
    turns = "".join(
        f'<p class="role">{escaped(m["role"])}</p>\n<p class="text">{clip_shown(_said(m), most_bytes)}</p>\n'
        for m in messages
    )
    if turns in seen:
        return '<p class="note">prompt: the same as above</p>\n'
    seen.add(turns)
    return f"<details><summary>prompt</summary>{turns}</details>\n"


def _said(message: Message) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join("[image]" if part["type"] == "image" else part["text"] for part in content)


def _diagnosis(numbers: Mapping[str, PartNumbers]) -> str:
    tables = "\n\n".join(
        diagnosis_table.table(task, TASKS[task].primary, {name: part.said for name, part in parts.items()})
        for task, parts in by_task(numbers)
    )
    note = "%: mean over the answers, in place: of all that are placed; each: number per answer."
    return (
        f'<section><h2>Diagnosis</h2>\n<div class="wide"><pre>{escaped(tables)}</pre></div>\n'
        f'<p class="note">{note}</p></section>\n'
    )


def _reproduce(giver: Giver, numbers: Mapping[str, PartNumbers], origin: Origin) -> str:
    tasks = ", ".join(
        f"{task} version {version}" for task, version in {(p.summary.task, p.version): 0 for p in numbers.values()}
    )
    facts = {
        "model": clip(giver.model, 4 * MOST_NAME),
        "step": "-" if giver.step is None else str(giver.step),
        "protocol": giver.protocol,
        "split": giver.split,
        "tasks": tasks,
        "parts": ", ".join(f"{name} ({part.summary.counted})" for name, part in numbers.items()),
        "records": f"{origin.file}, {origin.num_bytes:,} bytes, SHA-256 {origin.digest}",
        "page made with": ", ".join(f"{name} {version}" for name, version in origin.versions.items()),
    }
    listed = "".join(f"<dt>{name}</dt><dd>{escaped(clip(fact, 1000))}</dd>" for name, fact in facts.items())
    # split and the words are data of others, and these lines are made to be copied into a shell
    split, *chosen = (shlex.quote(" ".join(clip(each, _MOST_TEXT).split())) for each in (giver.split, *origin.chosen))
    count = max(part.primary.n for part in numbers.values())
    voted = of_votes(giver.protocol)
    again = asked_again(*(voted or (giver.protocol, max(p.summary.n // p.primary.n for p in numbers.values()))))
    asked = f"recipe=RECIPE checkpoint=CHECKPOINT eval.split={split} eval.final_count={count} {' '.join(again)}"
    commands = [
        *(["# the answers", f"python -m eval_hooks.run {asked}"] if again else []),
        *(["# their vote; RECORDS: what that wrote", "python -m eval_hooks.votes records=RECORDS"] if voted else []),
        "# this page; the same numbers as text and JSON",
        f"python -m eval_hooks.report {' '.join(chosen)} recipe=RECIPE",
        f"python -m eval_hooks.diagnose {' '.join(chosen)}",
        "# what programs that have learnt nothing earn on the same puzzles",
        f"python -m eval_hooks.baselines recipe=RECIPE split={split} count={count}",
        "# RECIPE: a file of what stands below" if origin.recipe else "# RECIPE: the recipe of the run",
    ]
    folded = "".join(
        f'<details><summary>{name}</summary><div class="wide"><pre>{escaped(content)}</pre></div></details>\n'
        for name, content in (("the recipe", origin.recipe), ("what the run ran on", origin.environment))
        if content
    )
    lines = "\n".join(map(escaped, commands))
    specs = "".join(f"<dt>{escaped(name)}</dt><dd>{escaped(_asked(part))}</dd>" for name, part in numbers.items())
    return (
        f"<section><h2>How to reproduce</h2>\n<dl>{listed}</dl>\n"
        f'<div class="wide"><pre>{lines}</pre></div>\n'
        f"<details><summary>what each part asks</summary><dl>{specs}</dl></details>\n{folded}"
        "</section>\n"
    )


def _asked(part: PartNumbers) -> str:
    return ", ".join(f"{name} {json.dumps(value)}" for name, value in part.spec.items())


_STYLE = """
body { max-width: 70rem }
small, .note { color: var(--dim) }
small { font-size: .75rem }
.map { width: 30rem }
.drawn { overflow-x: auto; display: block }
.drawn img { max-width: none; width: min(var(--width), max(100%, 44rem)) }
section > h3 { margin-top: 1.25rem }
.tiles { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1rem 0 .5rem }
.tile { padding: .6rem 1rem; background: var(--soft); border-radius: .5rem }
.tile b { font-size: 1.75rem; margin-right: .5rem; font-variant-numeric: tabular-nums }
.tile span { color: var(--dim); font-size: .85rem }
.tile p { margin: 0; font-size: .9rem }
th[scope=row] { color: inherit }
th, td { white-space: nowrap; padding-right: .6rem }
@media (max-width: 40rem) { th[scope=row] { white-space: normal; min-width: 6.5rem } }
.own > * { font-weight: 600 } .own small { font-weight: normal }
.ref > * { color: var(--dim); font-size: .8rem; padding-top: 0; padding-bottom: 0 }
.ref th { padding-left: 1rem }
.bar { position: relative; width: 7rem; height: .6rem; margin: .15rem 0; background: var(--soft) }
.bar i { position: absolute; top: 0; bottom: 0 }
.bar .fill { left: 0; background: #0062b1; opacity: .75 }
.bar .reach { top: .2rem; bottom: .2rem; background: var(--ink) }
.bar .tick { width: 2px; margin-left: -1px; top: -.15rem; bottom: -.15rem; background: #c2410c }
pre { margin: .5rem 0; font-size: .8rem; line-height: 1.4 }
.answer { max-height: 16rem; overflow-y: auto }
article h4 { margin: 0 0 .5rem }
details { margin: .5rem 0 } summary { cursor: pointer }
"""
