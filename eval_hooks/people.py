"""The same puzzles for people: a form that a person answers, and the records of such answers.

    python -m eval_hooks.people recipe=mixed_grid [split=test] [count=10] [out=FILE.html] [dotted.key=value ...]
    python -m eval_hooks.people answers=FILE.json recipe=mixed_grid [out=FILE.jsonl] [dotted.key=value ...]

The form is one file that asks nothing of a network: the pixels and the words that a model gets, and boxes for the
answer, where the task has such, or room to write it. It holds no solution. What is typed stays in the browser until it
is saved as a file; that is read, and scored, as a model's answers are. A puzzle that was left empty is not counted.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image
from tqdm import tqdm

from data_mix.mixture import Mixture, Posed, first_puzzles
from data_mix.photos import find_photos
from eval_hooks.data_urls import lossless
from eval_hooks.people_page import Asked, page
from eval_hooks.records import Record, score_completion, write_records
from eval_hooks.summary import summarize, table
from models.generation import Completion
from recipes.command import CommandLine, run_command
from recipes.fields import problem, shown
from recipes.schema import Recipe
from tasks.boxes import Boxes, Rows

USAGE = """\
usage: python -m eval_hooks.people recipe=NAME [split=test] [count=10] [out=FILE.html] [dotted.key=value ...]
       python -m eval_hooks.people answers=FILE.json recipe=NAME [out=FILE.jsonl] [dotted.key=value ...]
  recipe      as for a run; scoring needs the same recipe and photos as the form
  split       eval or test
  count       puzzles per part
  answers     what a person saved from a form
  out         the form, default people-<recipe>-<split>.html; or the records, default the answers' name with .jsonl"""

PROTOCOL = "human"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")
_MOST_BYTES = 20_000_000


@dataclass(frozen=True)
class Answers:
    """What a person saved."""

    name: str
    split: str
    count: int
    """Puzzles per part of the form."""
    filled: dict[str, str | Rows]
    """Key of a puzzle -> what was typed, or what stands in its boxes; not all empty."""


@dataclass(frozen=True)
class Request:
    """What the command line asks for."""

    recipe: Recipe
    split: str
    count: int
    answers: Path | None
    out: Path


def parse_request(argv: Sequence[str]) -> Request:
    """
    Raises:
        RecipeError: every problem of the command line and of the recipe at once.
    """
    line = CommandLine(argv, ("split", "count", "answers", "out"))
    split, count = line.choice("split", ("test", "eval"), "test"), line.number("count", 10)
    given = line.text("answers")
    answers = None if given is None else Path(given).expanduser()
    if answers is not None:
        if not answers.is_file():
            line.problems.append(problem("answers", shown(str(answers)), "a file", "do name one that a form saved"))
        line.problems += [
            problem(
                name, shown(str(line.text(name))), "nothing with answers=", f"do leave {name} out: the file says it"
            )
            for name in ("split", "count")
            if line.text(name)
        ]
    recipe = line.recipe()
    out = answers.with_suffix(".jsonl") if answers else Path(f"people-{recipe.name}-{split}.html")
    return Request(recipe, split, count, answers, Path(line.text("out") or out).expanduser())


def form(recipe: Recipe, split: str, count: int) -> str:
    """The form as HTML.

    Raises:
        ValueError: photos are too few or too small.
    """
    asked = []
    puzzles = first_puzzles(recipe, find_photos(recipe.data.photos), split, count)
    for posed in tqdm(puzzles, desc="drawing", unit="puzzle", leave=False):
        images = [Image.fromarray(pixels) for pixels in posed.example().images]
        urls = tuple((lossless(image), *image.size) for image in images)
        messages = tuple(posed.puzzle.messages)
        asked.append(Asked(posed.part, posed.index, posed.puzzle.key, messages, urls, boxes_of(posed)))
    return page(f"{recipe.name}: puzzles for people", {"split": split, "count": count}, asked)


