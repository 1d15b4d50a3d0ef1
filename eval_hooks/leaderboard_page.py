"""The leaderboard as one HTML page that needs nothing else: no network, no other file.

What comes out of records (names of models, runs, protocols) is data: printable, shortened and escaped. Should that ever
fail, the page's own policy lets no script run but its own.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from eval_hooks.board import CHANCE, Board, PartKind, Row
from eval_hooks.intervals import Estimate
from eval_hooks.percent import percent
from eval_hooks.run_records import Skipped, one_line
from tasks import TASKS

_STYLE = Path(__file__).with_name("leaderboard.css").read_text(encoding="utf-8")
_SCRIPT = Path(__file__).with_name("leaderboard.js").read_text(encoding="utf-8")
_TAGS = {"guesser": "baseline", "program": "program", "published": "published"}


class _Cell(NamedTuple):
    """HTML, and what it is sorted by; empty: last."""

    html: str
    value: str


class _Column(NamedTuple):
    title: str
    below: str
    sort: str
    """text, up or down: what the first click gives."""
    cell: Callable[[Row], _Cell]


def page(boards: Sequence[Board], skipped: Sequence[Skipped]) -> str:
    """The whole page."""
    options = {
        "protocol": [one_line(board.kind.protocol) for board in boards],
        "version": [version for board in boards for version in board.kind.versions],
        "split": [one_line(board.kind.split) for board in boards],
    }
    digest = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>Leaderboard</title>
<style>
{_STYLE}</style>
</head>
<body>
<h1>Leaderboard</h1>
<p>Score: mean over the parts of the primary score beyond {CHANCE} guessing, (x - c) / (1 - c). All numbers are percent;
below them the 95 % interval. Rows with the same sign in the last column answered the very same puzzles. Grey rows are
references without a rank: guessers, programs that have learnt nothing, and what others published of other puzzles of
the kind.</p>
<div class="filters">{_select("protocol", "protocol", options)}{_select("version", "task version", options)}\
{_select("split", "split", options)}<label><input type="checkbox" name="best"> only each run's best</label></div>
<p id="nothing" hidden>No board fits these filters.</p>
{"".join(map(_section, boards))}{_skipped(skipped)}
<script>{_SCRIPT}</script>
</body>
</html>
"""


def title(board: Board) -> str:
    """What a board ranks, in one line."""
    kind = board.kind
    parts = ", ".join(one_line(part.name, 40) for part in kind.parts)
    versions = ", ".join(f"{part.rpartition(' ')[0]} version {part.rpartition(' ')[2]}" for part in kind.versions)
    return f"{parts}: {one_line(kind.split, 40)} split, {one_line(kind.protocol, 40)}, {versions}"


def asked(part: PartKind) -> list[str]:
    """What makes a part's puzzles, each spec in a line: the fields that are no defaults."""
    specs = (TASKS[part.task].Spec.model_validate_json(text) for text in part.specs)
    return [
        ", ".join(f"{name} {json.dumps(value)}" for name, value in _plain(spec.model_dump(exclude_defaults=True)))
        for spec in specs
    ]


def _plain(fields: dict[str, object], above: str = "") -> Iterable[tuple[str, object]]:
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from _plain(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _select(name: str, label: str, options: dict[str, list[str]]) -> str:
    listed = "".join(f"<option>{escape(option)}</option>" for option in dict.fromkeys(options[name]))
    return f'<label>{label} <select name="{name}"><option value="">all</option>{listed}</select></label>'


def _section(board: Board) -> str:
    kind = board.kind
    values = {"protocol": [one_line(kind.protocol)], "split": [one_line(kind.split)], "version": kind.versions}
    data = "".join(f' data-{name}="{escape(json.dumps(value))}"' for name, value in values.items())
    specs = "".join(
        f"<dt>{escape(one_line(part.name))}</dt><dd>{escape(part.task)} version {part.version}: "
        f"{'<br>'.join(escape(one_line(spec, 400)) for spec in asked(part))}</dd>"
        for part in kind.parts
    )
    apart = "".join(
        f"<li>{escape(_giver(each.run, each.model, each.step))}: {escape(one_line(each.reason))}</li>"
        for each in board.apart
    )
    return f"""
<section id="{kind.id}"{data}>
<h2>{escape(title(board))}</h2>
{_table(board, _main_columns(board))}
<details><summary>All score entries</summary>
{_table(board, _entry_columns(board))}
</details>
<details><summary>What was asked</summary><dl>{specs}</dl></details>
{f"<p>Not ranked here:</p><ul>{apart}</ul>" if apart else ""}
</section>
"""


def _giver(run: str, model: str, step: int | None) -> str:
    return f"{run}, {one_line(model, 60)}" + ("" if step is None else f", step {step}")


def _skipped(skipped: Sequence[Skipped]) -> str:
    lines = "".join(f"<li>{escape(each.name)}: {escape(each.reason)}</li>" for each in skipped)
    return f"<h2>Not used</h2><ul>{lines}</ul>" if lines else ""


def _table(board: Board, columns: Sequence[_Column]) -> str:
    heads = "".join(
        f'<th scope="col" data-sort="{column.sort}"{_class(column)}{_sorted(column)}>'
        f'<button type="button">{escape(column.title)}'
        f"{f'<br><small>{escape(column.below)}</small>' if column.below else ''}</button></th>"
        for column in columns
    )
    rows = "".join(
        f'<tr data-kind="{row.kind}"{" data-best" if row.best else ""}>'
        + "".join(_drawn(column, column.cell(row)) for column in columns)
        + "</tr>\n"
        for row in board.rows
    )
    scrolled = f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(title(board))}">'
    return f"{scrolled}<table><thead><tr>{heads}</tr></thead><tbody>\n{rows}</tbody></table></div>"


