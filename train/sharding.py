"""How a run is spread over its processes: decided by arithmetic, set up in-process, whatever the launch."""

from __future__ import annotations

import logging
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import nn
from transformers import set_seed
from trl import SFTConfig

from models.load import Loaded, load_model, load_weights_into
from models.sharded import shard
from models.towers import load_dtype, train_towers
from recipes.schema import Recipe
from train.parameters import TrainingState, training_state
from train.sharded_state import FOLDER
from train.zero import leave_loading_alone, place

logger = logging.getLogger(__name__)

DDP_SHARE = 0.6
"""Most of a GPU that weights, gradients and optimizer state may take where each process holds all of them: the rest is
for activations."""

ONE_NODE = "accelerate launch --config_file launch/accelerate/one_node.yaml SCRIPT ..."


def check_sharding(recipe: Recipe, processes: int, environment: dict[str, str]) -> None:
    """Refuse a way of running that the recipe did not ask for, before anything is loaded.

    Raises:
        ValueError: `train.sharding` and the launch do not fit.
    """
    launched = {"ACCELERATE_USE_FSDP": ("FSDP", "fsdp2"), "ACCELERATE_USE_DEEPSPEED": ("DeepSpeed", "zero3")}
    for variable, (name, sharding) in launched.items():
        if environment.get(variable, "false").lower() in ("true", "1"):
            raise ValueError(
                f"got a launch with {name}; allowed is one that only starts processes, for the recipe says how they "
                f"share the model; set train.sharding={sharding} and launch without it: {ONE_NODE}"
            )
    sharding = recipe.train.sharding
    if sharding == "none" and processes > 1:
        raise ValueError(
            f"train.sharding: got none on {processes} processes; allowed: auto, ddp, fsdp2, zero2, zero3; set "
            "train.sharding=auto, or launch one process: accelerate launch --num_processes 1 ..."
        )
    if sharding not in ("auto", "none") and processes == 1:
        raise ValueError(
            f"train.sharding: got {sharding} on one process; it needs several; launch them: {ONE_NODE}, or set "
            "train.sharding=auto. (On CPU, accelerate starts several processes only with launch/accelerate/cpu2.yaml.)"
        )
    methods, checkpointing = recipe.train.methods(), recipe.trainer.get("gradient_checkpointing", False)
    if sharding == "zero3" and methods["vision"] == "lora" and checkpointing:
        raise ValueError(
            "train.sharding: got zero3 with trainer.gradient_checkpointing=true and adapters on the vision tower; they "
            "would get no gradient, because TRL checkpoints adapters under ZeRO-3 reentrantly; allowed: auto, ddp, "
            "fsdp2, zero2; set train.sharding=fsdp2"
        )


def lacks_deepspeed(sharding: str) -> bool:
    """Whether a way of sharding needs the deepspeed package, and this machine has none."""
    return sharding.startswith("zero") and find_spec("deepspeed") is None


def check_deepspeed(sharding: str) -> None:
    """Apart from `check_sharding`, for a run is also planned on machines that it will not run on.

    Raises:
        ValueError: see `lacks_deepspeed`.
    """
    if lacks_deepspeed(sharding):
        raise ValueError(
            f"train.sharding: got {sharding}, which needs the deepspeed package; allowed here: auto, ddp, fsdp2; "
            "install it (pip install -e '.[deepspeed]'), or set train.sharding=fsdp2"
        )


def choose_sharding(asked: str, processes: int, state_bytes: int, gpu_bytes: int | None) -> str:
    """What `train.sharding` comes to: none, ddp, fsdp2, zero2 or zero3.

    Args:
        state_bytes: weights, gradients and optimizer state of the whole model.
        gpu_bytes: memory of one GPU; None on a CPU.
    """
    if asked != "auto":
        return asked
    if processes == 1:
        return "none"
    return "ddp" if gpu_bytes is None or state_bytes <= DDP_SHARE * gpu_bytes else "fsdp2"


def in_lockstep(sharding: str) -> bool:
    """Whether processes wait for each other in every micro-batch, and not only when a step ends.

    They do where they gather each other's weights, and under ZeRO-2, which reduces gradients in every backward pass
    because no process keeps all of them.
    """
    return sharding in ("fsdp2", "zero2", "zero3")


def bytes_per_process(sharding: str, processes: int, state: TrainingState) -> int:
    """What one process holds between steps of weights, gradients and optimizer state."""
    whole = {"none": state.total, "ddp": state.total, "zero2": state.weights}.get(sharding, 0)
    return whole + (state.total - whole) // processes


