"""What went wrong in stored answers, part by part.

    python -m eval_hooks.diagnose records=runs/mixed_grid/records/final.jsonl [part=NAME] [model=NAME] [out=DIR]

Every text is read again and diagnosed by its task. How what a task says becomes one number per part is told in
eval_hooks/aggregate.py, for all tasks alike. Written are diagnosis.json with all of it, and for each part

    <part>-displacement.png    where pieces lie, seen from where they belong (statement `displacement`)
    <part>-fits.png            at which edges of the answers a tab faces a blank (`fits_across`, `fits_down`)
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval_hooks import diagnosis_table
from eval_hooks.aggregate import Aggregate, aggregate
from eval_hooks.heat_map import displacement_map, fits_map
from eval_hooks.record_parts import giver_of, read_parts
from eval_hooks.records import Giver, Record
from eval_hooks.run_records import one_line
from recipes.command import run_command
from recipes.fields import did_you_mean, problem, shown
from tasks import TASKS

USAGE = """\
usage: python -m eval_hooks.diagnose records=FILE [records=FILE ...] [part=NAME] [model=NAME] [out=DIR]
  records     files of scored answers, as runs keep them in records/; all of one model and step
  part        diagnose this part alone
  model       diagnose the answers of this model, or program, alone
  out         folder for pictures and diagnosis.json; default: <first file's name>-diagnosis beside it"""


@dataclass(frozen=True)
class Request:
    """What the command line asks for."""

    records: tuple[Path, ...]
    part: str | None
    model: str | None
    out: Path


_MAX_GRID = 64


@dataclass(frozen=True)
class PartDiagnosis:
    """What went wrong in the answers of one part."""

    part: str
    task: str
    version: int
    """The task's version under which they were scored."""
    said: Aggregate


def parse_request(argv: Sequence[str]) -> Request:
    """
    Raises:
        ValueError: every problem of the command line, a line each.
    """
    given: dict[str, list[str]] = {"records": [], "part": [], "model": [], "out": []}
    problems = []
    for token in argv:
        name, _, value = token.partition("=")
        if name not in given:
            problems.append(problem(name, "an unknown name", ", ".join(given), did_you_mean(name, given)))
        elif not value:
            problems.append(problem(name, "nothing", "a value", f"do write {name}=VALUE, or leave it out"))
        else:
            given[name].append(value)
    problems += [
        problem(name, "two values", "one", "do remove one of them")
        for name in ("part", "model", "out")
        if len(given[name]) > 1
    ]
    files = tuple(map(Path, given["records"]))
    if not files:
        problems.append(problem("records", "nothing", "files of records", "do write records=FILE"))
    problems += [
        problem("records", shown(str(file)), "a file of records", "do name one that exists")
        for file in files
        if not file.is_file()
    ]
    if problems:
        raise ValueError("\n".join(dict.fromkeys(problems)))
    out = Path(given["out"][0]).expanduser() if given["out"] else files[0].with_name(f"{files[0].stem}-diagnosis")
    part, model = (next(iter(given[name]), None) for name in ("part", "model"))
    return Request(files, part, model, out)


def diagnose_part(part: str, records: Sequence[Record]) -> PartDiagnosis:
    """Read the texts of one part again and tell what went wrong in them together.

    Raises:
        ValueError: the task is unknown, or a record's spec or target is none of it.
    """
    name, version = records[0].task, records[0].version
    task = TASKS.get(name)
    if task is None:
        raise ValueError(problem(f"part {part}: task", one_line(name), ", ".join(TASKS), did_you_mean(name, TASKS)))
    diagnoses: list[tuple[dict[str, Any], float]] = []
    grid = 2
    for record in records:
        try:
            answer = task.parse(record.text, task.Spec.model_validate_json(json.dumps(record.spec)))
            diagnoses.append((task.diagnose(answer, record.target), task.score(answer, record.target)[task.primary]))
            grid = max(grid, _grid(record))
        except (LookupError, TypeError, ValueError) as error:
            got = f"a spec or target that task {name} does not know ({type(error).__name__}: {one_line(str(error))})"
            allowed = f"those of version {task.version}; this is of {version}"
            raise ValueError(
                problem(f"part {part}, index {record.index}", got, allowed, "do ask the puzzles again")
            ) from error
    return PartDiagnosis(part, name, version, aggregate(diagnoses, grid))


def _grid(record: Record) -> int:
    """The grid that the target names, 2 if it names none; it is data, and sizes a picture."""
    grid = record.target.get("grid", 2)
    if not isinstance(grid, int) or not 0 < grid <= _MAX_GRID:
        raise ValueError(f"a grid of {one_line(str(grid))[:20]}")
    return grid


def table(parts: Sequence[PartDiagnosis]) -> str:
    """One table per task, see eval_hooks/diagnosis_table.py."""
    tasks = dict.fromkeys(part.task for part in parts)
    own = {task: {part.part: part.said for part in parts if part.task == task} for task in tasks}
    return "\n\n".join(diagnosis_table.table(task, TASKS[task].primary, said) for task, said in own.items())


def write(out: Path, parts: Sequence[PartDiagnosis], giver: Giver) -> list[Path]:
    """Write diagnosis.json and the pictures; gives the files."""
    out.mkdir(parents=True, exist_ok=True)
    stored = {
        part.part: {"task": part.task, "version": part.version, "in_place": part.said.in_place}
        | dataclasses.asdict(part.said)
        for part in parts
    }
    written = [out / "diagnosis.json"]
    text = json.dumps(giver._asdict() | {"parts": stored}, allow_nan=False)
    written[0].write_text(text + "\n", encoding="ascii")
    by = f"of {one_line(giver.model)[:60]}" + ("" if giver.step is None else f" at step {giver.step}")
    for part in parts:
        said = part.said
        if said.displacement is not None:
            written.append(out / f"{part.part}-displacement.png")
            title = f"{part.part}: displacement from the right cell; {said.n} answers {by}"
            displacement_map(said.displacement, title).save(written[-1])
        if {"fits_across", "fits_down"} <= said.grids.keys():
            written.append(out / f"{part.part}-fits.png")
            title = f"{part.part}: where edges fit; {said.counts['fits_across']} valid answers {by}"
            fits_map(said.grids["fits_across"], said.grids["fits_down"], title).save(written[-1])
    return written


def report(argv: Sequence[str]) -> str:
    """Diagnose, write pictures and numbers, and say what was found."""
    request = parse_request(argv)
    records = read_parts(request.records, request.part, request.model)
    kind = giver_of(records)
    parts = [diagnose_part(part, answers) for part, answers in records.items()]
    written = write(request.out, parts, kind)
    lines = [
        f"part {part.part}: scored by {part.task} version {part.version}, diagnosed by version {version}"
        for part in parts
        if part.version != (version := TASKS[part.task].version)
    ]
    lines += [table(parts), "", "%: mean over the answers, in place: of all that are placed; each: number per answer"]
    return "\n".join([*lines, f"written: {written[0]} and {len(written) - 1} pictures beside it"])


def main(argv: Sequence[str]) -> int:
    return run_command(argv, USAGE, report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
