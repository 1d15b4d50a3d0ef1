"""Supervised fine-tuning on puzzles.

    accelerate launch train/sft.py recipe=mixed_grid data.photos.folder=DIR
    accelerate launch train/sft.py recipe=quickstart dry_run=true        # everything but training

Exit status: 0 when the run is done, 1 when it is done but misses `eval.require`, 2 when it was refused, 3 when a signal
(SIGTERM, SIGUSR1) stopped it after saving, 4 when it could not go on, 130 after Ctrl-C.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import torch
from accelerate import PartialState
from transformers import PrinterCallback

from data_mix.curriculum import training_order
from data_mix.mixture import evaluation_mixture, training_mixture
from data_mix.photos import find_photos
from data_mix.scores import Scores
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
from train.arguments import sft_arguments
from train.balance import step_batches
from train.check import check_lag, check_lengths, example_costs, idle_decisions, measure_examples, num_steps
from train.console import refusal, set_up_logging
from train.forecast import batches_of
from train.guard import RunError
from train.head import plain_head
from train.memory import check_activations
from train.packing import packs
from train.parameters import describe_parameters, learning_rates
from train.progress import Progress
from train.proof import prove
from train.rehearsal import WorstBatchFirst
from train.run_folder import check_steps_left, environment, open_run_folder, write_provenance
from train.sharding import check_deepspeed, check_sharding, in_lockstep, load_for_training, spread
from train.trainer import PuzzleTrainer
from train.weighting import PartWeights

logger = logging.getLogger("train.sft")


def prepare(argv: list[str]) -> tuple[Recipe, PuzzleTrainer, EvalCallback, Path | None]:
    """Everything that can fail of what was asked for; nothing of it trains."""
    rank, processes = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    set_up_logging(main_process=rank == 0)

    # recipe
    recipe = load_recipe(argv)
    check_sharding(recipe, processes, dict(os.environ))
    check_deepspeed(recipe.train.sharding)
    check_wandb(recipe)
    check_towers(FAMILIES[recipe.model.family], recipe.train)
    scores = Scores()
    weights = PartWeights(recipe, scores)
    checkpoint = open_run_folder(recipe)
    args = sft_arguments(recipe, processes)
    steps = num_steps(
        sum(part.count for part in recipe.data.parts.values()),
        recipe.train.effective_batch, args.num_train_epochs, args.max_steps,
    )  # fmt: skip
    logger.info("recipe %s, %s process(es), %s: %s steps", recipe.name, processes, args.device.type, steps)
    if checkpoint:
        check_steps_left(checkpoint, steps)
    for line in idle_decisions(recipe, steps):
        logger.warning(line)

    # mixture
    with args.main_process_first(local=True, desc="reading the photos"):
        photos = find_photos(recipe.data.photos)
    mixture = training_mixture(recipe, photos)
    checkpoint_mixture = evaluation_mixture(recipe, photos, recipe.eval.count)
    final_mixture = evaluation_mixture(recipe, photos, recipe.eval.final_count)
    for line in (*photos.summary(), *mixture.summary()):
        logger.info(line)

    # model and processor
    loaded, sharding = load_for_training(recipe, checkpoint, args.device, rank, processes)
    plain_head(loaded.model)
    rates = learning_rates(recipe.train, args.learning_rate)
    logger.info("what trains\n%s", describe_parameters(loaded.model, loaded.family, rates))
    spread(recipe, loaded, sharding, args)

    # trainer
    order = training_order(recipe, mixture, scores)
    measured = measure_examples(loaded, mixture, order.positions(steps), rank, processes)
    check_lengths(loaded, mixture, measured)
    batches = step_batches(
        recipe, order, steps, processes, example_costs(measured, order),
        packed=packs(recipe, loaded), lockstep=in_lockstep(sharding),
    )  # fmt: skip
    check_lag(
        recipe.data.curriculum, batches.arrange.micro_steps, recipe.train.workers, args.dataloader_prefetch_factor or 2
    )
    found = batches_of(loaded, measured, batches)
    if args.device.type == "cuda":
        check_activations(recipe, sharding, processes, found.largest, torch.cuda.mem_get_info()[1])
    logger.info("effective batch %s = %s; %s steps", recipe.train.effective_batch, batches.arrange.describe(), steps)
    trainer = PuzzleTrainer(recipe, loaded, mixture, batches, weights, args)
    prove(trainer, measured)
    evaluation = EvalCallback(trainer, recipe, loaded, checkpoint_mixture, final_mixture, scores)
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(evaluation)
    if recipe.train.worst_batch_first:
        trainer.add_callback(WorstBatchFirst(trainer, [found.longest, found.dearest]))
    trainer.add_callback(Progress())
    if recipe.wandb.mode != "disabled":
        trainer.add_callback(TrainerPoints(Points(Path(recipe.output_dir))))
    if rank == 0 and not recipe.dry_run:
        provenance = environment()
        write_provenance(recipe, provenance)
        start_wandb(recipe, provenance)
    return recipe, trainer, evaluation, checkpoint


def run(recipe: Recipe, trainer: PuzzleTrainer, evaluation: EvalCallback, checkpoint: Path | None) -> int:
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


if __name__ == "__main__":
    require_this_clone(__file__)
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
