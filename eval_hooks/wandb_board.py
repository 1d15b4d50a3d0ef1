"""The leaderboard in Weights & Biases: one run under a fixed id, rebuilt from all records each time.

    python -m eval_hooks.wandb_board runs=runs [mode=offline] [project=jigshape-train] [entity=NAME] [name=main]

The run, of job type leaderboard, gets a table for each board and, for sorting, who leads it. The records become
artifacts: one collection for each run, one version for each file, under the file's name; the best checkpoint's records
bear the alias `best`. Offline unless mode=online; it never asks anything, and keeps no key.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Literal

import wandb

from eval_hooks.board import Board
from eval_hooks.intervals import Estimate
from eval_hooks.leaderboard import Leaderboard, make
from eval_hooks.leaderboard_page import title
from eval_hooks.protocol import GREEDY
from eval_hooks.records import Giver
from eval_hooks.run_records import Held, one_line
from eval_hooks.wandb_log import has_key
from recipes.command import CommandLine, run_command
from recipes.fields import problem, shown
from recipes.schema import Wandb
from tasks import TASKS

USAGE = """\
usage: python -m eval_hooks.wandb_board runs=DIR [mode=offline] [project=NAME] [entity=NAME] [name=main]
  runs        a folder of run folders, or one run folder
  mode        offline: files in DIR/wandb, which `wandb sync` uploads; online
  project     of W&B
  entity      of W&B; default: the key's own
  name        of the leaderboard: the same name goes on under the same id"""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")


@dataclass(frozen=True)
class Request:
    """What the command line asks for."""

    runs: Path
    mode: Literal["offline", "online"]
    project: str
    entity: str | None
    name: str


def parse_request(argv: Sequence[str]) -> Request:
    """
    Raises:
        RecipeError: every problem of the command line at once.
    """
    line = CommandLine(argv, ("runs", "mode", "project", "entity", "name"))
    runs = Path(line.required("runs", "a folder of runs")).expanduser()
    if line.text("runs") and not runs.is_dir():
        line.problems.append(problem("runs", shown(str(runs)), "a folder of runs", "do name one that exists"))
    online = line.choice("mode", ("offline", "online"), "offline") == "online"
    name = line.text("name") or "main"
    if not _NAME.fullmatch(name):
        line.problems.append(problem("name", shown(name), "at most 60 letters, digits, _ and -", "do choose another"))
    if online and not has_key():
        got = "online, but neither WANDB_API_KEY nor a netrc file holds a key"
        line.problems.append(problem("mode", got, "offline", "do export WANDB_API_KEY, or `wandb sync` later"))
    line.without_recipe()
    project = line.text("project") or Wandb().project
    return Request(runs, "online" if online else "offline", project, line.text("entity"), name)


def push(request: Request, made: Leaderboard) -> str:
    """Log all boards and records; gives where they are.

    Raises:
        ValueError: W&B refuses to start.
    """
    try:
        run = wandb.init(
            mode=request.mode,
            project=request.project,
            entity=request.entity,
            name=f"leaderboard {request.name}",
            id=f"leaderboard-{request.name}",
            job_type="leaderboard",
            resume="allow",
            dir=request.runs,
            settings=wandb.Settings(console="off", silent=True),
        )
    except wandb.errors.Error as error:
        raise ValueError(
            problem("mode", f"{request.mode}; W&B refused: {error}", "offline", "do sync later")
        ) from error
    with run:
        run.log({f"boards/{board.kind.id}": _table(board) for board in made.boards})
        for board in made.boards:
            run.summary.update(_leader(board))
        for artifact, aliases in _artifacts(request.runs, made):
            run.log_artifact(artifact, aliases=aliases)
        offline = f"{request.runs / 'wandb'}; `wandb sync` uploads it"
        return str(run.url) if request.mode == "online" else offline


def _table(board: Board) -> wandb.Table:
    parts = board.kind.parts
    means = [f"{part.name} {TASKS[part.task].primary}" for part in parts]
    columns = ["board", "kind", "rank", "best", "run", "model", "step", "score", "low", "high", *means, "puzzles"]
    rows = []
    for row in board.rows:
        scores = [board.score(row)]
        scores += [row.parts[p.name].entries.get(TASKS[p.task].primary) if p.name in row.parts else None for p in parts]
        about = [title(board), row.kind, row.rank, row.best, row.run, one_line(row.model), row.step]
        rows.append([*about, *_reach(scores[0]), *(None if s is None else s.mean for s in scores[1:]), row.n or None])
    return wandb.Table(columns=[one_line(column) for column in columns], data=rows)


def _reach(score: Estimate | None) -> list[float | None]:
    if score is None:
        return [None, None, None]
    return [score.mean, *([score.low, score.high] if score.n else [None, None])]


def _leader(board: Board) -> dict[str, object]:
    """Names for the run's summary: `leader/<board>/score`, ..."""
    first = next(row for row in board.rows if row.rank == 1)
    score, place = board.score(first), f"leader/{board.kind.id}"
    said: dict[str, object] = {
        "board": title(board),
        "run": first.run,
        "model": one_line(first.model),
        "step": first.step,
    }
    said |= {} if score is None else {"score": score.mean, "low": score.low, "high": score.high}
    return {f"{place}/{name}": value for name, value in said.items()}


