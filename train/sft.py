"""Supervised fine-tuning on puzzles.

    accelerate launch train/sft.py recipe=mixed_grid data.photos.folder=DIR
    accelerate launch train/sft.py recipe=quickstart dry_run=true        # everything but training

Exit status: see train/script.py.
"""

from __future__ import annotations

import logging

import torch

from data_mix.curriculum import training_order
from data_mix.scores import Scores
from eval_hooks.callback import EvalCallback
from train.arguments import sft_arguments
from train.balance import step_batches
from train.check import (
    check_lag,
    check_lengths,
    example_costs,
    measure_examples,
    num_steps,
)
from train.forecast import batches_of
from train.head import plain_head
from train.memory import check_activations
from train.packing import packs
from train.parameters import describe_parameters, learning_rates
from train.proof import prove
from train.rehearsal import WorstBatchFirst
from train.script import Prepared, announce, begin, equipped, main, mixtures
from train.sharding import in_lockstep, load_for_training, spread
from train.trainer import PuzzleTrainer
from train.weighting import PartWeights

logger = logging.getLogger("train.sft")


def prepare(argv: list[str]) -> Prepared:
    """Everything that can fail of what was asked for; nothing of it trains."""
    # recipe
    begun = begin(argv, rewarded=False)
    recipe, checkpoint, rank, processes = begun
    scores = Scores()
    weights = PartWeights(recipe, scores)
    args = sft_arguments(recipe, processes)
    steps = num_steps(
        sum(part.count for part in recipe.data.parts.values()),
        recipe.train.effective_batch, args.num_train_epochs, args.max_steps,
    )  # fmt: skip
    announce(begun, args, steps, steps)

    # mixture
    mixture, checkpoint_mixture, final_mixture = mixtures(recipe, args)

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
    worst = [WorstBatchFirst(trainer, [found.longest, found.dearest])] if recipe.train.worst_batch_first else []
    return equipped(Prepared(recipe, trainer, evaluation, checkpoint), worst)


if __name__ == "__main__":
    main(__file__, prepare)
