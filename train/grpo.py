"""Reinforcement learning on puzzles: GRPO, whose reward is the task's own score.

    accelerate launch train/grpo.py recipe=grpo_curriculum data.photos.folder=DIR
    accelerate launch train/grpo.py recipe=quickstart_grpo dry_run=true    # everything but training

Exit status: see train/script.py.
"""

from __future__ import annotations

import logging
from pathlib import Path

import torch

from data_mix.curriculum import CurriculumOrder
from data_mix.groups import GroupScores
from data_mix.phases import prompt_curriculum
from data_mix.prompt_batches import PromptBatches
from data_mix.scores import Scores
from eval_hooks.callback import EvalCallback
from eval_hooks.evaluate import answer_limit
from eval_hooks.wandb_points import Points
from models.drawing import Drawing
from train.alarms import Alarms
from train.arguments import grpo_arguments
from train.check import check_lag, check_lengths, measure_examples
from train.credit import check_credit
from train.grpo_forecast import largest_load, may_come, schedule_of
from train.grpo_trainer import PromptTrainer, read_groups
from train.head import plain_head
from train.memory import check_activations
from train.parameters import describe_parameters, learning_rates
from train.reference import check_reference
from train.rollouts import OwnEngine
from train.script import Prepared, announce, begin, equipped, main, mixtures
from train.sharding import load_for_training, spread
from train.vllm_checks import check_vllm, plan_vllm

logger = logging.getLogger("train.grpo")


def prepare(argv: list[str]) -> Prepared:
    """Everything that can fail of what was asked for; nothing of it trains."""
    # recipe
    begun = begin(argv, rewarded=True)
    recipe, checkpoint, rank, processes = begun
    args = grpo_arguments(recipe, processes)
    if args.use_vllm:
        check_vllm(recipe, args, processes, rank)
    schedule = schedule_of(recipe, processes)
    rollout, rollouts, steps = schedule
    announce(begun, args, steps, rollouts)

    # mixture
    mixture, checkpoint_mixture, final_mixture = mixtures(recipe, args)
    check_credit(recipe, mixture)
    curriculum = prompt_curriculum(recipe.data)
    found = GroupScores(curriculum, list(recipe.data.parts))
    if checkpoint:
        found.restore(read_groups(checkpoint)["groups"])
    order = CurriculumOrder(curriculum, mixture.positions(), rollout.puzzles, recipe.seed, found.scores)

    # model and processor
    loaded, sharding = load_for_training(recipe, checkpoint, args.device, rank, processes)
    check_reference(args.beta, sharding)
    plain_head(loaded.model)
    rates = learning_rates(recipe.train, args.learning_rate)
    logger.info("what trains\n%s", describe_parameters(loaded.model, loaded.family, rates))
    spread(recipe, loaded, sharding, args)

    # trainer
    measured = measure_examples(loaded, mixture, may_come(recipe, mixture, order, rollouts), rank, processes)
    check_lengths(loaded, mixture, measured)
    if args.device.type == "cuda":
        load = largest_load(recipe, loaded, measured, order, schedule)
        check_activations(recipe, sharding, processes, load, torch.cuda.mem_get_info()[1])
    args.max_completion_length = max(answer_limit(one.lengths, loaded.max_tokens) for one in measured.values())
    if args.use_vllm:
        plan_vllm(recipe, args, loaded, measured.values(), rank)
    ahead = rollout.uses * rollout.micro_steps
    check_lag(curriculum, ahead, recipe.train.workers, args.dataloader_prefetch_factor or 2)
    logger.info(
        "each step asks %s puzzle(s) for %s completions of up to %s tokens each; %s steps",
        rollout.puzzles, rollout.completions, args.max_completion_length, steps,
    )  # fmt: skip
    batches = PromptBatches(order, rollouts, rollout)
    engine = None if args.use_vllm else OwnEngine(recipe, loaded, Drawing(args.temperature, args.top_p))
    trainer = PromptTrainer(recipe, loaded, mixture, batches, found, engine, args)
    evaluation = EvalCallback(trainer, recipe, loaded, checkpoint_mixture, final_mixture, Scores())
    alarms = Alarms(recipe, Points(Path(recipe.output_dir)))
    return equipped(Prepared(recipe, trainer, evaluation, checkpoint), [alarms])


if __name__ == "__main__":
    main(__file__, prepare)
