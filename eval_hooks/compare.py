"""Is one model better than another? A paired test on the puzzles that both answered.

    python -m eval_hooks.compare records=A.jsonl against=B.jsonl [part=NAME]

For each part and score entry: both means, the difference with its 95 % interval, and p (eval_hooks/paired.py says by
which test). Of 100 comparisons where nothing differs five have p < 0.05: choose the entry before you look.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eval_hooks.paired import Difference, compare_scores
from eval_hooks.percent import percent
from eval_hooks.record_parts import giver_of, read_parts
from eval_hooks.records import Giver, Record
from eval_hooks.run_records import Answer, answer_of, one_line
from recipes.command import CommandLine, run_command
from recipes.fields import problem, shown
from recipes.text_table import aligned
from tasks import TASKS

USAGE = """\
usage: python -m eval_hooks.compare records=FILE against=FILE [part=NAME]
  records     a file of scored answers, of one model and step
  against     another, with the same puzzles
  part        compare this part alone"""


@dataclass(frozen=True)
class Request:
    """What the command line asks for."""

    records: Path
    against: Path
    part: str | None


@dataclass(frozen=True)
class PartComparison:
    """Two models on one part."""

    part: str
    primary: str
    common: int
    """Puzzles that both answered."""
    only_one: int
    only_other: int
    """Puzzles that the other did not answer; they are left out."""
    entries: dict[str, Difference]
    """Score entry -> its difference, the primary first, then in the task's order."""


def parse_request(argv: Sequence[str]) -> Request:
    """
    Raises:
        RecipeError: every problem of the command line at once.
    """
    line = CommandLine(argv, ("records", "against", "part"))
    files = [Path(line.required(name, "a file of records")).expanduser() for name in ("records", "against")]
    for name, file in zip(("records", "against"), files, strict=True):
        if line.text(name) and not file.is_file():
            line.problems.append(problem(name, shown(str(file)), "a file of records", "do name one that exists"))
    line.without_recipe()
    return Request(files[0], files[1], line.text("part"))


def compare_part(part: str, one: Sequence[Record], other: Sequence[Record]) -> PartComparison:
    """
    Args:
        one, other: the records of one part, each of one model, step, protocol and split.

    Raises:
        ValueError: they are of different tasks, versions, splits or protocols, and so no comparison; or of a task that
            is not here, or without scores in [0, 1].
    """
    kinds = [{f"{r.task} version {r.version}, {r.split} split, {r.protocol}" for r in side} for side in (one, other)]
    if len(kinds[0] | kinds[1]) > 1:
        got = " against ".join(one_line(" and ".join(sorted(kind))) for kind in kinds)
        allowed = "one task, version, split and protocol"
        raise ValueError(problem(f"part {one_line(part)}", got, allowed, "do score both alike, or leave the part out"))
    first, second = ([answer_of(record) for record in side] for side in (one, other))
    task = TASKS[first[0].task]
    keys = [{answer.key for answer in side} for side in (first, second)]
    entries = sorted(task.entries, key=lambda entry: entry != task.primary)
    found = {entry: compare_scores(_scores(first, entry), _scores(second, entry)) for entry in entries}
    return PartComparison(
        part=part,
        primary=task.primary,
        common=len(keys[0] & keys[1]),
        only_one=len(keys[0] - keys[1]),
        only_other=len(keys[1] - keys[0]),
        entries={entry: difference for entry, difference in found.items() if difference is not None},
    )


def _scores(answers: Sequence[Answer], entry: str) -> dict[str, float]:
    """Key -> mean of the puzzle's samples that the entry applies to."""
    by_key: dict[str, list[float]] = {}
    for answer in answers:
        if entry in answer.scores:
            by_key.setdefault(answer.key, []).append(answer.scores[entry])
    return {key: sum(scores) / len(scores) for key, scores in by_key.items()}


def compare(one: Mapping[str, Sequence[Record]], other: Mapping[str, Sequence[Record]]) -> list[PartComparison]:
    """The parts that both have, in the first one's order.

    Raises:
        ValueError: there is none, no puzzle is in both, or they are no comparison; see `compare_part`.
    """
    parts = [compare_part(part, records, other[part]) for part, records in one.items() if part in other]
    if not any(part.common for part in parts):
        got = f"no puzzle in both (parts {', '.join(one)} against {', '.join(other)})"
        allowed = "files with puzzles in common"
        raise ValueError(problem("records", got, allowed, "do evaluate both on the same recipe, split and photos"))
    return parts


def table(parts: Sequence[PartComparison]) -> str:
    """One line per part and entry; scores and differences in percent. What is not in both is said below."""
    rows = [["", "entry", "n", "records", "against", "difference", "low", "high", "p", "test"]]
    said = []
    for part in parts:
        for entry, found in part.entries.items():
            scores = [percent(score) for score in (found.one, found.other)]
            reach = [percent(score, "+") for score in (found.difference, found.low, found.high)]
            name = part.part if entry == part.primary else ""
            rows.append([name, entry, str(found.n), *scores, *reach, _p(found.p), found.test])
        if part.only_one or part.only_other:
            left_out = f"{part.only_one} puzzles of records and {part.only_other} of against are not in both"
            said.append(f"part {part.part}: {left_out}, and left out")
    return "\n".join([aligned(rows), *said])


def _p(p: float) -> str:
    return "<.001" if p < 0.001 else f"{p:.3f}"


def _of(giver: Giver) -> str:
    step = "" if giver.step is None else f" at step {giver.step}"
    return f"{one_line(giver.model, 80)}{step}"


def report(argv: Sequence[str]) -> str:
    """Read, compare, and say what was found."""
    request = parse_request(argv)
    one, other = (read_parts([file], request.part) for file in (request.records, request.against))
    kinds = giver_of(one), giver_of(other)
    parts = compare(one, other)
    missing = [
        f"part {part}: only in {name}"
        for name, here, there in (("records", one, other), ("against", other, one))
        for part in here
        if part not in there
    ]
    title = f"records: {_of(kinds[0])}; against: {_of(kinds[1])} ({kinds[0].split} split, {kinds[0].protocol}, %)"
    return "\n".join([title, table(parts), *missing])


def main(argv: Sequence[str]) -> int:
    return run_command(argv, USAGE, report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