def check_memory(sharding: str, processes: int, state: TrainingState, gpu_bytes: int | None) -> None:
    """Refuse a model whose training state alone exceeds the GPUs, before its weights are read.

    Args:
        gpu_bytes: memory of one GPU; None on a CPU, where nothing is refused.

    Raises:
        ValueError: it cannot fit. That it fits with its activations is not said.
    """
    needed = bytes_per_process(sharding, processes, state)
    if gpu_bytes is None or needed <= gpu_bytes:
        return
    gib = 2**30
    enough = -(-state.total // int(DDP_SHARE * gpu_bytes))
    raise ValueError(
        f"train.sharding: got {sharding} on {processes} process(es), each of which needs {needed / gib:.1f} GiB for "
        f"weights, gradients and AdamW state, and a GPU here has {gpu_bytes / gib:.1f} GiB; all of it together is "
        f"{state.total / gib:.1f} GiB; launch {enough} processes or more on as many GPUs with train.sharding=auto "
        f"({ONE_NODE}), or set train.method=lora, freeze towers (train.towers.vision.method=frozen), or choose a "
        "smaller model"
    )


def check_resume(checkpoint: Path, sharding: str) -> None:
    """Refuse a checkpoint whose optimizer state is laid out for another sharding.

    Raises:
        ValueError: it is.
    """
    wrote = "fsdp2" if (checkpoint / FOLDER).is_dir() else "zero" if any(checkpoint.glob("global_step*")) else "ddp"
    reads = {"none": "ddp", "zero2": "zero", "zero3": "zero"}.get(sharding, sharding)
    if wrote != reads:
        named = {"ddp": "ddp (none on one process)", "zero": "zero2 or zero3"}.get(wrote, wrote)
        raise ValueError(
            f"train.sharding: got {sharding}, but the optimizer state in {checkpoint} was written with {named}; resume "
            f"with train.sharding={'zero3' if wrote == 'zero' else wrote}, or start a new run from its weights: "
            f"model.pretrained={checkpoint} output_dir=..."
        )


def load_for_training(
    recipe: Recipe, checkpoint: Path | None, device: torch.device, rank: int, processes: int
) -> tuple[Loaded, str]:
    """The model of a recipe with its towers set up, and the sharding that it will have.

    Where the model is to be sharded, only the first process reads weights: the others' parameters are on the meta
    device until `spread` sends them theirs.

    Args:
        checkpoint: what the run will continue from.

    Raises:
        ValueError: it cannot fit, or see `check_resume`, `models.load.load_model` and `models.towers.train_towers`.
    """

    def load(*, empty: bool) -> Loaded:
        flash = recipe.train.precision == "bf16" and device.type == "cuda"
        log = logger.info if empty else logger.debug  # once
        dtype = load_dtype(recipe.train)
        loaded = load_model(recipe.model, seed=recipe.seed, dtype=dtype, flash=flash, empty=empty, log=log)
        set_seed(recipe.seed)
        return train_towers(loaded, recipe.train)

    leave_loading_alone()
    loaded = load(empty=True)
    state = training_state(loaded.model)
    gpu_bytes = torch.cuda.mem_get_info()[1] if device.type == "cuda" else None
    sharding = choose_sharding(recipe.train.sharding, processes, state.total, gpu_bytes)
    check_memory(sharding, processes, state, gpu_bytes)
    if checkpoint:
        check_resume(checkpoint, sharding)
    logger.info(
        "sharding %s over %s process(es): each holds %.2f GiB of weights, gradients and AdamW state",
        sharding, processes, bytes_per_process(sharding, processes, state) / 2**30,
    )  # fmt: skip
    if _is_empty(loaded.model) and (rank == 0 or sharding not in ("fsdp2", "zero3")):
        loaded = load(empty=False)
    if recipe.train.start is not None and not _is_empty(loaded.model):
        load_weights_into(loaded.model, recipe.train.start)
        logger.info("training starts from the weights in %s", recipe.train.start)
    return loaded, sharding


def spread(recipe: Recipe, loaded: Loaded, sharding: str, args: SFTConfig) -> None:
    """Give each process what it holds of the model, in place, where the trainer does not do so by itself."""
    if sharding == "fsdp2":
        shard(loaded.model, loaded.family, args.device, bf16=recipe.train.precision == "bf16")
    elif sharding.startswith("zero"):
        place(loaded.model, args)


def _is_empty(model: nn.Module) -> bool:
    return any(parameter.is_meta for parameter in model.parameters())
