"""Say which of a recipe's puzzles have one right answer, as far as programs can tell.

    python -m data_mix.certify recipe=mixed_grid [split=eval] [count=100] [workers=2] [out=FILE] [dotted.key=value ...]

Prints the share of each part's puzzles that each statement holds for, and lists the doubtful ones in a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from data_mix.splits import SPLITS
from recipes.command import CommandLine
from recipes.schema import Recipe

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
