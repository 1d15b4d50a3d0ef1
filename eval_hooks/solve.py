"""Cut one photo, ask a checkpoint, draw what it answers.

    python -m eval_hooks.solve checkpoint=runs/quickstart photo=cat.jpg [out=solved.png] [seed=0] [part=2x2]

`checkpoint` is a run folder (its best checkpoint is asked, or the newest where none is known) or one checkpoint in it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers

from data_mix.images import BadPhoto, load_rgb
from data_mix.mixture import Posed
from eval_hooks.evaluate import evaluate
from eval_hooks.percent import percent
from eval_hooks.pictures import draw
from eval_hooks.records import Record, printable
from eval_hooks.run_files import find_checkpoint
from models.load import load_checkpoint
from recipes.fields import did_you_mean, problem
from recipes.schema import Part, Recipe
from tasks import TASKS
from tasks.photo import as_photo

USAGE = """\
usage: python -m eval_hooks.solve checkpoint=DIR photo=FILE [out=FILE.png] [seed=0] [part=NAME]
  checkpoint  a run folder (its best checkpoint, else its newest), or one checkpoint folder in it
  photo       the photo to cut
  out         where the picture is written; default: <photo's name>-solved.png in the working folder
  seed        which puzzle is cut from the photo, a whole number
  part        a part of the run's recipe; default: the first that cuts a photo"""

_NAMES = ("checkpoint", "photo", "out", "seed", "part")


@dataclass(frozen=True)
class Request:
    """What the command line asks for."""

    checkpoint: Path
    photo: Path
    out: Path
    seed: int
    part: str | None


class RequestError(ValueError):
    """Every problem of the command line, each as name: got X; allowed: Y; do Z."""


def parse_request(argv: list[str]) -> Request:
    """
    Raises:
        RequestError: with every problem at once.
    """
    given: dict[str, str] = {}
    problems = []
    for token in argv:
        name, equals, value = token.partition("=")
        if not equals or not value:
            problems.append(problem(token, "no value", "name=value", f"write {name.lstrip('-')}=..."))
        elif name not in _NAMES:
            problems.append(problem(name, "an unknown name", ", ".join(_NAMES), did_you_mean(name, _NAMES)))
        elif name in given:
            problems.append(problem(name, "two values", "one", "remove one of them"))
        else:
            given[name] = value
    for name, what in (("checkpoint", "a run or checkpoint folder"), ("photo", "a photo file")):
        if name not in given and not any(line.startswith(name) for line in problems):
            problems.append(problem(name, "nothing", what, f"write {name}=..."))
    seed = given.get("seed", "0")
    if not (seed.isascii() and seed.isdigit() and len(seed) < 20 and int(seed) < 2**63):
        problems.append(problem("seed", seed, "a whole number from 0 to 2**63 - 1", "write seed=0"))
    out = Path(given.get("out", f"{Path(given.get('photo', '')).stem}-solved.png"))
    if out.suffix.lower() != ".png":
        problems.append(
            problem("out", str(out), "a file name that ends in .png", f"write out={out.with_suffix('.png')}")
        )
    if problems:
        raise RequestError("\n".join(problems))
    return Request(Path(given["checkpoint"]), Path(given["photo"]), out, int(seed), given.get("part"))


def choose_part(recipe: Recipe, name: str | None) -> tuple[str, Part]:
    """The named part of the recipe's evaluation or training; without a name the first that cuts a photo.

    Raises:
        RequestError: there is no such part, or it cuts no photo.
    """
    parts = {**recipe.data.parts, **(recipe.eval.parts or {})}
    cutting = {name: part for name, part in parts.items() if _cuts_photo(part)}
    if name is not None and name not in parts:
        raise RequestError(problem("part", name, ", ".join(cutting) or "nothing", did_you_mean(name, cutting)))
    if (name is not None and name not in cutting) or not cutting:
        got = f"{name or 'no name'}; task {parts[name].task if name else '-'} draws its own puzzles"
        raise RequestError(problem("part", got, ", ".join(cutting) or "nothing", "choose a part that cuts a photo"))
    chosen = name or next(iter(cutting))
    return chosen, cutting[chosen]


def _cuts_photo(part: Part) -> bool:
    task = TASKS[part.task]
    return task.board(task.Spec.model_validate(part.spec)) is not None


def solve(request: Request) -> Record:
    """Ask the checkpoint and write the picture.

    Raises:
        ValueError: the request cannot be met.
    """
    folder, recipe, step = find_checkpoint(request.checkpoint)
    name, part = choose_part(recipe, request.part)
    try:
        photo = as_photo(load_rgb(request.photo, recipe.data.photos.ground))
    except (BadPhoto, OSError) as error:
        raise RequestError(
            problem("photo", f"{request.photo} ({error})", "a readable photo", "name another")
        ) from error
    task = TASKS[part.task]
    puzzle = task.pose(task.Spec.model_validate(part.spec), photo, request.seed)
    posed = Posed(part=name, split="solve", index=0, puzzle=puzzle, photo=photo)

    bf16 = recipe.train.precision == "bf16"
    dtype = torch.bfloat16 if bf16 else torch.float32
    loaded = load_checkpoint(folder, recipe.model, seed=recipe.seed, dtype=dtype)
    if torch.cuda.is_available():
        loaded.model.to("cuda")
    records = evaluate(
        loaded, [posed], batch=1, model_name=recipe.model.name, step=step,
        autocast=torch.bfloat16 if bf16 else None, progress=False,
    )  # fmt: skip
    picture = draw(posed, records[0].text)
    if picture is not None:
        request.out.parent.mkdir(parents=True, exist_ok=True)
        picture.save(request.out)
    return records[0]


def describe(record: Record) -> str:
    """The answer for a person."""
    lines = [
        f"checkpoint: step {record.step} of {record.model}; part {record.part}; seed {record.seed}",
        f"answer: {printable(record.text)}",
        f"valid: {'yes' if record.invalid is None else f'no, {record.invalid}'}"
        + (" (cut at the token limit)" if record.finish_reason == "length" else ""),
        "scores: " + ", ".join(f"{entry} {percent(value)} %" for entry, value in record.scores.items()),
    ]
    return "\n".join(lines)


def main(argv: list[str]) -> int:
    if not argv or any(token in ("help", "--help", "-h") for token in argv):
        print(USAGE)
        return 0 if argv else 2
    transformers.logging.disable_progress_bar()
    try:
        request = parse_request(argv)
        record = solve(request)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    print(describe(record))
    if TASKS[record.task].picture is not None:
        print(f"picture: {request.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
