"""The README.md of a checkpoint, which the hub shows as its model card; a view of the records.

    python -m eval_hooks.model_card run=runs/mixed_grid [step=1200]
    python -m eval_hooks.model_card checkpoint=FOLDER records=FILE [recipe=NAME]

Training writes one at each evaluation of a checkpoint. What PEFT writes under that name is replaced.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from eval_hooks.baselines import read_solved
from eval_hooks.model_card_text import card_text
from eval_hooks.record_parts import giver_of, read_parts
from eval_hooks.records import Record, read_records
from eval_hooks.run_files import CARD, ENVIRONMENT, RECIPE, find_checkpoint, records_file
from eval_hooks.summary import Solved
from models.load import ADAPTER_CONFIG
from recipes.command import CommandLine, run_command
from recipes.fields import problem, shown
from recipes.loader import load_recipe
from recipes.schema import Recipe

logger = logging.getLogger(__name__)

USAGE = """\
usage: python -m eval_hooks.model_card run=DIR [step=N] [out=FILE]
       python -m eval_hooks.model_card checkpoint=FOLDER records=FILE [out=FILE] [recipe=NAME ...]
  run         a run folder; the card is of its best checkpoint, or that of step, by its own records
  checkpoint  a folder of a model or adapter
  records     its scored answers; of one model, step, protocol and split
  out         where the card is written; default: README.md in the checkpoint
  recipe      of the run that trained it, where neither checkpoint nor records lie in a run folder"""

_OWN = ("run", "step", "checkpoint", "records", "out")


def write_card(
    folder: Path, records: Sequence[Record], recipe: Recipe, run: Path | None, solved: Solved, out: Path | None = None
) -> Path:
    """Write the card of the model in `folder`; a reader sees the old file or the whole new one.

    Args:
        records: its answers; of one model, step, protocol and split, each once.
        recipe: of the run that trained it.
        run: that run's folder, which knows the versions; None: it is not here.
        solved: what programs earned, by puzzle.
        out: the file; None: CARD in the folder.

    Raises:
        ValueError: the records do not belong together.
        OSError: it cannot be written.
    """
    stored = run / ENVIRONMENT if run else None
    environment = stored.read_text(encoding="utf-8") if stored and stored.is_file() else None
    adapter = (folder / ADAPTER_CONFIG).is_file()
    text = card_text(records, recipe, adapter=adapter, environment=environment, solved=solved)
    out = out or folder / CARD
    aside = out.with_name(f".{out.name}.partial")
    try:
        aside.write_text(text, encoding="utf-8")
        aside.replace(out)
    except OSError:
        aside.unlink(missing_ok=True)
        raise
    return out


@contextmanager
def or_warn(folder: Path) -> Iterator[None]:
    """For what is worth more than its card: a full disk must not stop a run."""
    try:
        yield
    except (OSError, ValueError) as error:
        logger.warning("%s goes without a card of its own: %s", folder, error)


def records_of(run: Path, step: int) -> list[Record]:
    """A checkpoint's answers: those of the final evaluation where it was of this step, else of its own; [] for none."""
    for file in (records_file(run, None), records_file(run, step)):
        records = read_records(file).records if file.is_file() else []
        if records and {record.step for record in records} == {step}:
            return records
    return []


def write_for_run(run: Path, step: int | None, out: Path | None) -> Path:
    """
    Raises:
        ValueError: there is no such checkpoint, or it was not evaluated.
    """
    folder, recipe, step = find_checkpoint(run if step is None else run / f"checkpoint-{step}")
    records = records_of(run, step)
    if not records:
        got = f"{folder.name}, without records of its answers"
        advice = "do name an evaluated one (step=N), or write checkpoint=FOLDER records=FILE"
        raise ValueError(problem("run", got, "a checkpoint that was evaluated", advice))
    return write_card(folder, records, recipe, run, read_solved(), out)


def write_for_checkpoint(folder: Path, file: Path, recipe: Recipe | None, out: Path | None) -> Path:
    """
    Args:
        recipe: None: that of the run folder in which the checkpoint lies, else the records.

    Raises:
        ValueError: the records do not belong together or are of another step, or no recipe is known.
    """
    parts = read_parts([file])
    giver = giver_of(parts)
    runs = [place for place in (folder.resolve().parent, file.resolve().parent.parent) if (place / RECIPE).is_file()]
    run = runs[0] if runs else None
    if run and folder.resolve().parent == run:
        step = find_checkpoint(folder)[2]
        if giver.step not in (None, step):
            got = f"answers of step {giver.step}"
            raise ValueError(problem("records", got, f"those of {folder.name}", "do name that step's"))
    if recipe is None and run is None:
        got = "nothing, and neither checkpoint nor records lie in a run folder"
        raise ValueError(problem("recipe", got, "that of the run that trained it", "do write recipe=NAME"))
    recipe = recipe or load_recipe([f"recipe={run and run / RECIPE}"])
    records = [record for own in parts.values() for record in own]
    return write_card(folder, records, recipe, run, read_solved(), out)


def report(argv: Sequence[str]) -> str:
    """Write the card, and say where it is."""
    line = CommandLine(argv, _OWN)
    run, checkpoint, records = (line.text(name) for name in ("run", "checkpoint", "records"))
    step = line.number("step", None)
    if (run is None) == (checkpoint is None):
        got = "neither it nor checkpoint" if run is None else "checkpoint beside it"
        line.problems.append(problem("run", got, "one of them", "do give one"))
    if checkpoint and records is None:
        line.problems.append(problem("records", "nothing", "a file of records", "do write records=..."))
    if run and records:
        line.problems.append(problem("records", "it beside run", "the run's own", "do write checkpoint=FOLDER"))
    if step is not None and not run:
        line.problems.append(problem("step", "it without run", "nothing, the records say it", "do remove it"))
    if checkpoint and not Path(checkpoint).expanduser().is_dir():
        got = shown(checkpoint)
        line.problems.append(problem("checkpoint", got, "a folder of a model", "do name one that exists"))
    if records and not Path(records).expanduser().is_file():
        line.problems.append(problem("records", shown(records), "a file of records", "do name one that exists"))
    named = any(word.startswith("recipe=") for word in argv)
    recipe = None
    if named and not run:
        recipe = line.recipe()
    else:
        line.without_recipe()
    out = Path(line.text("out") or "").expanduser() if line.text("out") else None
    if run:
        written = write_for_run(Path(run).expanduser(), step, out)
    else:
        written = write_for_checkpoint(Path(str(checkpoint)).expanduser(), Path(str(records)).expanduser(), recipe, out)
    return f"card: {written}"


def main(argv: Sequence[str]) -> int:
    return run_command(argv, USAGE, report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
