"""What a training process holds on its GPU, by arithmetic and by tracing: no weights, no GPU."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from models.load import Loaded
from models.outline import outline
from models.towers import train_towers
from recipes.schema import Recipe
from train.head_memory import Head, log_prob_head, loss_head
from train.parameters import GRADIENT_BYTES, training_state
from train.traced import Load, Phases, trace

DIVIDED = {
    "none": (),
    "ddp": (),
    "zero2": ("gradients", "optimizer"),
    "zero3": ("weights", "gradients", "optimizer"),
    "fsdp2": ("weights", "gradients", "optimizer"),
}
"""train.sharding -> what each process holds one share of; the rest it holds whole."""
OVERHEAD_BYTES = 2 * 2**30
"""CUDA's context, NCCL's buffers and the allocator's gaps, about; not counted in any figure below."""
VLLM_UTILIZATION = 0.3
"""Of a GPU, what TRL has vLLM take where a recipe says nothing."""
logger = logging.getLogger(__name__)

TRUSTED = 0.9
"""Traced bytes times this are surely needed: what is refused must be sure."""


@dataclass(frozen=True)
class Memory:
    """Bytes on one GPU."""

    weights: int
    gradients: int
    optimizer: int
    buckets: int
    """DDP's own copy of the gradients, in which they are summed over processes."""
    gathered: int
    """Sharded weights that are whole while they are used."""
    forward: int
    """Most activations at once before the backward pass, the head's included."""
    backward: int
    """Most activations at once in the backward pass."""
    head: int
    """Of the LM head and its loss, a chunk of logits included; a part of `forward`."""
    kept: int
    """Activations that wait for the backward pass; a part of both."""
    reference: int = 0
    """What a GRPO run's KL is measured from: a second model, or a second adapter."""
    vllm: int = 0
    """What a colocated vLLM takes for itself."""

    @property
    def standing(self) -> int:
        """What is there all the time."""
        return self.between_steps + self.gradients + self.gathered

    @property
    def between_steps(self) -> int:
        """What is there while no step is computed, where gradients are gone and nothing is gathered."""
        return self.weights + self.optimizer + self.buckets + self.reference + self.vllm

    @property
    def activations(self) -> int:
        return max(self.forward, self.backward)

    @property
    def peak(self) -> int:
        return self.standing + self.activations

    @property
    def surely(self) -> int:
        """The least that it can be."""
        return self.standing + int(TRUSTED * self.activations)

    def fits(self, gpu_bytes: int) -> bool:
        return self.peak + OVERHEAD_BYTES <= gpu_bytes