def _artifacts(runs: Path, made: Leaderboard) -> Iterator[tuple[wandb.Artifact, list[str]]]:
    """An artifact for each file of records, and its aliases."""
    best = _best_files(runs, made)
    for path in made.found.files:
        name = _run(runs, path)
        artifact = wandb.Artifact(f"records-{_slug(name)}", type="records")
        artifact.add_file(str(path), name="records.jsonl", policy="immutable")
        yield artifact, [_slug(path.stem), *(["best"] if path in best else [])]


def _run(runs: Path, file: Path) -> str:
    """The name of the run that a file of records is in."""
    name = file.parent.parent.relative_to(runs).as_posix()
    return runs.resolve().name if name == "." else name


def _best_files(runs: Path, made: Leaderboard) -> set[Path]:
    """Of each run the file with the most answers of its best row. The board with the most rows of the run decides which
    that is, on a tie one of the published protocol."""
    files: dict[str, list[Path]] = {}
    for path in made.found.files:
        files.setdefault(one_line(_run(runs, path)), []).append(path)
    chosen = set()
    for run, own in files.items():
        rows = [
            (board.kind, [row for row in board.rows if row.kind == "run" and row.run == run]) for board in made.boards
        ]
        kind, ranked = max(rows, key=lambda of: (len(of[1]), of[0].protocol == GREEDY.name))
        best = next((row for row in ranked if row.best), None)
        if best is None:
            continue
        giver = Giver(best.model, best.step, kind.protocol, kind.split)
        kinds = [Held(giver, part.name, part.version, spec) for part in kind.parts for spec in part.specs]
        held = {path: sum(made.found.files[path][each] for each in kinds) for path in own}
        if any(held.values()):
            chosen.add(max(own, key=lambda path: held[path]))
    return chosen


def _slug(name: str) -> str:
    """A name that W&B takes; two names never get the same."""
    clean = re.sub(r"[^A-Za-z0-9_-]", "-", name)[:80]
    return clean if clean == name else f"{clean}-{blake2b(name.encode(errors='replace'), digest_size=3).hexdigest()}"


def report(argv: Sequence[str]) -> str:
    """Read, rank and log."""
    request = parse_request(argv)
    made = make(request.runs)
    where = push(request, made)
    unused = [f"not used: {each.name}: {each.reason}" for each in made.found.skipped]
    return "\n".join([*unused, f"{len(made.boards)} boards, {len(made.found.files)} files of records: {where}"])


def main(argv: Sequence[str]) -> int:
    return run_command(argv, USAGE, report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
