"""What a training process holds on its GPU, by arithmetic and by tracing: no weights, no GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from models.load import Loaded
from recipes.schema import Recipe
from train.head import CHUNK_BYTES
from train.traced import Load, Phases, trace

GRADIENT_BYTES = 4
"""Per trained parameter."""
ADAMW_BYTES = 8
"""Of the optimizer's two moments, per trained parameter."""
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

    @property
    def standing(self) -> int:
        """What is there all the time."""
        return self.weights + self.gradients + self.optimizer + self.buckets + self.gathered

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


def standing_memory(model: nn.Module, sharding: str, processes: int) -> Memory:
    """Without any activations.

    Args:
        model: as `train_towers` leaves it, of any device.
        sharding: a key of DIVIDED.
    """
    parameters = list(model.parameters())
    trained = sum(parameter.numel() for parameter in parameters if parameter.requires_grad)
    sizes = {
        "weights": sum(parameter.numel() * parameter.element_size() for parameter in parameters),
        "gradients": GRADIENT_BYTES * trained,
        "optimizer": ADAMW_BYTES * trained,
    }
    shares = {name: -(-size // processes) if name in DIVIDED[sharding] else size for name, size in sizes.items()}
    return Memory(
        **shares,
        buckets=GRADIENT_BYTES * trained if sharding == "ddp" else 0,
        gathered=_gathered(model) if "weights" in DIVIDED[sharding] else 0,
        forward=0, backward=0, head=0, kept=0,
    )  # fmt: skip


def _gathered(model: nn.Module) -> int:
    """What belongs to no block is whole throughout; of blocks, the one in use and the next."""
    names = {name for module in model.modules() for name in getattr(module, "_no_split_modules", None) or ()}
    blocks = [module for module in model.modules() if type(module).__name__ in names]
    inside = {id(parameter) for block in blocks for parameter in block.parameters()}
    rest = sum(_bytes(parameter) for parameter in model.parameters() if id(parameter) not in inside)
    return rest + 2 * max((sum(map(_bytes, block.parameters())) for block in blocks), default=0)


def _bytes(parameter: nn.Parameter) -> int:
    return parameter.numel() * parameter.element_size()


@dataclass(frozen=True)
class Head:
    """Bytes of the LM head and its loss, as `train.head.linear_nll` computes them."""

    forward: int
    kept: int
    """Gradients that are computed beside the loss and wait for the backward pass."""


def head_memory(answer: int, hidden: int, vocabulary: int, *, trained: bool, wide: bool, bf16: bool) -> Head:
    """
    Args:
        answer: tokens that it scores.
        trained: whether its weight is.
        wide: whether its weight is float32.
        bf16: under autocast.
    """
    rows = min(answer, max(1, CHUNK_BYTES // (4 * vocabulary)))
    width = 2 if bf16 or not wide else 4
    states = answer * hidden * width
    kept = states + (4 * vocabulary * hidden if trained else 0)
    copied = vocabulary * hidden * 2 if bf16 and wide else 0  # the weight in 16 bits
    chunk = rows * vocabulary * (4 if width == 4 else 2 + 4)  # products, and logits in float32
    return Head(states + copied + chunk + kept, kept)


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
        vision.kept + language.kept + head.kept,
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
    model, text = loaded.model, loaded.model.config.text_config
    bf16 = recipe.train.precision == "bf16"
    vision, language = trace(loaded, load, bf16=bf16, checkpointing=checkpointing_of(recipe))
    weight, embedding = model.get_output_embeddings().weight, model.get_input_embeddings().weight
    head = head_memory(
        load.answer, text.hidden_size, text.vocab_size,
        trained=weight.requires_grad, wide=weight.element_size() == 4, bf16=bf16,
    )  # fmt: skip
    embeddings = embedding.numel() * GRADIENT_BYTES if embedding.requires_grad else 0
    return composed(standing_memory(model, sharding, processes), vision, language, head, embeddings)


def checkpointing_of(recipe: Recipe) -> Mapping[str, Any] | None:
    """The arguments of gradient checkpointing; None where the recipe has none of it."""
    if not recipe.trainer.get("gradient_checkpointing", False):
        return None
    return recipe.trainer.get("gradient_checkpointing_kwargs") or {}


def check_memory(memory: Memory, gpu_bytes: int | None) -> None:
    """Refuse what surely exceeds one GPU, before the weights are loaded.

    Args:
        gpu_bytes: memory of one GPU; None on a CPU, where nothing is refused.

    Raises:
        ValueError: it cannot fit.
    """
    if gpu_bytes is None or memory.surely <= gpu_bytes:
        return
    gib = 2**30
    raise ValueError(
        f"got a model that needs {memory.standing / gib:.1f} GiB per GPU for weights, gradients and AdamW state, and "
        f"about {memory.activations / gib:.1f} GiB more for its largest micro-batch; allowed: the "
        f"{gpu_bytes / gib:.1f} GiB of a GPU here; do ask what would fit: python -m train.plan recipe=... (for "
        "instance train.method=lora, train.towers.vision.method=frozen, or fewer train.max_pack_tokens)"
    )
