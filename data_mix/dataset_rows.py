"""What a row of a dataset says: a puzzle of ours as it was exported, or a picture and an answer from elsewhere."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol

import datasets
from PIL import Image
from pyarrow import Buffer
from pydantic import ValidationError

from data_mix.conversations import UnusableRow, as_messages, asking, without_reply
from data_mix.scan import file_id
from data_mix.streams import stream_seed
from recipes.fields import problem
from recipes.schema import Part
from tasks import TASKS, Invalid, Message, Puzzle, Spec, Task
from tasks.photo import ImagePhoto

OUR_COLUMNS = (
    "key", "task", "version", "part", "split", "index", "photo_id", "seed", "spec", "messages", "images", "target",
    "answer", "signatures", "ambiguous",
)  # fmt: skip
"""Columns of an exported dataset, in their order."""

_TELLING = {"key", "task", "spec", "messages", "images", "target"}
"""Columns by which a dataset of ours is known."""

Sizes = tuple[tuple[int, int], ...]


class Rows(Protocol):
    """How the rows of one dataset are read."""

    @property
    def images(self) -> str:
        """The column of the images."""
        ...

    @property
    def texts(self) -> tuple[str, ...]:
        """All other columns that are read."""
        ...

    @property
    def ours(self) -> bool:
        """Whether an export of ours wrote them, so that their images are whole."""
        ...

    def wanted(self, row: dict[str, Any]) -> bool:
        """Whether a row is of the kind that the part asks for."""
        ...

    def photo_id(self, row: dict[str, Any], files: list[Buffer]) -> str | None:
        """The id of what is shown in the row's image files, joined by + where there are several."""
        ...

    def puzzle(self, row: dict[str, Any], number: int, photo_id: str | None, sizes: Sizes) -> Puzzle:
        """The puzzle of row `number`, whose images have these (width, height) in px. Raises UnusableRow."""
        ...

    def ambiguous(self, row: dict[str, Any]) -> bool: ...


def rows_of(part: Part, data: datasets.Dataset, place: str) -> Rows:
    """The reader that suits a dataset: without `columns`, one that has our columns is ours.

    Args:
        place: where the recipe names the dataset, for errors.

    Raises:
        ValueError: columns are missing or of a wrong type; all of them are told.
    """
    assert part.dataset is not None
    if not part.dataset.columns and set(data.column_names) >= _TELLING:
        return _own_rows(part, data, place)
    return _other_rows(part, data, place)


