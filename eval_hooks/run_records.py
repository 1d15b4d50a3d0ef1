"""All answers below a folder of runs, by who gave them. Files that cannot be used are named, never fatal."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from eval_hooks.records import Giver, Record, printable, read_records
from tasks import TASKS


class Answer(NamedTuple):
    """What ranking needs of a record. Texts are left where they are: thousands of them for each checkpoint."""

    key: str
    sample: int
    part: str
    task: str
    version: int
    spec: str
    """JSON, with today's defaults for fields that did not exist then."""
    scores: dict[str, float]


class Entrant(NamedTuple):
    """One checkpoint (or model) of one run, under one protocol, on one split; of one version of each task."""

    run: str
    """The run's folder, below the folder of runs."""
    model: str
    step: int | None
    protocol: str
    split: str
    parts: dict[str, list[Answer]]
    """Part -> its answers, none twice."""


class Skipped(NamedTuple):
    """A file or answers that no board can take."""

    name: str
    reason: str


class Held(NamedTuple):
    """Answers of one kind in a file: who gave them, and to what."""

    giver: Giver
    part: str
    version: int
    spec: str


class Found(NamedTuple):
    """What a folder of runs holds."""

    entrants: list[Entrant]
    skipped: list[Skipped]
    files: dict[Path, Counter[Held]]
    """Those that were read, and how many answers of each kind are in them."""


def one_line(text: str, most: int = 120) -> str:
    """A text out of a record or a file name for a person: printable, on one line, not too long."""
    clean = printable(text[: most + 1]).replace("\n", "\\n")
    return clean if len(text) <= most else f"{clean[:most]}..."


def read_runs(folder: Path) -> Found:
    """Read records/*.jsonl of all run folders in `folder`, at any depth; `folder` may be a run's own.

    Where two files of a run hold the same answer (the last checkpoint's and the final evaluation), it counts once. If
    they score it differently, that of the file whose name comes first counts, and the other file is named.
    Files in which a part's name stands for other specs (a value changed on the command line) are apart.

    Raises:
        ValueError: there is no such file.
    """
    files = sorted(path for path in folder.rglob("records/*.jsonl") if path.is_file())
    if not files:
        raise ValueError(
            f"runs: got {folder}, which holds no records/*.jsonl; allowed: a folder of runs; do name one in which a "
            "run was evaluated"
        )
    runs: dict[str, dict[Giver, list[_Answers]]] = {}
    skipped, read = [], {}
    for path in files:
        name = one_line(path.relative_to(folder).as_posix())
        try:
            records, torn_bytes = read_records(path)
            answers = [answer_of(record) for record in records]
        except (ValueError, OSError) as error:
            skipped.append(Skipped(name, one_line(str(error).removeprefix(f"{path}, "), 300)))
            continue
        if torn_bytes:
            skipped.append(Skipped(name, f"its last line of {torn_bytes} bytes is unfinished; the others are used"))
        by_giver: dict[Giver, list[Answer]] = {}
        held: Counter[Held] = Counter()
        for record, answer in zip(records, answers, strict=True):
            by_giver.setdefault(record.giver, []).append(answer)
            held[Held(record.giver, answer.part, answer.version, answer.spec)] += 1
        givers = runs.setdefault(path.parent.parent.relative_to(folder).as_posix(), {})
        set_aside = sum(_add(givers.setdefault(giver, []), own) for giver, own in by_giver.items())
        if set_aside:
            reason = f"{set_aside} of its answers are set aside: the same ones are there before them, with other scores"
            skipped.append(Skipped(name, reason))
        read[path] = held
    entrants = []
    for run, givers in runs.items():
        name = one_line(folder.resolve().name if run == "." else run)
        for giver, given in ((giver, given) for giver, apart in givers.items() for given in apart):
            for parts in _by_version(given.values()):
                mixed = [part for part, own in parts.items() if len({answer.task for answer in own}) > 1]
                if mixed:
                    skipped.append(Skipped(name, f"part {one_line(mixed[0])} holds puzzles of several tasks"))
                else:
                    entrants.append(Entrant(name, *giver, parts))
    return Found(entrants, skipped, read)


def answer_of(record: Record) -> Answer:
    """What counts of a record.

    Raises:
        ValueError: the record is none that can be ranked.
    """
    if record.task not in TASKS:
        raise ValueError(f"task: got {one_line(record.task)}; allowed: {', '.join(TASKS)}")
    try:
        spec = _with_defaults(record.task, json.dumps(record.spec, sort_keys=True))
    except ValueError as error:
        raise ValueError(f"got a spec that {record.task} does not know: {error}") from error
    if not all(type(value) in (int, float) and 0 <= value <= 1 for value in record.scores.values()):
        raise ValueError(f"scores: got {record.scores!s:.80}; allowed: numbers in [0, 1]")
    if TASKS[record.task].primary not in record.scores:
        raise ValueError(f"scores: got none of {TASKS[record.task].primary}, which ranks")
    return Answer(record.key, record.sample, record.part, record.task, record.version, spec, record.scores)


@lru_cache(maxsize=1024)
def _with_defaults(task: str, text: str) -> str:
    return json.dumps(TASKS[task].Spec.model_validate_json(text).model_dump(mode="json"), sort_keys=True)


_Answers = dict[tuple[str, str, int, str, int], Answer]
"""(part, task, version, key, sample) -> the answer."""


def _add(apart: list[_Answers], own: Sequence[Answer]) -> int:
    """Add a file's answers to those that its giver gave when asked alike; gives how many have other scores there."""
    given = next((given for given in apart if _asks_alike(given.values(), own)), None)
    if given is None:
        given = {}
        apart.append(given)
    first = [given.setdefault((each.part, each.task, each.version, each.key, each.sample), each) for each in own]
    return sum(one.scores != each.scores for one, each in zip(first, own, strict=True))


def _asks_alike(one: Iterable[Answer], other: Iterable[Answer]) -> bool:
    """Whether no part's name stands for other specs in the one than in the other; of a dataset's some may be shared."""
    specs: tuple[dict[str, set[str]], dict[str, set[str]]] = ({}, {})
    for found, answers in zip(specs, (one, other), strict=True):
        for answer in answers:
            found.setdefault(answer.part, set()).add(answer.spec)
    return all(specs[0][part] & specs[1][part] for part in specs[0].keys() & specs[1].keys())


def _by_version(answers: Collection[Answer]) -> Iterator[dict[str, list[Answer]]]:
    """Part -> its answers; several times if a task was scored again after a change, as versions are never mixed.

    First the newest version of each task, then the one before it, and so on; of a task without one, its oldest. Not
    each version with each: six tasks that were raised together would make 64.
    """
    versions: dict[str, set[int]] = {}
    for answer in answers:
        versions.setdefault(answer.task, set()).add(answer.version)
    newest_first = {task: sorted(found, reverse=True) for task, found in versions.items()}
    for age in range(max(map(len, newest_first.values()))):
        chosen = {(task, found[min(age, len(found) - 1)]) for task, found in newest_first.items()}
        parts: dict[str, list[Answer]] = {}
        for answer in answers:
            if (answer.task, answer.version) in chosen:
                parts.setdefault(answer.part, []).append(answer)
        yield parts
