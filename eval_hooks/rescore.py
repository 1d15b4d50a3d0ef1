"""Score stored answers again, after a task's reader or scorer changed.

    python -m eval_hooks.rescore records=runs/mixed_grid/records/final.jsonl [out=FILE] [examples=3]
    python -m eval_hooks.rescore records=runs

The texts are read and scored by today's tasks, and written beside the old file as <name>-rescored-v<version>.jsonl,
which stays as it is. Told are old and new side by side. Exit status: 0, 1 when records could not be read and are in no
new file, 2 when it was refused.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from eval_hooks.percent import percent
from eval_hooks.records import Record, from_line, read_records, to_line, write_records
from eval_hooks.run_records import one_line
from recipes.command import CommandLine, run_command
from recipes.fields import did_you_mean, problem, shown
from recipes.text_table import aligned
from tasks import TASKS, Invalid, Task

USAGE = """\
usage: python -m eval_hooks.rescore records=PLACE [out=FILE] [examples=3]
  records     a file of scored answers, or a folder of runs: each records/*.jsonl in it
  out         of one file; default: <its name>-rescored-v<version>.jsonl beside it
  examples    how many changed answers of each part are shown"""

_MARK = "-rescored-v"
_SCORED = ("invalid", "answer", "scores")
"""What scoring says of a text."""


@dataclass(frozen=True)
class Request:
    """What the command line asks for."""

    files: tuple[Path, ...]
    out: Path | None
    examples: int


class UnreadableError(ValueError):
    """Today's tasks cannot read a record."""


class Change(NamedTuple):
    """A record as it was, and as today's task scores it."""

    old: Record
    new: Record

    def differs(self, *fields: str) -> bool:
        return any(getattr(self.old, field) != getattr(self.new, field) for field in fields)


@dataclass(frozen=True)
class Rescored:
    """What became of some records."""

    changes: list[Change]
    """One for each record that could be read, changed or not."""
    refused: dict[str, list[Record]]
    """Reason -> the records that could not be."""


def parse_request(argv: Sequence[str]) -> Request:
    """
    Raises:
        RecipeError: every problem of the command line at once.
    """
    line = CommandLine(argv, ("records", "out", "examples"))
    place = Path(line.required("records", "a file of records, or a folder of runs")).expanduser()
    out, examples = line.text("out"), line.number("examples", 3)
    files = [place]
    if place.is_dir() and line.text("records"):
        files = sorted(file for file in place.rglob("records/*.jsonl") if file.is_file() and _MARK not in file.stem)
        if out:
            line.problems.append(problem("out", shown(out), "nothing for a folder", "do leave it out"))
    if line.text("records") and not (files and files[0].is_file()):
        allowed = "a file of records, or a folder with records/*.jsonl in it"
        line.problems.append(problem("records", shown(str(place)), allowed, "do name one that exists"))
    if out and Path(out).expanduser().resolve() == place.resolve():
        line.problems.append(problem("out", shown(out), "another file than the records", "do leave it out"))
    line.without_recipe()
    return Request(tuple(files), Path(out).expanduser() if out else None, examples)


def scored_again(record: Record) -> Record:
    """The record with its text read and scored by today's task. Key and prompt_hash stay those of what was asked.

    Raises:
        UnreadableError: its task is not here, or today's cannot read its spec or its target.
    """
    task = TASKS.get(record.task)
    if task is None:
        known = ", ".join(TASKS)
        raise UnreadableError(problem("task", one_line(record.task), known, did_you_mean(record.task, TASKS)))
    try:
        spec = task.Spec.model_validate_json(json.dumps(record.spec))
    except ValueError as error:
        raise _unreadable(record, task, "spec", one_line(str(error), 300)) from error
    try:
        reads_back = _reads_back(task, spec, record.target)
    except (LookupError, TypeError, ValueError, AttributeError) as error:  # what JSON of another form leads to
        raise _unreadable(record, task, "target", f"{type(error).__name__}: {one_line(str(error))}") from error
    if not reads_back:
        raise _unreadable(record, task, "target", "its own reference answer is not right")
    answer = task.parse(record.text, spec)
    invalid = answer.reason if isinstance(answer, Invalid) else None
    scores = task.score(answer, record.target)
    new = replace(record, version=task.version, answer=None if invalid else answer, invalid=invalid, scores=scores)
    return from_line(to_line(new))  # tuples as lists, as in a record that was read


def _reads_back(task: Task, spec: Any, target: dict[str, Any]) -> bool:
    """Whether a target is one of this spec, by what every task promises of such: its reference answer is right."""
    reference = task.parse(task.gold(target), spec)
    return not isinstance(reference, Invalid) and task.score(reference, target)[task.primary] == 1


def _unreadable(record: Record, task: Task, what: str, why: str) -> UnreadableError:
    got = f"one of version {record.version} that {task.name} version {task.version} cannot read ({why})"
    return UnreadableError(problem(what, got, f"those of version {task.version}", "do ask its puzzle again"))


def rescore(records: Iterable[Record]) -> Rescored:
    """Score all again that can be."""
    found = Rescored([], {})
    for record in records:
        try:
            found.changes.append(Change(record, scored_again(record)))
        except UnreadableError as error:
            found.refused.setdefault(str(error), []).append(record)
    return found


def table(rescored: Rescored, examples: int = 3) -> str:
    """One line per part, means of the primary score in percent; below, a few changed answers of each, and what could
    not be read."""
    parts: dict[tuple[str, str], list[Change]] = {}
    for change in rescored.changes:
        parts.setdefault((change.old.part, change.new.task), []).append(change)
    rows = [["", "n", "entry", "old", "new", "validity", "answer", "scores"]]
    below = []
    for (part, task), changes in parts.items():
        primary = TASKS[task].primary
        means = [_mean(primary, records) for records in zip(*changes, strict=True)]
        counts = [str(sum(change.differs(field) for change in changes)) for field in _SCORED]
        rows.append([one_line(part), str(len(changes)), primary, *means, *counts])
        below += [_example(change, primary) for change in changes if change.differs(*_SCORED)][:examples]
    for reason, records in rescored.refused.items():
        first = f"part {one_line(records[0].part)}, {one_line(records[0].key)}"
        below.append(f"left out: {len(records)} records, the first {first}: {reason}")
    return "\n".join([*([aligned(rows)] if parts else []), *below])


def _mean(entry: str, records: Sequence[Record]) -> str:
    scores = [score for record in records if isinstance(score := record.scores.get(entry), int | float)]
    return percent(fmean(scores)) if scores else "-"


def _example(change: Change, primary: str) -> str:
    old, new = (
        f"{'valid' if record.invalid is None else one_line(record.invalid)}, {primary} {_mean(primary, [record])}"
        for record in change
    )
    return f"  {one_line(change.old.part)} {one_line(change.old.key)} sample {change.old.sample}: {old} -> {new}"


def default_out(file: Path, rescored: Rescored) -> Path:
    """Beside the file; named after the tasks' versions."""
    versions = sorted({change.new.version for change in rescored.changes})
    return file.with_name(f"{file.stem}{_MARK}{'-'.join(map(str, versions))}.jsonl")


def rescore_file(file: Path, out: Path | None, examples: int) -> tuple[str, int]:
    """Score a file's records again and write them, where anything changed.

    Args:
        out: None: see `default_out`.

    Returns:
        What to say, and how many records, or whole files, could not be read.
    """
    try:
        records, torn_bytes = read_records(file)
    except ValueError as error:
        return f"left out: {error}", 1
    rescored = rescore(records)
    said = [table(rescored, examples)] if records else []
    if torn_bytes:
        said.append(f"its last line of {torn_bytes} bytes is unfinished, and left out")
    changed = [change for change in rescored.changes if change.differs(*_SCORED)]
    unannounced = sum(not change.differs("version") for change in changed)
    if unannounced:
        said.append(f"{unannounced} records changed though the version of their task did not: it must be raised")
    if any(change.differs("version", *_SCORED) for change in rescored.changes):
        out = out or default_out(file, rescored)
        write_records(out, (change.new for change in rescored.changes))
        said.append(f"written: {out} ({len(changed)} of {len(rescored.changes)} records changed)")
    elif rescored.changes:
        said.append("nothing changed, and the versions are today's: nothing is written")
    else:
        said.append("nothing is written, as there is no record to score")
    return "\n".join(said), sum(map(len, rescored.refused.values()))


def report(argv: Sequence[str]) -> tuple[str, bool]:
    """What to print, and whether all records could be read."""
    request = parse_request(argv)
    told, unread = [], 0
    for file in request.files:
        text, refused = rescore_file(file, request.out, request.examples)
        unread += refused
        told.append(f"{one_line(str(file), 300)}\n{text}")
    return "\n\n".join(told), not unread


def main(argv: Sequence[str]) -> int:
    return run_command(argv, USAGE, report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
