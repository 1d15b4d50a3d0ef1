"""All answers below a folder of runs, by who gave them. Files that cannot be used are named, never fatal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

from eval_hooks.records import Record, printable, read_records
from tasks import TASKS
from tasks.contract import Spec


class Answers(NamedTuple):
    """Of one checkpoint (or model) of one run, under one protocol, on one split; of one version of each task."""

    run: str
    """The run's folder, below the folder of runs."""
    model: str
    step: int | None
    protocol: str
    split: str
    parts: dict[str, list[Record]]
    """Part -> its records, no answer twice."""


class Skipped(NamedTuple):
    """A file or answers that no board can take."""

    name: str
    reason: str


class Found(NamedTuple):
    """What a folder of runs holds."""

    answers: list[Answers]
    skipped: list[Skipped]
    files: list[Path]
    """Those that were read."""


def one_line(text: str, most: int = 120) -> str:
    """A text out of a record or a file name for a person: printable, on one line, not too long."""
    clean = printable(text[: most + 1]).replace("\n", "\\n")
    return clean if len(text) <= most else f"{clean[:most]}..."


def read_runs(folder: Path) -> Found:
    """Read records/*.jsonl of all run folders in `folder`, at any depth; `folder` may be a run's own.

    Where two files of a run hold the same answer (the last checkpoint's and the final evaluation), it counts once.

    Raises:
        ValueError: there is no such file.
    """
    files = sorted(path for path in folder.rglob("records/*.jsonl") if path.is_file())
    if not files:
        raise ValueError(
            f"runs: got {folder}, which holds no records/*.jsonl; allowed: a folder of runs; do name one in which a "
            "run was evaluated"
        )
    runs: dict[str, list[Record]] = {}
    skipped, read = [], []
    for path in files:
        name = one_line(path.relative_to(folder).as_posix())
        try:
            records, torn_bytes = read_records(path)
            for record in records:
                _check(record)
        except (ValueError, OSError) as error:
            skipped.append(Skipped(name, one_line(str(error).removeprefix(f"{path}, "), 300)))
            continue
        if torn_bytes:
            skipped.append(Skipped(name, f"its last line of {torn_bytes} bytes is unfinished; the others are used"))
        runs.setdefault(path.parent.parent.relative_to(folder).as_posix(), []).extend(records)
        read.append(path)
    answers = []
    for run, records in runs.items():
        name = one_line(folder.resolve().name if run == "." else run)
        for each in _by_giver(name, records):
            if isinstance(each, Skipped):
                skipped.append(each)
            else:
                answers.append(each)
    return Found(answers, skipped, read)


def spec_of(record: Record) -> Spec:
    """The record's spec, with today's defaults for fields that did not exist then.

    Raises:
        ValueError: the task does not know such a spec.
    """
    return _spec(record.task, json.dumps(record.spec, sort_keys=True))


@lru_cache(maxsize=1024)
def _spec(task: str, text: str) -> Spec:
    return TASKS[task].Spec.model_validate_json(text)


def _check(record: Record) -> None:
    """
    Raises:
        ValueError: the record is none that can be ranked.
    """
    if record.task not in TASKS:
        raise ValueError(f"task: got {one_line(record.task)}; allowed: {', '.join(TASKS)}")
    try:
        spec_of(record)
    except ValueError as error:
        raise ValueError(f"got a spec that {record.task} does not know: {error}") from error
    if not all(type(value) in (int, float) and 0 <= value <= 1 for value in record.scores.values()):
        raise ValueError(f"scores: got {record.scores!s:.80}; allowed: numbers in [0, 1]")
    if TASKS[record.task].primary not in record.scores:
        raise ValueError(f"scores: got none of {TASKS[record.task].primary}, which ranks")


def _by_giver(run: str, records: Iterable[Record]) -> Iterator[Answers | Skipped]:
    givers: dict[tuple[str, int | None, str, str], list[Record]] = {}
    for record in records:
        givers.setdefault((record.model, record.step, record.protocol, record.split), []).append(record)
    for (model, step, protocol, split), given in givers.items():
        versions: dict[str, set[int]] = {}
        for record in given:
            versions.setdefault(record.task, set()).add(record.version)
        # scored again after a change of a task: a row for each version, as they are never mixed
        for chosen in product(*[[(task, version) for version in sorted(found)] for task, found in versions.items()]):
            parts: dict[str, dict[tuple[str, int], Record]] = {}
            for record in given:
                if (record.task, record.version) in chosen:
                    parts.setdefault(record.part, {}).setdefault((record.key, record.sample), record)
            mixed = [part for part, own in parts.items() if len({record.task for record in own.values()}) > 1]
            if mixed:
                yield Skipped(run, f"part {one_line(mixed[0])} holds puzzles of several tasks")
            else:
                own = {part: list(each.values()) for part, each in parts.items()}
                yield Answers(run, model, step, protocol, split, own)
