"""What a model can do and what it cannot, as one page for a person.

    python -m eval_hooks.report records=runs/mixed_grid/records/final.jsonl [out=FILE.html] [recipe=NAME]

The page is one file, without scripts, and asks nothing of a network. Everything on it follows from the records; for its
pictures the puzzles are posed again from the photos of the recipe, which is the run's own where the records lie in a
run's folder. Where they cannot be, the page is without pictures and says why.
"""

from __future__ import annotations

import hashlib
import logging
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from tqdm import tqdm

from data_mix.images import BadPhoto
from data_mix.photos import FilePhoto, find_photos
from eval_hooks.baselines import read_solved
from eval_hooks.data_urls import lossy
from eval_hooks.gallery import KINDS, Case, choose, drawn_answer, pose_again
from eval_hooks.record_parts import giver_of, read_parts
from eval_hooks.records import Giver, Record
from eval_hooks.report_numbers import Pair, PartNumbers, pairs, part_numbers
from eval_hooks.report_page import Drawn, Origin, Shown, page
from eval_hooks.run_files import ENVIRONMENT, RECIPE
from recipes.command import CommandLine, run_command
from recipes.fields import problem, shown
from recipes.loader import RecipeError, to_yaml
from recipes.schema import Recipe
from tasks import TASKS

logger = logging.getLogger(__name__)

USAGE = """\
usage: python -m eval_hooks.report records=FILE [out=FILE.html] [part=NAME] [model=NAME] [cases=2] [recipe=NAME ...]
  records     a file of scored answers, as runs keep them in records/; of one model and step
  out         where the page is written; default: the records' name with .html, beside them
  part        report this part alone
  model       report the answers of this model, or program, alone
  cases       how many of the worst, the best and of other answers are shown for each part; a page has at
              most 240
  recipe      names the photos (data.photos) that the puzzles are cut from again; default: the run's own"""

_OWN = ("records", "out", "part", "model", "cases")
_MOST_CASES = 240
"""On a page, so that it can be sent by mail; so are the next two."""
_PICTURE_BYTES = 2_200_000
"""Of all pictures together."""
_MOST_BYTES = 160_000
_LIBRARIES = ("torch", "transformers", "numpy", "pillow")


@dataclass(frozen=True)
class Request:
    """What the command line asks for."""

    records: Path
    out: Path
    part: str | None
    model: str | None
    cases: int
    recipe: Recipe | None
    no_recipe: str
    """Why there is none."""


def parse_request(argv: Sequence[str]) -> Request:
    """
    Raises:
        ValueError: every problem of the command line and of a recipe that it names.
    """
    line = CommandLine(argv, _OWN)
    records = Path(line.required("records", "a file of records")).expanduser()
    if line.text("records") and not records.is_file():
        line.problems.append(problem("records", shown(str(records)), "a file of records", "do name one that exists"))
    cases = line.number("cases", 2)
    recipe, no_recipe = None, "no recipe was named that says where the photos are (recipe=NAME)"
    of_run = records.resolve().parent.parent / RECIPE
    if any(word.startswith("recipe=") for word in argv):
        recipe = line.recipe()
    elif of_run.is_file() and not line.problems:
        try:
            recipe = CommandLine([*argv, f"recipe={of_run}"], _OWN).recipe()
        except RecipeError as error:
            no_recipe = f"the run's recipe cannot be used ({error})"
    else:
        line.without_recipe()
    out = Path(line.text("out") or records.with_suffix(".html")).expanduser()
    if out.resolve() == records.resolve():
        raise ValueError(problem("out", shown(str(out)), "another file than the records", "do write out=FILE.html"))
    return Request(records, out, line.text("part"), line.text("model"), cases, recipe, no_recipe)


def make_page(request: Request) -> str:
    """
    Raises:
        ValueError: the records are none, or do not belong together.
    """
    parts = read_parts([request.records], request.part, request.model)
    giver = giver_of(parts)
    solved = read_solved()
    numbers: dict[str, PartNumbers] = {part: part_numbers(part, records, solved) for part, records in parts.items()}
    found: list[Pair] = pairs(parts, numbers)
    cases = min(request.cases, max(1, _MOST_CASES // (len(KINDS) * len(parts))))
    if cases < request.cases:
        logger.warning("cases: %s of each kind are shown, a page has %s answers at most", cases, _MOST_CASES)
    chosen = {part: choose(records, TASKS[records[0].task].primary, cases) for part, records in parts.items()}
    photos, no_photos = _photos(request, parts)
    return page(giver, numbers, found, _drawn(chosen, photos), no_photos, _origin(request, giver))


def _photos(request: Request, parts: Mapping[str, Sequence[Record]]) -> tuple[dict[str, FilePhoto], str]:
    """By id; or none, and why."""
    if all(record.photo_id is None for records in parts.values() for record in records):
        return {}, ""
    if request.recipe is None:
        return {}, request.no_recipe
    try:
        return {photo.id: photo for photo in find_photos(request.recipe.data.photos).photos}, ""
    except ValueError as error:
        return {}, str(error)


def _drawn(chosen: Mapping[str, Sequence[Case]], photos: Mapping[str, FilePhoto]) -> dict[str, list[Shown]]:
    """Each case with its prompt and its picture, or with the reason why there is none."""
    num_cases = sum(map(len, chosen.values()))
    most_bytes = min(_MOST_BYTES, _PICTURE_BYTES // max(1, num_cases))
    with tqdm(total=num_cases, desc="drawing", unit="answer", leave=False) as bar:
        drawn: dict[str, list[Shown]] = {}
        for part, cases in chosen.items():
            for case in cases:
                drawn.setdefault(part, []).append(_shown(case, photos, most_bytes))
                bar.update()
    return drawn


def _shown(case: Case, photos: Mapping[str, FilePhoto], most_bytes: int) -> Shown:
    try:
        posed = pose_again(case.record, photos)
        images = drawn_answer(posed, case.record.text)
    except (BadPhoto, ValueError) as error:
        return Shown(case, (), (), str(error))
    urls = tuple(Drawn(lossy(image, most_bytes // len(images)), *image.size) for image in images)
    return Shown(case, tuple(posed.puzzle.messages), urls, "")


def _origin(request: Request, giver: Giver) -> Origin:
    content = request.records.read_bytes()
    named = {"records": request.records, "part": request.part, "model": request.model}
    environment = request.records.resolve().parent.parent / ENVIRONMENT
    versions = {"Python": platform.python_version()} | {name: metadata.version(name) for name in _LIBRARIES}
    return Origin(
        file=str(request.records),
        digest=hashlib.sha256(content).hexdigest(),
        num_bytes=len(content),
        chosen=[f"{name}={value}" for name, value in named.items() if value is not None],
        versions=versions,
        recipe=None if request.recipe is None else to_yaml(request.recipe),
        environment=environment.read_text(encoding="utf-8") if environment.is_file() else None,
    )


def report(argv: Sequence[str]) -> str:
    """Write the page, and say where it is."""
    request = parse_request(argv)
    text = make_page(request)
    request.out.parent.mkdir(parents=True, exist_ok=True)
    request.out.write_text(text, encoding="utf-8")
    return f"page: {request.out} ({len(text) / 1e6:.1f} MB)"


def main(argv: Sequence[str]) -> int:
    return run_command(argv, USAGE, report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
