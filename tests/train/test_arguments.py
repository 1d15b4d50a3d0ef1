"""What TRL is told: the recipe's own fields, `trainer:` verbatim, and TRL's defaults."""

import re

import pytest
from trl import GRPOConfig

from recipes.loader import load_recipe
from train.arguments import grpo_arguments, sft_arguments

GRPO = ("recipe=quickstart", "reward={}", "train.predictable_weight=1", "wandb.mode=disabled", "trainer=null")


@pytest.fixture(autouse=True)
def one_process(in_tmp_path, monkeypatch):
    """Nothing of a launch around these tests."""
    for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)


def grpo(*overrides, processes=1):
    return grpo_arguments(load_recipe([*GRPO, *overrides]), processes)


def test_a_step_asks_its_own_completions_once_and_accumulates_them():
    args = grpo("train.effective_batch=64", "train.micro_batch=4")
    assert args.per_device_train_batch_size == 4
    assert args.gradient_accumulation_steps == args.steps_per_generation == 16
    assert args.generation_batch_size == 64
    assert args.num_generations == 8
    assert args.max_completion_length == 2048  # until the puzzles are measured
    assert args.shuffle_dataset is False


def test_processes_share_a_step_s_completions():
    args = grpo("train.effective_batch=64", "train.micro_batch=4", processes=2)
    assert args.gradient_accumulation_steps == args.steps_per_generation == 8


def test_an_effective_batch_that_the_processes_cannot_share_is_refused_in_grpo_too():
    said = "it must be a multiple of micro_batch x processes = 32; set train.micro_batch=12"
    with pytest.raises(ValueError, match=re.escape(said)):
        grpo("train.effective_batch=48", "train.micro_batch=16", processes=2)


def test_what_neither_recipe_nor_we_set_is_trl_s():
    args, trl = grpo("train.precision=bf16"), GRPOConfig(output_dir="x", use_cpu=True)
    for name in (
        "learning_rate", "lr_scheduler_type", "loss_type", "scale_rewards", "beta", "epsilon", "num_iterations",
        "temperature", "top_k", "use_vllm", "mask_truncated_completions", "importance_sampling_level", "bf16",
        "reward_weights", "multi_objective_aggregation", "entropy_coef", "top_entropy_quantile", "weight_decay",
    ):  # fmt: skip
        assert getattr(args, name) == getattr(trl, name), name
    assert args.learning_rate == 1e-6


def test_trainer_goes_verbatim_to_trl():
    args = grpo(
        "trainer={learning_rate: 1e-4, num_generations: 4, loss_type: dr_grpo, scale_rewards: none, beta: 0.01, "
        "temperature: 0.7, lr_scheduler_type: cosine, max_steps: 9, logging_steps: 5}"
    )
    assert (args.learning_rate, args.num_generations, args.loss_type) == (1e-4, 4, "dr_grpo")
    assert (args.scale_rewards, args.beta, args.temperature) == ("none", 0.01, 0.7)
    assert (args.lr_scheduler_type, args.max_steps, args.logging_steps) == ("cosine", 9, 5)


def test_both_trainers_are_told_the_same_of_what_both_have():
    asked = ("train.checkpoint_every=7", "train.workers=2", "seed=5", "train.stall_timeout_s=60", "name=mine")
    args = grpo(*asked)
    other = sft_arguments(load_recipe(["recipe=quickstart", "wandb.mode=disabled", "trainer=null", *asked]), 1)
    for name in (
        "output_dir", "per_device_train_batch_size", "deepspeed", "bf16", "use_cpu", "save_strategy", "save_steps",
        "seed", "data_seed", "dataloader_num_workers", "dataloader_multiprocessing_context", "dataloader_pin_memory",
        "run_name", "remove_unused_columns", "report_to", "disable_tqdm", "ddp_timeout", "logging_steps",
        "logging_nan_inf_filter", "gradient_checkpointing", "trust_remote_code",
    ):  # fmt: skip
        assert getattr(args, name) == getattr(other, name), name
    assert (args.save_steps, args.seed, args.ddp_timeout, args.run_name) == (7, 5, 1860, "mine")
    assert (args.logging_steps, args.report_to, args.bf16) == (1, [], False)


def test_supervised_training_keeps_its_schedule_and_never_cuts():
    args = sft_arguments(load_recipe(["recipe=quickstart", "wandb.mode=disabled", "trainer=null"]), 1)
    assert args.lr_scheduler_type == "cosine"
    assert args.max_length is None
    assert args.packing is False
    assert args.gradient_accumulation_steps == 1
