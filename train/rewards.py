"""Try a recipe's reward before training on it: what do right, random and degenerate answers earn in each part?

    python -m train.rewards recipe=NAME [split=train] [count=32] [dotted.key=value ...]

It fails where an answer earns more on average than one with a higher primary score: than the right one, or than one
that is right in 30 % and random in the rest.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from data_mix.mixture import first_puzzles
from data_mix.photos import find_photos
from data_mix.source import Posed
from data_mix.splits import SPLITS
from data_mix.streams import stream
from recipes.command import CommandLine, run_command
from recipes.schema import Recipe
from recipes.text_table import aligned
from tasks import TASKS, Puzzle
from train.reward_functions import earned, reward_weights

USAGE = """\
usage: python -m train.rewards recipe=NAME [split=train] [count=32] [dotted.key=value ...]
  recipe      as for a run; reward={} sets the default weights where it has none
  split       train, eval or test
  count       the first so many puzzles of each part

The exit status is 1 where a worse answer earns more, 2 where the recipe is refused."""

RIGHT = "right"
PARTLY = "30 % right"
_SHARE = 0.3


@dataclass(frozen=True)
class Row:
    """What one way to answer earns in a part, on average over its puzzles."""

    part: str
    task: str
    answer: str
    reward: float
    primary: float
    """Mean of the score entry that ranks."""
    entries: Mapping[str, float]
    """Rewarded entry -> mean, of those that the part has."""

    def cheats(self, other: Row) -> bool:
        """Whether it earns more than a better answer."""
        return self.primary < other.primary and self.reward > other.reward


def answers(posed: Posed, another: Puzzle, seed: int) -> dict[str, str]:
    """{what it does: completion} of one puzzle, the right answer and those it is to be compared with first."""
    task, target = posed.task, posed.puzzle.target
    rng = stream("degenerate", posed.part, posed.split, seed, posed.index)
    found = {RIGHT: task.gold(target)}
    if task.partly_right is not None:
        found[PARTLY] = task.partly_right(target, _SHARE, rng)
    if task.degenerate is not None:
        found |= task.degenerate(target, rng)
    found["another puzzle's"] = task.gold(another.target)
    found["the prompt"] = "\n".join(_said(posed.puzzle))
    found["nothing"] = ""
    return found


def _said(puzzle: Puzzle) -> Iterator[str]:
    for message in puzzle.messages:
        yield from (part["text"] for part in message["content"] if part["type"] == "text")


def try_reward(recipe: Recipe, split: str, count: int) -> list[Row]:
    """What each way to answer earns, part by part.

    Raises:
        ValueError: the recipe rewards nothing, or photos are too few or too small.
    """
    weights = reward_weights(recipe)
    parts: dict[str, list[Posed]] = {}
    for posed in first_puzzles(recipe, find_photos(recipe.data.photos), split, count):
        parts.setdefault(posed.part, []).append(posed)
    return [row for puzzles in parts.values() for row in _rows(puzzles, weights, recipe.seed)]


def _rows(puzzles: Sequence[Posed], weights: Mapping[str, float], seed: int) -> Iterator[Row]:
    """The rows of one part."""
    task, scores = puzzles[0].task, dict[str, list[dict[str, float]]]()
    for posed, another in zip(puzzles, [*puzzles[1:], puzzles[0]], strict=True):
        for name, text in answers(posed, another.puzzle, seed).items():
            scores.setdefault(name, []).append(earned(task, text, posed.puzzle.spec, posed.puzzle.target))
    for name, each in scores.items():
        means = {entry: fmean(one[entry] for one in each) for entry in each[0]}
        entries = {entry: means[entry] for entry in weights if entry in means}
        reward = sum(weights[entry] * mean for entry, mean in entries.items())
        yield Row(puzzles[0].part, task.name, name, reward, means[task.primary], entries)


def cheating(rows: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Each row that earns more than a better one, with that one: the right answer, or a partly right one."""
    better = [row for row in rows if row.answer in (RIGHT, PARTLY)]
    return [(row, other) for row in rows for other in better if row.part == other.part and row.cheats(other)]


def table(rows: Sequence[Row]) -> str:
    """A block for each part: reward, primary score and what is rewarded."""
    blocks = []
    for part in dict.fromkeys(row.part for row in rows):
        own = [row for row in rows if row.part == part]
        primary = TASKS[own[0].task].primary
        others = [entry for entry in own[0].entries if entry != primary]
        lines = [[f"{part} ({own[0].task})", "reward", primary, *others]]
        for row in own:
            values = (row.reward, row.primary, *(row.entries[entry] for entry in others))
            lines.append([row.answer, *(f"{value:.3f}" for value in values)])
        blocks.append(aligned(lines))
    return "\n\n".join(blocks)


def main(argv: Sequence[str]) -> int:
    found: list[tuple[Row, Row]] = []

    def work(words: Sequence[str]) -> str:
        line = CommandLine(words, ("split", "count"))
        split, count = line.choice("split", SPLITS, "train"), line.number("count", 32)
        rows = try_reward(line.recipe(), split, count)
        found.extend(cheating(rows))
        said = [
            f"{row.part}: {row.answer} earns {row.reward:.3f}, more than {other.answer} with {other.reward:.3f}"
            for row, other in found
        ]
        return "\n\n".join([table(rows), *(["\n".join(said)] if said else [])])

    return run_command(argv, USAGE, work) or int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
