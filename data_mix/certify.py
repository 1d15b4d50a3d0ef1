"""Say which of a recipe's puzzles have one right answer, as far as programs can tell.

    python -m data_mix.certify recipe=mixed_grid [split=eval] [count=100] [workers=2] [out=FILE] [dotted.key=value ...]

Prints the share of each part's puzzles that each statement holds for, and lists the doubtful ones in a file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tqdm import tqdm

from data_mix.mixture import Mixture, first_puzzles
from data_mix.photos import find_photos
from data_mix.splits import SPLITS
from data_mix.workers import in_processes
from recipes.command import CommandLine, run_command
from recipes.fields import problem
from recipes.schema import Recipe
from recipes.text_table import aligned
from tasks import TASKS

USAGE = """\
usage: python -m data_mix.certify recipe=NAME [split=eval] [count=100] [workers=2] [out=FILE] [dotted.key=value ...]
  recipe      as for a run; python -m recipes --help lists what can be changed
  split       train, eval or test
  count       the first so many puzzles of each part
  workers     processes
  out         where the doubtful puzzles are listed, in JSON lines; default: certified/<recipe>-<split>.jsonl"""


@dataclass(frozen=True)
class Request:
    """What the command line asks for."""

    recipe: Recipe
    split: str
    count: int
    workers: int
    out: Path


def parse_request(argv: Sequence[str]) -> Request:
    """
    Raises:
        RecipeError: every problem of the command line and of the recipe at once.
    """
    line = CommandLine(argv, ("split", "count", "workers", "out"))
    split, count, workers = line.choice("split", SPLITS, "eval"), line.number("count", 100), line.number("workers", 2)
    recipe = line.recipe()
    out = line.text("out") or f"certified/{recipe.name}-{split}.jsonl"
    return Request(recipe, split, count, workers, Path(out).expanduser())


@dataclass(frozen=True)
class Examined:
    """A puzzle and what holds for it."""

    part: str
    index: int
    key: str
    photo_id: str | None
    holds: Mapping[str, bool | None]
    """Statement -> whether it holds; None where that was not decided. See `tasks.contract.Task.certificate`."""


def examine(mixture: Mixture, position: int) -> Examined:
    """The certificate of one puzzle."""
    posed = mixture[position]
    assert posed.task.certificate is not None
    holds = posed.task.certificate(posed.puzzle, posed.photo)
    return Examined(posed.part, posed.index, posed.puzzle.key, posed.puzzle.photo_id, holds)


def certify(request: Request) -> list[Examined]:
    """Examine the puzzles whose task can say something, and list those that are not certified.

    Raises:
        ValueError: there are none, photos are too few or too small, or the list cannot be written.
    """
    recipe = request.recipe
    mixture = first_puzzles(recipe, find_photos(recipe.data.photos), request.split, request.count)
    positions = [
        position
        for position, posed in enumerate(mixture)
        if posed.task.certificate is not None and posed.stored is None
    ]
    if not positions:
        names = [name for name, task in TASKS.items() if task.certificate is not None]
        raise ValueError(
            problem("recipe", "no puzzle that can be examined", f"parts of {', '.join(names)}", "do name such a part")
        )
    found: list[Examined] = []
    try:
        request.out.parent.mkdir(parents=True, exist_ok=True)
        with request.out.open("w", encoding="utf-8") as listed:  # before the work: what cannot be written is told now
            work = in_processes(examine, mixture, positions, request.workers)
            for _, result in tqdm(work, total=len(positions), desc="certifying", unit="puzzle"):
                found.append(result)
                if not result.holds["certified"]:
                    listed.write(json.dumps(asdict(result)) + "\n")
    except OSError as error:
        got, allowed = f"{request.out} ({error.strerror})", "a file in a writable folder"
        raise ValueError(problem("out", got, allowed, "do write out=FILE")) from error
    order = {name: number for number, name in enumerate(mixture.counts())}
    return sorted(found, key=lambda each: (order[each.part], each.index))


def table(examined: Sequence[Examined]) -> str:
    """Per part how many puzzles there are and, in percent of those where it was decided, which statements hold."""
    statements = list(dict.fromkeys(statement for each in examined for statement in each.holds))
    rows = [["part", "puzzles", *statements]]
    for part in dict.fromkeys(each.part for each in examined):
        members = [each.holds for each in examined if each.part == part]
        decided = [[holds[name] for holds in members if holds.get(name) is not None] for name in statements]
        shares = [f"{100 * sum(map(bool, values)) / len(values):.1f}" if values else "-" for values in decided]
        rows.append([part, str(len(members)), *shares])
    return aligned(rows)


def report(argv: Sequence[str]) -> str:
    """Certify, and say what was found."""
    request = parse_request(argv)
    examined = certify(request)
    doubtful = sum(not each.holds["certified"] for each in examined)
    return f"{table(examined)}\n{doubtful} of {len(examined)} puzzles are not certified, see {request.out}"


def main(argv: Sequence[str]) -> int:
    return run_command(argv, USAGE, report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