def standing_memory(loaded: Loaded, sharding: str, processes: int, *, bf16: bool) -> Memory:
    """Without any activations.

    Args:
        loaded: with a model as `train_towers` leaves it, of any device.
        sharding: a key of DIVIDED.
        bf16: sharded weights are gathered in 16 bits.
    """
    state = training_state(loaded.model)
    shares = {name: -(-size // processes) if name in DIVIDED[sharding] else size for name, size in vars(state).items()}
    return Memory(
        **shares,
        buckets=state.gradients if sharding == "ddp" else 0,
        gathered=_gathered(loaded, 2 if bf16 else 4) if "weights" in DIVIDED[sharding] else 0,
        forward=0, backward=0, head=0, kept=0,
    )  # fmt: skip


def _gathered(loaded: Loaded, width: int) -> int:
    """Of layers, embeddings and head, which are gathered one by one, the largest and the next; the rest throughout."""
    model = loaded.model
    units = [module for module in model.modules() if type(module).__name__ in loaded.family.layers]
    units += [model.get_input_embeddings(), model.get_output_embeddings()]
    inside = {id(parameter) for unit in units for parameter in unit.parameters()}
    rest = sum(parameter.numel() for parameter in model.parameters() if id(parameter) not in inside)
    return width * (rest + 2 * max(sum(parameter.numel() for parameter in unit.parameters()) for unit in units))


def composed(standing: Memory, vision: Phases, language: Phases, head: Head, embeddings: int) -> Memory:
    """The towers one after another, and backwards.

    Args:
        embeddings: bytes of the gradient of the embeddings, made last of the language tower's.
    """
    forward = max(
        vision.forward,
        vision.held + language.forward,
        vision.held + language.held + head.forward,
    )
    backward = max(
        vision.kept + language.kept + head.backward,
        vision.kept + language.backward,
        vision.kept + embeddings,
        vision.backward,
    )
    kept = vision.kept + language.kept
    return Memory(**{**vars(standing), "forward": forward, "backward": backward, "head": head.forward, "kept": kept})


def training_memory(loaded: Loaded, recipe: Recipe, sharding: str, processes: int, load: Load) -> Memory:
    """Of one process, at the most, in a step with such micro-batches.

    Args:
        loaded: a model on the meta device, as `train_towers` leaves it.
        load: no micro-batch of the run has more of anything.
    """
    bf16 = recipe.train.precision == "bf16"
    narrow = _narrow(recipe, sharding)
    vision, language = trace(loaded, load, bf16=bf16, narrow=narrow, checkpointing=checkpointing_of(recipe))
    embedding = loaded.model.get_input_embeddings().weight
    head = head_of(loaded, recipe, sharding, load.answer)
    embeddings = embedding.numel() * GRADIENT_BYTES if embedding.requires_grad else 0
    standing = standing_memory(loaded, sharding, processes, bf16=bf16)
    standing = replace(standing, reference=reference_memory(loaded, recipe))
    return composed(standing, vision, language, head, embeddings)


def _narrow(recipe: Recipe, sharding: str) -> bool:
    """Whether weights are gathered in 16 bits."""
    return recipe.train.precision == "bf16" and sharding in ("fsdp2", "zero3")


def head_of(loaded: Loaded, recipe: Recipe, sharding: str, answer: int) -> Head:
    """Of a micro-batch, by what its answers are trained for.

    Args:
        answer: tokens that reach the head.
    """
    model, text = loaded.model, loaded.model.config.text_config
    weight, embedding = model.get_output_embeddings().weight, model.get_input_embeddings().weight
    bf16, narrow = recipe.train.precision == "bf16", _narrow(recipe, sharding)
    if recipe.reward is None:
        return loss_head(
            answer, text.hidden_size, text.vocab_size,
            trained=weight.requires_grad, wide=weight.element_size() == 4 and not narrow, bf16=bf16,
        )  # fmt: skip
    return log_prob_head(
        answer, text.hidden_size, text.vocab_size,
        trained=weight.requires_grad,
        weight_width=2 if narrow and sharding != "fsdp2" else weight.element_size(),
        states_width=2 if narrow else embedding.element_size(),
        gathered=sharding == "fsdp2",
        tiled=not recipe.rollouts.constrained,
        bf16=bf16,
    )  # fmt: skip


def reference_memory(loaded: Loaded, recipe: Recipe) -> int:
    """Bytes of what a GRPO run's KL is measured from, see `train.reference`; 0 where nothing is."""
    if not recipe.trainer.get("beta"):
        return 0
    parameters = list(loaded.model.parameters())
    if "lora" in recipe.train.methods().values():  # TRL's copy of the adapter
        return sum(parameter.nbytes for parameter in parameters if parameter.requires_grad)
    return (2 if recipe.train.precision == "bf16" else 4) * sum(parameter.numel() for parameter in parameters)


def vllm_memory(recipe: Recipe, gpu_bytes: int) -> int:
    """Bytes that a colocated vLLM takes of each GPU; 0 where none runs there."""
    trainer = recipe.trainer
    if recipe.reward is None or not trainer.get("use_vllm") or trainer.get("vllm_mode", "colocate") != "colocate":
        return 0
    return int(trainer.get("vllm_gpu_memory_utilization", VLLM_UTILIZATION) * gpu_bytes)


def checkpointing_of(recipe: Recipe) -> Mapping[str, Any] | None:
    """The arguments of gradient checkpointing; None where the recipe has none of it."""
    if not recipe.trainer.get("gradient_checkpointing", False):
        return None
    return recipe.trainer.get("gradient_checkpointing_kwargs") or {}


def check_activations(recipe: Recipe, sharding: str, processes: int, load: Load, gpu_bytes: int) -> None:
    """Refuse a run whose largest micro-batch surely exceeds one GPU, before its first step.

    Args:
        load: no micro-batch of the run has more of anything.
        gpu_bytes: memory of one GPU.

    Raises:
        ValueError: it cannot fit.
    """
    loaded = train_towers(outline(recipe.model).loaded, recipe.train)
    memory = training_memory(loaded, recipe, sharding, processes, load)
    memory = replace(memory, vllm=vllm_memory(recipe, gpu_bytes))
    standing, activations, there = (size / 2**30 for size in (memory.standing, memory.activations, gpu_bytes))
    logger.info("memory per GPU: about %.1f GiB and %.1f GiB of activations at the peak", standing, activations)
    if memory.surely > gpu_bytes:
        smaller = "train.max_pack_tokens" if recipe.reward is None else "train.micro_batch lower"
        beside = {"what KL is measured from": memory.reference, "a colocated vLLM": memory.vllm}
        held = ", ".join(["weights, gradients and AdamW state", *(name for name, size in beside.items() if size)])
        raise ValueError(
            f"train.sharding: got {sharding}, with which a process needs {standing:.1f} GiB for {held}, "
            f"and about {activations:.1f} GiB more for the largest micro-batch; a GPU here has "
            f"{there:.1f} GiB; set {smaller}, train.method=lora or trainer.gradient_checkpointing=true, or "
            "ask what would fit: python -m train.plan recipe=..."
        )
