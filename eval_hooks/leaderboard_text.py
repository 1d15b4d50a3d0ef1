"""The leaderboard as Markdown, for reading, and as CSV, for working on."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from html import escape

from eval_hooks.board import CHANCE, Board, Row
from eval_hooks.intervals import Estimate
from eval_hooks.leaderboard_page import title
from eval_hooks.percent import percent
from eval_hooks.run_records import Skipped, one_line
from tasks import TASKS

COLUMNS = (
    "board", "split", "protocol", "versions", "kind", "rank", "best", "run", "model", "step", "puzzles",
    "part", "entry", "n", "mean", "low", "high",
)  # fmt: skip
"""A line is one mean of one row. `part` is empty for means over all parts; entry `pa beyond random` is corrected for
chance; n counts puzzles, and where it is 0 there is no interval. Means are in [0, 1], corrected ones may be below."""


def markdown(boards: Sequence[Board], skipped: Sequence[Skipped]) -> str:
    """A table for each board, in percent; references are in italics and have no rank."""
    lines = [
        "# Leaderboard",
        "",
        f"Score: mean over the parts of the primary score beyond {CHANCE} guessing, (x - c) / (1 - c), in percent, "
        "with its 95 % interval. **Bold**: the best of its run. *Italic*: references, which have no rank. Rows with "
        "the same sign after the number of puzzles answered the very same ones.",
    ]
    for board in boards:
        lines += ["", f"## {as_written(title(board))}", "", *_table(board)]
        lines += [""] if board.apart else []
        lines += [
            f"- Not ranked here: {as_written(each.run)}, {as_written(one_line(each.model, 60))}, step {each.step}: "
            f"{as_written(one_line(each.reason))}"
            for each in board.apart
        ]
    if skipped:
        lines += ["", "## Not used", "", *(f"- {as_written(each.name)}: {as_written(each.reason)}" for each in skipped)]
    return "\n".join(lines) + "\n"


def _table(board: Board) -> Iterator[str]:
    parts = board.kind.parts
    heads = ["#", "run", "model", "step", "score", *(f"{p.name} {TASKS[p.task].primary}" for p in parts), "puzzles"]
    yield table_line([as_written(one_line(head, 60)) for head in heads])
    yield table_line(["---:", ":---", ":---", *["---:"] * (len(heads) - 3)])
    for row in board.rows:
        means = [row.parts[p.name].entries.get(TASKS[p.task].primary) if p.name in row.parts else None for p in parts]
        name, model = as_written(row.run or row.kind), as_written(one_line(row.model, 60))
        if row.kind != "run":
            name, model = f"*{name}*", f"*{model}*{f' ({as_written(row.note)})' if row.note else ''}"
        elif row.best:
            name = f"**{name}**"
        cells = [
            "" if row.rank is None else str(row.rank),
            name,
            model,
            "" if row.step is None else str(row.step),
            *map(mean_and_interval, [board.score(row), *means]),
            f"{row.n} {row.puzzles}" if row.n else "",
        ]
        yield table_line(cells)


def table_line(cells: Sequence[str]) -> str:
    """A line of a Markdown table; the cells are Markdown."""
    return f"| {' | '.join(cells)} |"


def mean_and_interval(score: Estimate | None) -> str:
    """A mean with its interval, if it has one; "-" for none."""
    if score is None:
        return "-"
    interval = f" ({percent(score.low)} to {percent(score.high)})" if score.n else ""
    return f"{percent(score.mean)}{interval}"


def as_written(text: str) -> str:
    """A text that Markdown shows as it is: no markup, no HTML, no new cell."""
    return re.sub(r"([\\`*_{}\[\]#|~$])", r"\\\1", escape(text, quote=False))


def table_csv(boards: Sequence[Board]) -> str:
    """All means of all rows, one a line; see COLUMNS."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    for board in boards:
        kind = board.kind
        about = [kind.id, _cell(kind.split), _cell(kind.protocol), "; ".join(kind.versions)]
        for row in board.rows:
            own = [row.kind, row.rank, int(row.best), _cell(row.run), _cell(row.model), row.step, row.puzzles]
            for part, entry, score in _means(board, row):
                reach = [f"{score.low:.6f}", f"{score.high:.6f}"] if score.n else ["", ""]
                writer.writerow([*about, *own, _cell(part), entry, score.n, f"{score.mean:.6f}", *reach])
    return file.getvalue()


def _means(board: Board, row: Row) -> Iterator[tuple[str, str, Estimate]]:
    for guesser in board.guessers:
        if (overall := board.score(row, guesser)) is not None:
            yield "", f"beyond {guesser}", overall
    for name, part in row.parts.items():
        for entry, score in part.entries.items():
            yield name, entry, score
        for guesser, score in part.beyond.items():
            yield name, f"{part.primary} beyond {guesser}", score


def _cell(text: str) -> str:
    return no_formula(one_line(text))


def no_formula(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text