def boxes_of(posed: Posed) -> Boxes | None:
    """What a person fills in; None where the answer is written as text."""
    task, puzzle = posed.task, posed.puzzle
    return task.boxes(puzzle.spec, puzzle.target.get("asked", {})) if task.boxes else None


def read_answers(path: Path) -> Answers:
    """
    Raises:
        ValueError: the file is none that a form saves.
    """
    allowed = "what the form saves: name, split, count, and answers with key and text or boxes"
    size = path.stat().st_size
    try:
        if size > _MOST_BYTES:
            raise ValueError(f"{size:,} bytes")
        stored: Any = json.loads(path.read_text(encoding="utf-8"))
        name, split, count = stored["name"].strip(), stored["split"], stored["count"]
        filled = {answer["key"]: _filled(answer) for answer in stored["answers"]}
        if len(filled) < len(stored["answers"]):
            raise ValueError("a puzzle answered twice")
        if split not in ("test", "eval") or type(count) is not int or not 0 < count < 10**6:
            raise ValueError("another split or count")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        got = f"{path}, which is none ({type(error).__name__}: {error!s:.80})"
        raise ValueError(problem("answers", got, allowed, "do save the form again")) from error
    if not _NAME.fullmatch(name):
        raise ValueError(
            problem(
                "name", shown(name[:60]), "up to 40 letters, digits, _ . and -", "do write it so in the form's file"
            )
        )
    filled = {key: answer for key, answer in filled.items() if answer}
    if not filled:
        raise ValueError(problem("answers", f"{path} without an answer", allowed, "do answer a puzzle"))
    return Answers(name, split, count, filled)


def _filled(answer: Any) -> str | Rows:
    """What was typed, or stands in the boxes, without blanks around it; empty where a person gave nothing."""
    if "boxes" not in answer:
        return answer["text"] if answer["text"].strip() else ""
    rows = [[box.strip() for box in row] for row in answer["boxes"]]
    return rows if answer["touched"] is True else []


def score(answers: Answers, puzzles: Mixture) -> list[Record]:
    """The records of a person's answers, in the order of the puzzles.

    Raises:
        ValueError: an answer is to none of these puzzles.
    """
    records = []
    unknown = dict(answers.filled)
    for posed in puzzles:
        given = unknown.pop(posed.puzzle.key, None)
        if given is not None:
            text = given if isinstance(given, str) else _written(posed, given)
            completion = Completion(text, "stop", 0, 0.0)
            records.append(score_completion(posed, completion, model=f"human-{answers.name}", protocol=PROTOCOL))
    if unknown:
        got = f"{len(unknown)} answers to puzzles that the recipe does not give, as {shown(next(iter(unknown)))}"
        raise ValueError(problem("answers", got, "those to its own", "do name the recipe and photos of the form"))
    return records


def _written(posed: Posed, rows: Rows) -> str:
    """The boxes as a model would have to write them.

    Raises:
        ValueError: they are not the puzzle's.
    """
    boxes = boxes_of(posed)
    if boxes is None or [len(row) for row in rows] != [len(row) for row in boxes.given]:
        got = f"boxes of another shape for {posed.puzzle.key}"
        raise ValueError(problem("answers", got, "those of its form", "do save the form again"))
    return boxes.write(rows)


def work(argv: Sequence[str]) -> str:
    """Write a form, or score one; says what was done."""
    request = parse_request(argv)
    recipe, out = request.recipe, request.out
    if request.answers is None:
        text = form(recipe, request.split, request.count)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8")
        return f"form: {out} ({len(text) / 1e6:.1f} MB)"
    answers = read_answers(request.answers)
    puzzles = first_puzzles(recipe, find_photos(recipe.data.photos), answers.split, answers.count)
    records = score(answers, puzzles)
    write_records(out, records)
    empty = len(puzzles) - len(records)
    left = f"\nleft empty, and not counted: {empty} of {len(puzzles)} puzzles" if empty else ""
    return f"{table(summarize(records))}{left}\nrecords: {out} (model {records[0].model}, protocol {PROTOCOL})"


def main(argv: Sequence[str]) -> int:
    return run_command(argv, USAGE, work)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
