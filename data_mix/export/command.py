"""Write the puzzles of a recipe as a dataset that `datasets.load_dataset` reads.

    python -m data_mix.export recipe=mixed_grid split=train data.photos.folder=DIR [workers=2] [out=DIR]

A call that was stopped, by Ctrl-C or worse, is continued by the same call. Exit status: 0 when all is written, 2 when
it was refused or could not go on, 130 after Ctrl-C.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from data_mix.export.card import Held, card, held
from data_mix.export.hub import check_hub, push
from data_mix.export.plan import Plan, Shard, export_folder, plan_export
from data_mix.export.rows import broken, write_shard
from data_mix.mixture import Mixture, evaluation_parts, first_puzzles, training_mixture
from data_mix.photos import find_photos
from data_mix.splits import SPLITS
from data_mix.workers import in_processes
from recipes.command import CommandLine, run_command
from recipes.fields import problem
from recipes.schema import Recipe

USAGE = """\
usage: python -m data_mix.export recipe=NAME split=train|eval|test [dotted.key=value ...]
  split=train     the puzzles of one epoch, in the order of training
  split=eval      the held-out puzzles, part after part; test likewise
  out=DIR         where it is written; default: datasets/<the recipe's name>-<split>
  count=N         puzzles per part of eval or test; default: eval.final_count
  workers=2       processes
  shard=32        rows per file
  push_to=NAME    upload it to the hub as USER/NAME, private if new
  key=value       any field of the recipe; `python -m recipes --help` lists them"""


@dataclass(frozen=True)
class Request:
    """What the command line asks for."""

    recipe: Recipe
    split: str
    out: Path
    count: int | None
    workers: int
    shard: int
    push_to: str | None


def parse_request(argv: Sequence[str]) -> Request:
    """
    Raises:
        RecipeError: every problem of the command line and of the recipe at once.
    """
    line = CommandLine(argv, ("split", "out", "count", "workers", "shard", "push_to"))
    split, count = line.choice("split", SPLITS), line.number("count", None)
    if line.text("split") == "train" and count is not None:
        advice = "do remove it, or set data.parts.NAME.count"
        line.problems.append(problem("count", str(count), "nothing with split=train", advice))
    workers, shard = line.number("workers", 2), line.number("shard", 32)
    recipe = line.recipe()
    out = Path(line.text("out") or f"datasets/{recipe.name}-{split}").expanduser()
    return Request(recipe, split, out, count, workers, shard, line.text("push_to"))


def mixture_of(request: Request) -> tuple[Mixture, Plan]:
    """The puzzles that are asked for, and how they are laid into files.

    Raises:
        ValueError: there are none, or photos or datasets do not serve.
    """
    recipe = request.recipe
    photos = find_photos(recipe.data.photos)
    if request.split == "train":
        mixture, parts = training_mixture(recipe, photos), recipe.data.parts
    else:
        mixture = first_puzzles(recipe, photos, request.split, request.count or recipe.eval.final_count)
        parts = evaluation_parts(recipe)
    for line in (*photos.summary(), *mixture.summary()):
        print(line)
    if not len(mixture):
        allowed = "at least one part and one puzzle"
        raise ValueError(problem("split", f"{request.split} without puzzles", allowed, "do set count or eval.parts"))
    return mixture, plan_export(recipe, mixture, parts, request.shard)


def export(request: Request) -> Held:
    """Write what is missing of an export, and its card; then upload it if that is asked for.

    Raises:
        ValueError: the folder holds something else, a photo is gone, or the hub cannot be reached.
    """
    if request.push_to:
        check_hub(request.push_to)
    mixture, plan = mixture_of(request)
    with export_folder(request.out, plan):
        missing = [shard for shard in plan.shards if _missing(request.out, shard)]
        num_rows, num_missing = len(mixture), sum(shard.num_rows for shard in missing)
        if num_missing < num_rows:
            print(f"{request.out}: {num_rows - num_missing} of {num_rows} rows are there already")
        num_bytes = 0
        with tqdm(
            total=num_rows, initial=num_rows - num_missing, desc=f"exporting to {request.out}", unit="row",
            mininterval=0,
        ) as bar:  # fmt: skip
            for shard, _ in in_processes(write_shard, (mixture, request.out), missing, request.workers):
                num_bytes += (request.out / shard.file).stat().st_size
                bar.set_postfix_str(f"{num_bytes / 1e6:.1f} MB written", refresh=False)
                bar.update(shard.num_rows)
        found = held(request.out, plan)
        (request.out / "README.md").write_text(card(request.recipe.name, plan, found), encoding="utf-8")
        if request.push_to:
            print(f"uploaded to {push(request.out, request.push_to)}")
    return found


def _missing(folder: Path, shard: Shard) -> bool:
    why = broken(folder / shard.file, shard.num_rows)
    if why and (folder / shard.file).exists():
        print(f"{folder / shard.file}: broken ({why}); it is made again")
    return why is not None


def report(argv: Sequence[str]) -> str:
    """Export, and say what there is."""
    request = parse_request(argv)
    found = export(request)
    rows = ", ".join(f"{part} {count}" for part, count in found.rows.items())
    return (
        f"{request.out}: {sum(found.rows.values())} rows ({rows}), "
        f"{100 * found.share_ambiguous:.2f} % ambiguous, {found.num_bytes / 1e6:.1f} MB"
    )


def main(argv: Sequence[str]) -> int:
    return run_command(argv, USAGE, report, stopped="what is written stays, and the same command continues")
