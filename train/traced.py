"""Bytes that a model's towers hold while they compute, traced on tensors without values: nothing is allocated.

Each tower's own forward and backward code runs, operation by operation, on PyTorch's fake tensors, and what is alive is
counted. So every way to train a model, and every version of it, is measured by the same few lines.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from models.load import Loaded
from models.towers import leave_inputs_alone


class Load(NamedTuple):
    """What one process computes in one micro-step."""

    rows: int
    length: int
    """Tokens of each row; of a pack, of all its examples."""
    patches: int
    """Of all its images."""
    answer: int
    """Tokens that reach the LM head."""

    @property
    def tokens(self) -> int:
        return self.rows * self.length


class Phases(NamedTuple):
    """Bytes alive above weights, gradients and optimizer state."""

    forward: int
    """Most at once in the forward pass."""
    held: int
    """At its end, with the 16-bit copies of trained weights, which autocast keeps until the whole model is through."""
    kept: int
    """Of that, what the backward pass needs."""
    backward: int
    """Most at once in the backward pass."""


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of all tensors that are made while it is entered, and that are alive."""

    def __init__(self, present: Iterable[torch.Tensor]) -> None:
        """
        Args:
            present: tensors that are there already, views of which are not new bytes.
        """
        super().__init__()
        self.now = self.peak = 0
        self._known = {tensor.untyped_storage()._cdata for tensor in present}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for value in tree_leaves(out):
            if isinstance(value, torch.Tensor):
                self._add(value.untyped_storage())
        return out

    def _add(self, storage: torch.UntypedStorage) -> None:
        address, size = storage._cdata, storage.nbytes()
        if address in self._known:
            return
        self._known.add(address)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._freed, address, size)

    def _freed(self, address: int, size: int) -> None:
        self._known.discard(address)
        self.now -= size

    def restart(self) -> int:
        """The peak since the last call; the next one counts from what is alive."""
        peak, self.peak = self.peak, self.now
        return peak


def trace(
    loaded: Loaded, load: Load, *, bf16: bool, narrow: bool, checkpointing: Mapping[str, Any] | None
) -> tuple[Phases, Phases]:
    """(vision tower with projector, language tower without embeddings and head) of one micro-batch.

    Every trained parameter is taken to have a gradient already, as in all micro-steps but a step's first.

    Args:
        loaded: a model on the meta device, as `train_towers` leaves it; it stays as it is.
        bf16: under autocast, as training does.
        narrow: with all weights in bfloat16, as they are gathered where they are sharded.
        checkpointing: the arguments of gradient checkpointing; None: without it.
    """
    text = loaded.model.config.text_config
    model: Any = copy.deepcopy(loaded.model).train()
    with FakeTensorMode():
        _to_fake(model, torch.bfloat16 if narrow else None)
        if checkpointing is not None:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=dict(checkpointing) or None)
            if not checkpointing.get("use_reentrant"):
                leave_inputs_alone(model)
        tower = next(module for name, module in model.named_modules() if name.endswith("language_model"))
        residual = model.get_input_embeddings().weight.dtype
        mask = loaded.family.mask(model.config, load.rows, load.length)

        def speak() -> list[torch.Tensor]:
            states = torch.empty(load.rows, load.length, text.hidden_size, dtype=residual, requires_grad=True)
            return [tower(inputs_embeds=states, attention_mask=mask, use_cache=False).last_hidden_state]

        if mask is None and text._attn_implementation == "sdpa":
            model.set_attn_implementation({"text_config": _UNMASKED})
        with LiveBytes([*model.parameters(), *model.buffers()]) as live:
            for parameter in model.parameters():
                if parameter.requires_grad:
                    parameter.grad = torch.empty_like(parameter)
            seen = _phases(live, lambda: loaded.family.see(model, load.patches), bf16) if load.patches else _NOTHING
            return seen, _through_all_layers(tower, lambda: _phases(live, speak, bf16))


_UNMASKED = "sdpa_unmasked"
"""SDPA for which no mask is made; the library makes one whenever it sees tensors without values."""
AttentionInterface.register(_UNMASKED, sdpa_attention_forward)
AttentionMaskInterface.register(_UNMASKED, lambda *args, **kwargs: None)

_NOTHING = Phases(0, 0, 0, 0)


def _through_all_layers(tower: Any, traced: Callable[[], Phases]) -> Phases:
    """Of a tower whose layers are alike: traced with two of them and with three, and continued in a straight line."""
    layers = tower.layers
    if len(layers) <= 3:
        return traced()
    few = []
    for number in (2, 3):
        tower.layers = layers[:number]
        few.append(traced())
    two, three = few
    return Phases(*(low + (high - low) * (len(layers) - 2) for low, high in zip(two, three, strict=True)))


def _phases(live: LiveBytes, compute: Any, bf16: bool) -> Phases:
    base = live.now
    live.restart()
    with torch.autocast("cpu", torch.bfloat16) if bf16 else nullcontext():
        outputs = compute()
        held = live.now
    forward, kept = live.restart(), live.now
    if any(output.requires_grad for output in outputs):
        torch.autograd.backward(outputs, [torch.empty_like(output) for output in outputs])
    backward = live.restart()
    return Phases(forward - base, held - base, kept - base, backward - base)


def _to_fake(model: nn.Module, dtype: torch.dtype | None) -> None:
    """Give a model on the meta device fake tensors on the CPU, which compute as real ones would; tied ones stay tied.

    Args:
        dtype: of its parameters; None: as they are.
    """
    made: dict[int, nn.Parameter] = {}
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                if id(parameter) not in made:
                    empty = torch.empty(parameter.shape, dtype=dtype or parameter.dtype)
                    made[id(parameter)] = nn.Parameter(empty, requires_grad=parameter.requires_grad)
                module._parameters[name] = made[id(parameter)]
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = torch.empty(buffer.shape, dtype=buffer.dtype)