def _class(column: _Column) -> str:
    return ' class="name"' if column.sort == "text" else ""


def _sorted(column: _Column) -> str:
    return ' aria-sort="descending"' if column.below == f"beyond {CHANCE}" else ""


def _drawn(column: _Column, cell: _Cell) -> str:
    tag = 'th scope="row"' if _class(column) else "td"
    return f'<{tag}{_class(column)} data-value="{escape(cell.value)}">{cell.html}</{tag.split()[0]}>'


def _main_columns(board: Board) -> list[_Column]:
    others = [g for g in board.guessers if g != CHANCE and any(g in row.beyond for row in board.rows)]
    return [
        *_NAMES,
        _Column("score", f"beyond {CHANCE}", "down", lambda row: _number(board.score(row), whisker=True)),
        *(_Column("score", _below(board, guesser), "down", _beyond(board, guesser)) for guesser in others),
        *(_column(part, TASKS[part.task].primary) for part in board.kind.parts),
        _Column("puzzles", "", "down", _puzzles),
    ]


def _entry_columns(board: Board) -> list[_Column]:
    return [*_NAMES, *(_column(part, entry) for part in board.kind.parts for entry in board.entries(part))]


def _column(part: PartKind, entry: str) -> _Column:
    def cell(row: Row) -> _Cell:
        return _number(row.parts[part.name].entries.get(entry) if part.name in row.parts else None)

    return _Column(one_line(part.name, 40), entry, "down", cell)


def _below(board: Board, guesser: str) -> str:
    """Names the guesser, and says how many parts the mean is over where it is not all of them."""
    own = {name for row in board.rows for name, part in row.parts.items() if guesser in part.beyond}
    some = "" if len(own) == len(board.kind.parts) else f", {len(own)} of {len(board.kind.parts)} parts"
    return f"beyond {guesser}{some}"


def _beyond(board: Board, guesser: str) -> Callable[[Row], _Cell]:
    return lambda row: _number(board.score(row, guesser))


def _puzzles(row: Row) -> _Cell:
    return _Cell(f"{row.n}<small>{row.puzzles}</small>", str(row.n)) if row.n else _Cell("-", "")


def _name(row: Row) -> _Cell:
    model = escape(one_line(row.model, 60))
    if row.kind == "run":
        best = ' <span class="tag best">best</span>' if row.best else ""
        return _Cell(f"{escape(row.run)}{best}<small>{model}</small>", row.run)
    note = f"<small>{escape(row.note)}</small>" if row.note else ""
    return _Cell(f'{model} <span class="tag">{_TAGS[row.kind]}</span>{note}', one_line(row.model, 60))


def _plain_cell(value: int | None) -> _Cell:
    return _Cell("-", "") if value is None else _Cell(str(value), str(value))


def _number(score: Estimate | None, *, whisker: bool = False) -> _Cell:
    if score is None:
        return _Cell("-", "")
    interval = f"<small>{percent(score.low)} to {percent(score.high)}</small>" if score.n else ""
    if whisker:
        left, right = (100 * min(1.0, max(0.0, value)) for value in (score.low, score.high))
        interval += f'<div class="whisker"><i style="left:{left:.1f}%;width:{right - left:.1f}%"></i></div>'
    return _Cell(f"{percent(score.mean)}{interval}", f"{score.mean:.6f}")


_NAMES = (
    _Column("#", "", "up", lambda row: _plain_cell(row.rank)),
    _Column("run", "", "text", _name),
    _Column("step", "", "down", lambda row: _plain_cell(row.step)),
)
