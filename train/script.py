"""What both entry scripts do around their own preparation: train, judge, and say how it ended.

Exit status: 0 when the run is done, 1 when it is done but misses `eval.require`, 2 when it was refused, 3 when a signal
(SIGTERM, SIGUSR1) stopped it after saving, 4 when it could not go on, 130 after Ctrl-C.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from accelerate import PartialState
from transformers import PrinterCallback, TrainerCallback, TrainingArguments

from data_mix.mixture import Mixture, evaluation_mixture, training_mixture
from data_mix.photos import find_photos
from eval_hooks.callback import EvalCallback
from eval_hooks.evaluate import EvaluationStoppedError
from eval_hooks.summary import check_require
from eval_hooks.wandb_log import check_wandb, start_wandb
from eval_hooks.wandb_points import Points, TrainerPoints
from models import FAMILIES
from models.towers import check_towers
from recipes.loader import load_recipe
from recipes.schema import Recipe
from train import require_this_clone
from train.check import check_start, idle_decisions
from train.console import refusal, set_up_logging
from train.guard import RunError
from train.progress import Progress
from train.run_folder import check_steps_left, environment, open_run_folder, write_provenance
from train.run_trainer import RunTrainer
from train.sharding import check_deepspeed, check_sharding

logger = logging.getLogger(__name__)


class Prepared(NamedTuple):
    """A run of which everything that can fail of what was asked for has been done."""

    recipe: Recipe
    trainer: RunTrainer
    evaluation: EvalCallback
    checkpoint: Path | None
    """Where it goes on from."""


class Begun(NamedTuple):
    """A run that has been asked for: its recipe is sound and fits the launch, and its folder is free or its own."""

    recipe: Recipe
    checkpoint: Path | None
    """Where it goes on from."""
    rank: int
    processes: int


def begin(argv: Sequence[str], *, rewarded: bool) -> Begun:
    """All that can be refused before anything is read but the recipe.

    Args:
        rewarded: whether the script is of GRPO.

    Raises:
        ValueError: what is asked for cannot be had.
    """
    rank, processes = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    set_up_logging(main_process=rank == 0)
    recipe = _read_recipe(argv, rewarded=rewarded)
    check_sharding(recipe, processes, dict(os.environ))
    check_deepspeed(recipe.train.sharding)
    check_wandb(recipe)
    check_towers(FAMILIES[recipe.model.family], recipe.train)
    check_start(recipe)
    return Begun(recipe, open_run_folder(recipe), rank, processes)


def announce(begun: Begun, args: TrainingArguments, steps: int, decisions: int) -> None:
    """Say what will run.

    Args:
        steps: optimizer steps of the run.
        decisions: of these, those between which a curriculum can decide.

    Raises:
        ValueError: the checkpoint lies behind the last step.
    """
    recipe = begun.recipe
    logger.info("recipe %s, %s process(es), %s: %s steps", recipe.name, begun.processes, args.device.type, steps)
    if begun.checkpoint:
        check_steps_left(begun.checkpoint, steps)
    for line in idle_decisions(recipe, decisions):
        logger.warning(line)


def _read_recipe(argv: Sequence[str], *, rewarded: bool) -> Recipe:
    recipe = load_recipe(argv)
    if (recipe.reward is not None) != rewarded:
        got, allowed, other = ("none", "one", "sft") if rewarded else ("one", "none", "grpo")
        advice = "set reward={} for the defaults, or" if rewarded else "remove it, or"
        raise ValueError(
            f"reward: got {got}; allowed for train/{'grpo' if rewarded else 'sft'}.py: {allowed}; {advice} start "
            f"train/{other}.py with this recipe"
        )
    return recipe


class Mixtures(NamedTuple):
    """The puzzles of a run."""

    training: Mixture
    checkpoint: Mixture
    """Asked at each checkpoint."""
    final: Mixture
    """Asked after the last step."""


def mixtures(recipe: Recipe, args: TrainingArguments) -> Mixtures:
    """Those of a recipe; says what they have.

    Raises:
        ValueError: photos are too few or too small, or a dataset does not serve.
    """
    with args.main_process_first(local=True, desc="reading the photos"):
        photos = find_photos(recipe.data.photos)
    training = training_mixture(recipe, photos)
    held_out = (evaluation_mixture(recipe, photos, count) for count in (recipe.eval.count, recipe.eval.final_count))
    for line in (*photos.summary(), *training.summary()):
        logger.info(line)
    return Mixtures(training, *held_out)


def equipped(prepared: Prepared, callbacks: Sequence[TrainerCallback] = ()) -> Prepared:
    """With its callbacks, its folder and its W&B run.

    Args:
        callbacks: further ones, behind the evaluation.
    """
    recipe, trainer, evaluation, _ = prepared
    trainer.remove_callback(PrinterCallback)
    for callback in (evaluation, *callbacks, Progress()):
        trainer.add_callback(callback)
    if recipe.wandb.mode != "disabled":
        trainer.add_callback(TrainerPoints(Points(Path(recipe.output_dir))))
    if trainer.args.process_index == 0 and not recipe.dry_run:
        provenance = environment()
        write_provenance(recipe, provenance)
        start_wandb(recipe, provenance)
    return prepared


def run(recipe: Recipe, trainer: RunTrainer, evaluation: EvalCallback, checkpoint: Path | None) -> int:
    """Train; the last step is saved and evaluated like every checkpoint."""
    if recipe.dry_run:
        logger.info("dry run: everything but training is done and nothing is wrong")
        return 0
    try:
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    except EvaluationStoppedError:  # its checkpoint is saved, and the continued run makes up for it
        trainer.signals.stopped = True
    if trainer.signals.stopped:
        logger.warning("stopped after step %s, which is saved; resume=true continues", trainer.state.global_step)
        return 3
    missed = check_require(evaluation.final_summary, recipe.eval.require)
    for line in missed if trainer.is_world_process_zero() else ():
        logger.error(line)
    logger.info("checkpoints, records and pictures are in %s", Path(recipe.output_dir).resolve())
    return 1 if missed else 0


def main(file: str, prepare: Callable[[list[str]], Prepared]) -> None:
    """Prepare and run; ends the process."""
    require_this_clone(file)
    try:
        try:
            prepared = prepare(sys.argv[1:])
        except (ValueError, OSError) as refused:
            sys.exit(refusal(refused))
        status = run(*prepared)
    except RunError as failed:
        sys.exit(refusal(failed, status=4))
    except OSError as failed:  # a disk that is full where records are written, for one
        sys.exit(refusal(OSError(f"{failed}; mend that, then continue with resume=true"), status=4))
    except KeyboardInterrupt:
        told = "interrupted; resume=true continues from the newest complete checkpoint, SIGTERM would have saved one"
        sys.exit(refusal(KeyboardInterrupt(told), status=130))
    PartialState().destroy_process_group()
    sys.exit(status)
