"""The recipe as TRL's SFTConfig: what we own is set here, the rest is the recipe's `trainer:` verbatim."""

from __future__ import annotations

import torch
from trl import SFTConfig

from recipes.schema import Recipe


def accumulation_steps(recipe: Recipe, processes: int) -> int:
    """Micro-batches per optimizer step and process.

    Raises:
        ValueError: effective_batch is not micro_batch x processes x a whole number.
    """
    train = recipe.train
    per_pass = train.micro_batch * processes
    if train.effective_batch % per_pass:
        near = max(per_pass, round(train.effective_batch / per_pass) * per_pass)
        raise ValueError(
            f"train.effective_batch: got {train.effective_batch} with micro_batch {train.micro_batch} on {processes} "
            f"process(es); it must be a multiple of micro_batch x processes = {per_pass}; "
            f"set train.effective_batch={near}, or another train.micro_batch"
        )
    return train.effective_batch // per_pass


def check_sharding(recipe: Recipe, processes: int, environment: dict[str, str]) -> None:
    """Refuse a way of running that the recipe did not ask for, before anything is loaded.

    Raises:
        ValueError: `train.sharding` and the launch do not fit.
    """
    asked = {"ACCELERATE_USE_FSDP": "FSDP", "ACCELERATE_USE_DEEPSPEED": "DeepSpeed"}
    for variable, name in asked.items():
        if environment.get(variable, "false").lower() in ("true", "1"):
            raise ValueError(
                f"got a launch with {name}; the recipe's train.sharding may be none or ddp; "
                "launch without it, for instance: accelerate launch --num_processes 1 train/sft.py ..."
            )
    sharding = recipe.train.sharding
    if sharding == "none" and processes > 1:
        raise ValueError(
            f"train.sharding: got none on {processes} processes; allowed: ddp; set train.sharding=ddp, or launch one "
            "process: accelerate launch --num_processes 1 ..."
        )
    if sharding == "ddp" and processes == 1:
        raise ValueError(
            "train.sharding: got ddp on one process; it needs several; launch them, for instance "
            "accelerate launch --config_file launch/accelerate/one_node.yaml ..., or set train.sharding=none. "
            "(On CPU, accelerate starts several processes only with launch/accelerate/cpu2.yaml.)"
        )


def sft_arguments(recipe: Recipe, processes: int) -> SFTConfig:
    """TRL's arguments for a recipe.

    Args:
        processes: training processes over all machines.
    """
    train = recipe.train
    owned = {
        "output_dir": recipe.output_dir,
        "per_device_train_batch_size": train.micro_batch,
        "gradient_accumulation_steps": accumulation_steps(recipe, processes),
        "bf16": train.precision == "bf16",
        "use_cpu": not torch.cuda.is_available(),
        "save_strategy": "steps",
        "save_steps": train.checkpoint_every,
        "seed": recipe.seed,
        "data_seed": recipe.seed,
        "dataloader_num_workers": train.workers,
        "dataloader_pin_memory": torch.cuda.is_available(),
        "max_length": None,
        "packing": False,
        "remove_unused_columns": False,
        "report_to": [] if recipe.wandb.mode == "disabled" else ["wandb"],
        "run_name": recipe.name,
        "disable_tqdm": True,  # the progress bar is train.progress
    }
    defaults = {
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "gradient_checkpointing": False,
        "lr_scheduler_type": "cosine",
    }
    return SFTConfig(**{**defaults, **recipe.trainer, **owned})