@dataclass(frozen=True)
class OwnRows:
    """Puzzles as data_mix.export writes them. Those of the part's task are wanted whose spec has the values that the
    part's spec names."""

    task: Task
    named: dict[str, Any]
    where: dict[str, Any]
    texts: tuple[str, ...]
    place: str
    images: str = "images"
    ours: bool = True

    def wanted(self, row: dict[str, Any]) -> bool:
        if row["task"] != self.task.name or any(row[name] != value for name, value in self.where.items()):
            return False
        if row["version"] != self.task.version:
            raise ValueError(
                f"{self.place}: got rows of version {row['version']} of task {self.task.name}; allowed: version "
                f"{self.task.version}, as prompts, reading or scores have changed since; do export the puzzles again"
            )
        try:
            spec = json.loads(row["spec"])
            return all(spec.get(name) == value for name, value in self.named.items())
        except (ValueError, TypeError, AttributeError, RecursionError):
            return True  # `puzzle` tells what is wrong with it

    def photo_id(self, row: dict[str, Any], files: list[Buffer]) -> str | None:
        return row["photo_id"]

    def puzzle(self, row: dict[str, Any], number: int, photo_id: str | None, sizes: Sizes) -> Puzzle:
        try:
            spec = self.task.Spec.model_validate_json(row["spec"])
            messages, target = json.loads(row["messages"]), json.loads(row["target"])
            answer = self.task.parse(self.task.gold(target), spec)
        except (ValidationError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise UnusableRow(f"no puzzle of {self.task.name}: {type(error).__name__}") from error
        if isinstance(answer, Invalid):
            raise UnusableRow(f"a reference answer that is none: {answer.reason}")
        messages = as_messages(messages, len(sizes))
        return Puzzle(self.task.name, self.task.version, spec, photo_id, row["seed"], messages, target, sizes)

    def ambiguous(self, row: dict[str, Any]) -> bool:
        return bool(row["ambiguous"])


@dataclass(frozen=True)
class OtherRows:
    """Images with an answer, made elsewhere. Each entry of `columns` is one of ours -> one of the dataset's."""

    task: Task
    spec: Spec
    columns: dict[str, str]
    filters: dict[str, Any]
    """The dataset's column -> value of wanted rows."""
    prompt: list[Message] | None
    """Asked where the dataset says nothing of it."""
    stream: tuple[str, ...]
    """Sets its puzzles apart from those of other datasets."""
    ours: bool = False

    @property
    def images(self) -> str:
        return self.columns["images"]

    @property
    def texts(self) -> tuple[str, ...]:
        mapped = [column for name, column in self.columns.items() if name != "images"]
        return tuple(dict.fromkeys([*mapped, *self.filters]))

    def wanted(self, row: dict[str, Any]) -> bool:
        return all(row[column] == value for column, value in self.filters.items())

    def photo_id(self, row: dict[str, Any], files: list[Buffer]) -> str | None:
        named = row[self.columns["photo_id"]] if "photo_id" in self.columns else None
        return "+".join(map(file_id, files)) if named is None else str(named)

    def puzzle(self, row: dict[str, Any], number: int, photo_id: str | None, sizes: Sizes) -> Puzzle:
        messages, reply = self._asked(row, len(sizes))
        text = row[self.columns["answer"]] if "answer" in self.columns else reply
        if text is None:
            raise UnusableRow("no answer")
        answer = self.task.parse(text, self.spec)
        if isinstance(answer, Invalid):
            raise UnusableRow(f"an answer that is none: {answer.reason}")
        assert self.task.target_of is not None
        target = self.task.target_of(answer, self.spec)
        seed = stream_seed(*self.stream, number)
        return Puzzle(self.task.name, self.task.version, self.spec, photo_id, seed, messages, target, sizes)

    def ambiguous(self, row: dict[str, Any]) -> bool:
        return False

    def _asked(self, row: dict[str, Any], num_images: int) -> tuple[list[Message], str | None]:
        """What is asked, and the reply if the dataset has it in its messages."""
        if "messages" in self.columns:
            return without_reply(as_messages(row[self.columns["messages"]], num_images))
        if "prompt" in self.columns:
            text = row[self.columns["prompt"]]
            if not text:
                raise UnusableRow("no prompt")
            return asking(text, num_images), None
        assert self.prompt is not None
        return as_messages(self.prompt, num_images), None


def _own_rows(part: Part, data: datasets.Dataset, place: str) -> OwnRows:
    assert part.dataset is not None
    texts = ("task", "version", "photo_id", "seed", "spec", "messages", "target", "ambiguous")
    expected = {
        **dict.fromkeys(("task", "photo_id", "spec", "messages", "target"), "a text"),
        **dict.fromkeys(("version", "seed"), "a whole number"),
        "ambiguous": "true or false",
        "images": "images",
    }
    where = part.dataset.where
    problems = [
        problem(place, f"a dataset of ours whose column {name} {said}", allowed, "do export it again")
        for name, allowed in expected.items()
        if (said := _mistake(data, name, allowed))
    ]
    problems += _where_problems(data, where, place)
    if problems:
        raise ValueError("\n".join(problems))
    # As JSON has them: a spec's tuples are lists there.
    named = json.loads(json.dumps(part.spec))
    return OwnRows(TASKS[part.task], named, where, tuple(dict.fromkeys([*texts, *where])), place)


def _other_rows(part: Part, data: datasets.Dataset, place: str) -> OtherRows:
    assert part.dataset is not None
    task, given = TASKS[part.task], part.dataset
    spec = task.Spec.model_validate(part.spec)
    if task.target_of is None:
        raise ValueError(
            f"{place}: got a dataset made elsewhere for task {task.name}; allowed: one of ours (it has the columns "
            f"{', '.join(sorted(_TELLING))}); do name one that data_mix.export wrote"
        )
    columns = {"images": "images", **given.columns}
    kinds = {"images": "images", "answer": "a text", "prompt": "a text", "messages": "conversations"}
    there = ", ".join(data.column_names)
    problems = []
    for name, column in columns.items():
        value = getattr(spec, name, None) if name in task.Spec.model_fields else None
        allowed = kinds.get(name) or ("any value" if value is None else _kind_of(value))
        if said := _mistake(data, column, allowed):
            got = f"a column {column} that {said}"
            problems.append(
                problem(f"{place}.columns.{name}", got, f"{allowed}, out of {there}", "do set it to another")
            )
    if "answer" not in columns and "messages" not in columns:
        allowed = f"one of {there}"
        advice = f"do set {place}.columns.answer, or .messages where the assistant's last turn is the answer"
        problems.append(problem(f"{place}.columns.answer", "nothing", allowed, advice))
    problems += _where_problems(data, given.where, place)
    prompt = None
    if "messages" not in columns and "prompt" not in columns:
        prompt = _own_prompt(task, spec)
        if prompt is None:
            advice = f"do set {place}.columns.messages or {place}.columns.prompt"
            allowed = f"a column with what is asked: task {task.name} has no prompt that is the same for all puzzles"
            problems.append(problem(f"{place}.columns", "neither messages nor prompt", allowed, advice))
    if problems:
        raise ValueError("\n".join(problems))
    filters = {columns[name]: getattr(spec, name) for name in columns if name in task.Spec.model_fields}
    return OtherRows(task, spec, columns, {**filters, **given.where}, prompt, ("row", given.name, given.split or ""))


def _own_prompt(task: Task, spec: Spec) -> list[Message] | None:
    """What the task itself asks; None where that depends on the puzzle."""
    if task.data_only:
        return None
    photo = None if task.board(spec) is None else ImagePhoto(Image.new("RGB", (1, 1)))
    one, two = (task.pose(spec, photo, seed).messages for seed in (0, 1))
    return one if one == two else None


def _where_problems(data: datasets.Dataset, where: dict[str, Any], place: str) -> list[str]:
    return [
        problem(
            f"{place}.where.{column}", f"a column that {said}", f"{allowed}, out of {', '.join(data.column_names)}",
            "do name another column, or write the value as the dataset has it",
        )
        for column, value in where.items()
        for allowed in [_kind_of(value)]
        if (said := _mistake(data, column, allowed))
    ]  # fmt: skip


def _kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int):
        return "a whole number"
    return "a number" if isinstance(value, float) else "a text"


def _mistake(data: datasets.Dataset, column: str, wanted: str) -> str | None:
    """What is wrong with a column: it is missing, or of another type; None if nothing is."""
    if column not in data.column_names:
        return "is not there"
    feature = data.features[column]
    inner = getattr(feature, "feature", None)
    dtype = str(getattr(feature, "dtype", "")) if isinstance(feature, datasets.Value) else ""
    fits = {
        "images": isinstance(feature, datasets.Image) or isinstance(inner, datasets.Image),
        "a text": dtype in ("string", "large_string"),
        "conversations": dtype in ("string", "large_string") or isinstance(inner, dict),
        "true or false": dtype == "bool",
        "a whole number": dtype.startswith(("int", "uint")),
        "a number": dtype.startswith("float"),
        "any value": True,
    }[wanted]
    return None if fits else f"holds {dtype or type(feature).__name__}"
