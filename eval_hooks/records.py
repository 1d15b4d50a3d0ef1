"""Records: one line of JSONL per scored answer, the same for every backend. All reports are views of them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple

from data_mix.mixture import Posed
from models.generation import Completion
from tasks.contract import Invalid, Message

logger = logging.getLogger(__name__)


class Giver(NamedTuple):
    """Who answered, and how: what the records of one evaluation have in common."""

    model: str
    step: int | None
    protocol: str
    split: str


@dataclass(frozen=True)
class Record:
    """One scored answer. Holds all that is needed to score it again."""

    key: str
    """The puzzle's key: equal key, equal bytes."""
    task: str
    version: int
    """The task's version when this was scored."""
    split: str
    part: str
    index: int
    """Position in the part's stream of puzzles."""
    spec: dict[str, Any]
    photo_id: str | None
    seed: int
    target: dict[str, Any]
    prompt_hash: str
    text: str
    """What the model wrote, raw: any characters, lone surrogates and control characters included."""
    finish_reason: str
    """stop: the model ended its turn. length: it was cut at the token limit (truncated)."""
    completion_tokens: int
    answer: Any
    """The parsed answer, JSON; None when invalid."""
    invalid: str | None
    """Why the text is no answer, from the task's closed set; None when valid."""
    scores: dict[str, float]
    seconds: float
    """Time of the generate call that gave it, shared evenly within a batch."""
    sample: int
    """Number of the sample when one puzzle is asked several times; 0 for the first."""
    protocol: str
    """How the answer was drawn: greedy, ..."""
    model: str
    step: int | None
    """Optimizer step of the checkpoint; None outside a run."""

    @property
    def giver(self) -> Giver:
        return Giver(self.model, self.step, self.protocol, self.split)


class RecordFile(NamedTuple):
    """What a file held."""

    records: list[Record]
    torn_bytes: int
    """Length of an unfinished last line, which an interrupted writer leaves; 0: the file is whole."""


def score_completion(
    posed: Posed,
    completion: Completion,
    *,
    model: str,
    step: int | None = None,
    protocol: str = "greedy",
    sample: int = 0,
) -> Record:
    """Parse and score one completion. Never raises for any text: bad text is an invalid answer, which scores 0."""
    task, puzzle = posed.task, posed.puzzle
    answer = task.parse(completion.text, puzzle.spec)
    invalid = answer.reason if isinstance(answer, Invalid) else None
    return Record(
        key=puzzle.key,
        task=puzzle.task,
        version=puzzle.version,
        split=posed.split,
        part=posed.part,
        index=posed.index,
        spec=puzzle.spec.model_dump(mode="json"),
        photo_id=puzzle.photo_id,
        seed=puzzle.seed,
        target=_plain(puzzle.target),
        prompt_hash=prompt_hash(puzzle.messages),
        text=completion.text,
        finish_reason=completion.finish_reason,
        completion_tokens=completion.num_tokens,
        answer=None if invalid else _plain(answer),
        invalid=invalid,
        scores=task.score(answer, puzzle.target),
        seconds=completion.seconds,
        sample=sample,
        protocol=protocol,
        model=model,
        step=step,
    )


def prompt_hash(messages: list[Message]) -> str:
    """16 hex digits of the messages' text and the places of their images."""
    text = json.dumps(messages, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def printable(text: str) -> str:
    """The text with control characters, invisible ones and lone surrogates written as escapes; line breaks stay."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


def to_line(record: Record) -> str:
    """The record as one line of ASCII, newline included: no character of the model's text can break it."""
    fields = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    return json.dumps(fields, allow_nan=False, separators=(",", ":")) + "\n"


def from_line(line: str | bytes) -> Record:
    """The record that a line holds.

    Raises:
        ValueError: the line is no JSON object with exactly the fields of a Record, each of its type.
    """
    try:
        fields = json.loads(line, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("got a line nested without end; allowed: a record") from None
    if not isinstance(fields, dict) or fields.keys() != _TYPES.keys():
        names = fields.keys() if isinstance(fields, dict) else set()
        raise ValueError(
            f"got a line that is no record (missing: {sorted(_TYPES.keys() - names)}, "
            f"unknown: {sorted(names - _TYPES.keys())}); allowed: the fields of eval_hooks.records.Record"
        )
    for name, allowed in _TYPES.items():
        got = fields[name]
        if not isinstance(got, allowed) or (isinstance(got, bool) and object not in allowed):
            raise ValueError(f"{name}: got {got!r:.80}; allowed: {' or '.join(t.__name__ for t in allowed)}")
    return Record(**fields)


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Replace `path` by these records. Written aside, then renamed: a reader sees the old file or the whole new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.partial")
    with aside.open("w", encoding="ascii", newline="\n") as file:
        file.writelines(map(to_line, records))
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def append_records(path: Path, records: Iterable[Record]) -> None:
    """Add records at the end of `path`, after cutting off the unfinished line that an interrupted writer left."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        file.seek(0)
        head, newline, tail = file.read().rpartition(b"\n")
        if tail and _record_or_none(tail) is None:
            logger.warning("%s: cut off an unfinished last line of %s bytes", path, len(tail))
            file.truncate(len(head) + len(newline))
        elif tail:
            file.write(b"\n")
        file.write("".join(map(to_line, records)).encode("ascii"))
        file.flush()
        os.fsync(file.fileno())


def read_records(path: Path) -> RecordFile:
    """All records of a file. An unfinished last line is left out, said in the log and in the result.

    Raises:
        ValueError: a line that is not the unfinished last one is no record; names the line.
    """
    *lines, tail = path.read_bytes().split(b"\n")
    records = list(_parsed(path, lines))
    if not tail:
        return RecordFile(records, 0)
    last = _record_or_none(tail)
    if last is None:
        logger.warning("%s: left out an unfinished last line of %s bytes", path, len(tail))
        return RecordFile(records, len(tail))
    return RecordFile([*records, last], 0)


def _parsed(path: Path, lines: list[bytes]) -> Iterator[Record]:
    for number, line in enumerate(lines, start=1):
        try:
            yield from_line(line)
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}; remove the line or score the puzzle again") from error


def _record_or_none(line: bytes) -> Record | None:
    try:
        return from_line(line)
    except ValueError:
        return None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"got {name}; allowed: finite numbers")


def _plain(value: Any) -> Any:
    """The value as JSON gives it back, so that a record read from a file equals the one that was written."""
    return json.loads(json.dumps(value, allow_nan=False))


def _field_types() -> dict[str, tuple[type, ...]]:
    types: dict[str, tuple[type, ...]] = {}
    for name, hint in typing.get_type_hints(Record).items():
        options = typing.get_args(hint) if isinstance(hint, UnionType) else (hint,)
        plain = tuple(object if option is Any else typing.get_origin(option) or option for option in options)
        types[name] = (*plain, int) if float in plain else plain
    return types


_TYPES = _field_types()
