"""Let programs that have learnt nothing solve a recipe's held-out puzzles, so that no score stands alone.

    python -m eval_hooks.baselines recipe=mixed_grid [split=eval] [count=250] [workers=2] [dotted.key=value ...]

The answers are records like a model's. They are kept by puzzle in .cache/baselines.jsonl: none is asked for twice, a
call that was stopped goes on where it was, and the tables of runs show the programs that have solved all their puzzles.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from data_mix.mixture import Mixture, first_puzzles
from data_mix.photos import find_photos
from data_mix.programs import solve_in_processes
from eval_hooks.records import Record, append_records, read_records, score_completion
from eval_hooks.summary import Solved, summarize, table
from models.generation import Completion
from recipes.command import CommandLine, run_command
from recipes.fields import problem
from recipes.schema import Recipe
from tasks import TASKS

logger = logging.getLogger(__name__)

FILE = Path(".cache", "baselines.jsonl")
PROTOCOL = "solver"
_BATCH = 32

USAGE = """\
usage: python -m eval_hooks.baselines recipe=NAME [split=eval] [count=N] [workers=2] [dotted.key=value ...]
  recipe      as for a run; python -m recipes --help lists what can be changed
  split       eval or test; default: eval.split
  count       puzzles per part; default: eval.final_count
  workers     processes"""


@dataclass(frozen=True)
class Request:
    """What the command line asks for."""

    recipe: Recipe
    split: str
    count: int
    workers: int


def parse_request(argv: Sequence[str]) -> Request:
    """
    Raises:
        RecipeError: every problem of the command line and of the recipe at once.
    """
    line = CommandLine(argv, ("split", "count", "workers"))
    split = line.choice("split", ("eval", "test"), "eval") if line.text("split") else None
    count, workers = line.number("count", None), line.number("workers", 2)
    recipe = line.recipe()
    return Request(recipe, split or recipe.eval.split, count or recipe.eval.final_count, workers)


def read_solved() -> Solved:
    """What the programs earned so far; nothing where there is no file yet.

    Raises:
        ValueError: the file holds something else than records.
    """
    return {(record.model, record.key): record.scores for record in _kept()}


def solve(request: Request) -> list[Record]:
    """The programs' records of these puzzles, those made earlier included, in the order of the puzzles.

    Raises:
        ValueError: no program can solve any of them, or photos are too few or too small.
    """
    mixture = first_puzzles(request.recipe, find_photos(request.recipe.data.photos), request.split, request.count)
    asked = [
        (position, program)
        for position, posed in enumerate(mixture)
        if posed.stored is None
        for program in posed.task.solvers
    ]
    if not asked:
        able = [name for name, task in TASKS.items() if task.solvers]
        allowed = f"parts of {', '.join(able)}"
        raise ValueError(problem("recipe", "no puzzle that a program can solve", allowed, "do name such a part"))
    keys = [posed.puzzle.key for posed in mixture]
    done = {(record.model, record.key) for record in _kept()}
    missing = [(position, program) for position, program in asked if (program, keys[position]) not in done]
    _solve_missing(mixture, missing, request.workers)
    by_key = {(record.model, record.key): record for record in _kept()}
    found = [by_key.get((program, keys[position])) for position, program in asked]
    return [record for record in found if record is not None]


def _solve_missing(mixture: Mixture, missing: Sequence[tuple[int, str]], num_workers: int) -> None:
    """Solve and keep; what is kept when this is stopped is not done again."""
    fresh: list[Record] = []
    try:
        with tqdm(total=len(missing), desc="solving", unit="puzzle") as bar:
            for solved in solve_in_processes(mixture, missing, num_workers):
                bar.update()
                if solved.text is None:
                    continue
                completion = Completion(solved.text, "stop", 0, solved.seconds)
                posed = mixture[solved.position]
                fresh.append(score_completion(posed, completion, model=solved.program, protocol=PROTOCOL))
                if len(fresh) == _BATCH:
                    append_records(FILE, fresh)
                    fresh.clear()
    finally:
        append_records(FILE, fresh)


def _kept() -> list[Record]:
    return read_records(FILE).records if FILE.is_file() else []


def report(argv: Sequence[str]) -> str:
    """Let the programs solve, and give a table for each."""
    request = parse_request(argv)
    records = solve(request)
    blocks = []
    for program in dict.fromkeys(record.model for record in records):
        own = summarize(record for record in records if record.model == program)
        blocks.append(f"{program} ({request.split} split, %)\n{table(own)}")
    return "\n\n".join(blocks)


def solved_or_nothing() -> Solved:
    """What programs earned; a damaged file of theirs must not stop a run."""
    try:
        return read_solved()
    except (ValueError, OSError) as error:
        logger.warning("the tables go without the programs' baselines: %s", error)
        return {}


def main(argv: Sequence[str]) -> int:
    return run_command(argv, USAGE, report, stopped=f"what is solved is kept in {FILE}, and the same command continues")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
