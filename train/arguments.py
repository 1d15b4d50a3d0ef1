"""The recipe as TRL's SFTConfig or GRPOConfig: what we own is set here, the rest is its `trainer:` verbatim."""

from __future__ import annotations

import logging
import os
from typing import Any, TypeVar

import torch
from transformers import TrainingArguments
from trl import GRPOConfig, SFTConfig

from recipes.schema import Recipe
from train.zero import zero_config

logger = logging.getLogger(__name__)

Arguments = TypeVar("Arguments", bound=TrainingArguments)

_DEFAULTS = {"logging_steps": 1, "logging_nan_inf_filter": False, "gradient_checkpointing": False}
"""Of both configs, where TRL's are others."""


def accumulation_steps(recipe: Recipe, processes: int) -> int:
    """Plain micro-batches per optimizer step and process.

    Raises:
        ValueError: effective_batch is not micro_batch x processes x a whole number.
    """
    train = recipe.train
    per_pass = train.micro_batch * processes
    if train.effective_batch % per_pass:
        smaller = [m for m in range(train.micro_batch, 0, -1) if train.effective_batch % (m * processes) == 0]
        near = max(per_pass, round(train.effective_batch / per_pass) * per_pass)
        raise ValueError(
            f"train.effective_batch: got {train.effective_batch} with micro_batch {train.micro_batch} on {processes} "
            f"process(es); it must be a multiple of micro_batch x processes = {per_pass}; set "
            + (f"train.micro_batch={smaller[0]}" if smaller else f"train.effective_batch={near}")
        )
    return train.effective_batch // per_pass


def sft_arguments(recipe: Recipe, processes: int) -> SFTConfig:
    """TRL's arguments for a recipe.

    Args:
        processes: training processes over all machines.
    """
    if recipe.train.batching == "plain":
        accumulation_steps(recipe, processes)  # refuses at once what cannot be divided
    owned = {
        **_owned(recipe),
        "gradient_accumulation_steps": 1,  # PuzzleTrainer knows the number
        "max_length": None,
        "packing": False,
    }
    defaults = {**_DEFAULTS, "lr_scheduler_type": "cosine"}
    return _on_one_gpu(SFTConfig(**{**defaults, **recipe.trainer, **owned}))


def grpo_arguments(recipe: Recipe, processes: int) -> GRPOConfig:
    """TRL's arguments for a recipe with a reward: every step draws its own effective_batch completions.

    Args:
        processes: training processes over all machines.

    Raises:
        ValueError: effective_batch is not micro_batch x processes x a whole number.
    """
    steps = accumulation_steps(recipe, processes)
    owned = {
        **_owned(recipe),
        "gradient_accumulation_steps": steps,
        "steps_per_generation": steps,
        "max_completion_length": recipe.model.max_tokens,  # until the puzzles are measured
        "shuffle_dataset": False,
    }
    return _on_one_gpu(GRPOConfig(**{**_DEFAULTS, **recipe.trainer, **owned}))


def _owned(recipe: Recipe) -> dict[str, Any]:
    """What no recipe may give under `trainer:`, in both configs."""
    train = recipe.train
    on_cpu = os.environ.get("ACCELERATE_USE_CPU", "false").lower() == "true" or not torch.cuda.is_available()
    return {
        "output_dir": recipe.output_dir,
        "per_device_train_batch_size": train.micro_batch,
        "deepspeed": zero_config(train.sharding),
        "bf16": train.precision == "bf16",
        "use_cpu": on_cpu,
        "save_strategy": "steps",
        "save_steps": train.checkpoint_every,
        "seed": recipe.seed,
        "data_seed": recipe.seed,
        "dataloader_num_workers": train.workers,
        # a mixture is shared with its workers, not pickled; from Python 3.14 on fork is no longer the default
        "dataloader_multiprocessing_context": "fork" if train.workers else None,
        "dataloader_pin_memory": not on_cpu,
        "remove_unused_columns": False,
        "report_to": [],  # eval_hooks.wandb_points does
        "run_name": recipe.name,
        "disable_tqdm": True,  # the progress bar is train.progress
        # what waits for a process that stalls is to show its stacks before its collective gives up
        "ddp_timeout": 1800 + (train.stall_timeout_s or 0),
    }


def _on_one_gpu(args: Arguments) -> Arguments:
    """The library would split each micro-batch over all GPUs that it sees with nn.DataParallel."""
    if args.n_gpu > 1:
        logger.warning(
            "this one process sees %s GPUs and uses the first; to use them all, launch a process for each: "
            "accelerate launch --config_file launch/accelerate/one_node.yaml ...", args.n_gpu,
        )  # fmt: skip
        args._n_gpu = 1
    return args
