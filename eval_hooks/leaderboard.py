"""Rank all checkpoints of all runs, offline.

    python -m eval_hooks.leaderboard runs=runs [out=runs/leaderboard]

Reads every records/*.jsonl below the folder and writes leaderboard.md, leaderboard.csv and leaderboard.html, one page
that needs no network. All are made anew from the records each time. What is ranked against what: docs/leaderboard.md.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from eval_hooks.baselines import FILE as SOLVED
from eval_hooks.baselines import read_solved
from eval_hooks.board import Board
from eval_hooks.leaderboard_page import page, title
from eval_hooks.leaderboard_text import markdown, table_csv
from eval_hooks.percent import percent
from eval_hooks.ranking import boards
from eval_hooks.run_records import Found, Skipped, one_line, read_runs
from eval_hooks.summary import Solved
from recipes.command import CommandLine, run_command
from recipes.fields import problem, shown
from recipes.text_table import aligned

USAGE = """\
usage: python -m eval_hooks.leaderboard runs=DIR [out=DIR]
  runs        a folder of run folders, or one run folder
  out         where leaderboard.md, .csv and .html are written; default: runs/leaderboard"""

_SHOWN = 10


@dataclass(frozen=True)
class Request:
    """What the command line asks for."""

    runs: Path
    out: Path


@dataclass(frozen=True)
class Leaderboard:
    """All boards, and what they were made from."""

    boards: list[Board]
    found: Found


def parse_request(argv: Sequence[str]) -> Request:
    """
    Raises:
        RecipeError: every problem of the command line at once.
    """
    line = CommandLine(argv, ("runs", "out"))
    runs = Path(line.required("runs", "a folder of runs")).expanduser()
    if line.text("runs") and not runs.is_dir():
        line.problems.append(problem("runs", shown(str(runs)), "a folder of runs", "do name one that exists"))
    line.without_recipe()
    return Request(runs, Path(line.text("out") or runs / "leaderboard").expanduser())


def make(runs: Path) -> Leaderboard:
    """All boards of a folder of runs.

    Raises:
        ValueError: it holds no records, or none that can be ranked.
    """
    found = read_runs(runs)
    solved, unreadable = _solved()
    found = found._replace(skipped=[*found.skipped, *unreadable])
    ranked = boards(found.entrants, solved)
    if not ranked:
        reasons = "; ".join(f"{each.name}: {each.reason}" for each in found.skipped[:3]) or "programs' answers only"
        raise ValueError(problem("runs", f"{runs}: nothing to rank ({reasons})", "scored answers", "do name others"))
    return Leaderboard(ranked, found)


def _solved() -> tuple[Solved, list[Skipped]]:
    try:
        return read_solved(), []
    except (ValueError, OSError) as error:
        return {}, [Skipped(str(SOLVED), one_line(f"no rows of programs: {error}", 300))]


def write(made: Leaderboard, out: Path) -> list[Path]:
    """Write the three files; gives their paths."""
    out.mkdir(parents=True, exist_ok=True)
    texts = {
        "leaderboard.md": markdown(made.boards, made.found.skipped),
        "leaderboard.csv": table_csv(made.boards),
        "leaderboard.html": page(made.boards, made.found.skipped),
    }
    for name, text in texts.items():
        aside = out / f".{name}.partial"
        aside.write_text(text, encoding="utf-8")
        aside.replace(out / name)
    return [out / name for name in texts]


def table(board: Board) -> str:
    """The first ranked rows of a board for a terminal, and the references below."""
    rows = [["", "#", "step", "score", "low", "high", "puzzles"]]
    ranked = [row for row in board.rows if row.kind == "run"]
    for row in [*ranked[:_SHOWN], *(row for row in board.rows if row.kind != "run")]:
        score = board.score(row)
        if score is None:
            continue
        name = f"  {one_line(row.model, 40)}"
        if row.run:  # which has several models where they have no steps, as people's
            name = row.run[-40:] + (f", {one_line(row.model, 40)}" if row.step is None else "")
            name += " (best)" if row.best else ""
        means = [percent(value) for value in (score.mean, score.low, score.high)[: 3 if score.n else 1]]
        place = ["" if number is None else str(number) for number in (row.rank, row.step)]
        rows.append([name, *place, *means, *[""] * (3 - len(means)), str(row.n or "")])
    left_out = f"\n... {len(ranked) - _SHOWN} more with a rank" if len(ranked) > _SHOWN else ""
    return f"{title(board)}\n{aligned(rows)}{left_out}"


def report(argv: Sequence[str]) -> str:
    """Read, rank, write, and show who leads."""
    request = parse_request(argv)
    made = make(request.runs)
    written = write(made, request.out)
    blocks = [table(board) for board in made.boards]
    blocks += [f"not used: {each.name}: {each.reason}" for each in made.found.skipped]
    return "\n\n".join([*blocks, f"written: {', '.join(map(str, written))}"])


def main(argv: Sequence[str]) -> int:
    return run_command(argv, USAGE, report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
