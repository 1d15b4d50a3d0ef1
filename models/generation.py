"""Answers in batches, greedy or drawn."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from peft import PeftModel
from transformers import GenerationConfig, LogitsProcessorList

from models.drawing import GumbelDraw
from models.load import Loaded
from models.tokens import SEQUENCES, AnyPrompt, encoded


@dataclass(frozen=True)
class Completion:
    """One answer. `text` is all that was written before the end of turn."""

    text: str
    finish_reason: Literal["stop", "length"]
    """stop: the model ended its turn; length: it was cut off at max_new_tokens."""
    num_tokens: int
    """Tokens written, the end of turn included."""
    seconds: float
    """An equal share of its batch's wall time."""
    ids: tuple[int, ...] = ()
    """The tokens written, the end of turn included; none where only the text is known."""


def generate(
    loaded: Loaded,
    prompts: Sequence[AnyPrompt],
    max_new_tokens: int | Sequence[int],
    draw: GumbelDraw | None = None,
) -> list[Completion]:
    """The most likely token at each step for every prompt, in one batch; on the model's device.

    `max_new_tokens` is one for all or one for each: a completion does not grow longer with others in its batch.

    With `draw`, which has a seed for each prompt, tokens are drawn.

    Vision placeholder tokens are never written. Sampling settings that came with the model are not used. The model's
    train or eval mode is restored afterwards. `loaded.model` is the plain model or a PeftModel, without a
    distributed wrapper, and `unsharded` if it was sharded; autocast is the caller's.
    """
    if not prompts:
        return []
    started = time.perf_counter()
    limits = [max_new_tokens] * len(prompts) if isinstance(max_new_tokens, int) else max_new_tokens
    processor, family = loaded.processor, loaded.family
    stop_ids = family.stop_token_ids(processor)
    # Adapters live inside the base model, whose own generate knows the family's inputs.
    model: Any = loaded.model.get_base_model() if isinstance(loaded.model, PeftModel) else loaded.model
    padded = left_padded([encoded(loaded, prompt) for prompt in prompts], processor.tokenizer.pad_token_id)
    batch = family.model_inputs(processor, {name: tensor.to(model.device) for name, tensor in padded.items()})
    config = GenerationConfig(
        max_new_tokens=max(limits),
        do_sample=False,
        use_cache=True,
        eos_token_id=stop_ids,
        pad_token_id=processor.tokenizer.pad_token_id,
        suppress_tokens=family.vision_token_ids(processor),
    )
    with evaluating(loaded.model), _generating_by(model, config), torch.no_grad():
        drawn = LogitsProcessorList([draw] if draw else [])
        sequences = model.generate(**batch, synced_gpus=False, logits_processor=drawn)
    written = sequences[:, batch["input_ids"].shape[1] :].tolist()  # (prompts, new tokens)
    seconds = (time.perf_counter() - started) / len(prompts)
    return [cut(processor, row[:limit], set(stop_ids), seconds) for row, limit in zip(written, limits, strict=True)]


def left_padded(prompts: list[dict[str, torch.Tensor]], pad_id: int) -> dict[str, torch.Tensor]:
    """One batch from `encode_prompt`'s batches of one: (prompts, longest) per-token inputs, padded on the left."""
    longest = max(one["input_ids"].shape[1] for one in prompts)
    batch = {}
    for name in dict.fromkeys(name for one in prompts for name in one):
        tensors = [one[name] for one in prompts if name in one]
        if name in SEQUENCES:
            fill = pad_id if name == "input_ids" else 0
            tensors = [
                torch.nn.functional.pad(tensor, (longest - tensor.shape[1], 0), value=fill) for tensor in tensors
            ]
        batch[name] = torch.cat(tensors)
    return batch


def cut(processor: Any, ids: list[int], stop_ids: set[int], seconds: float) -> Completion:
    """What was written, up to the first of stop_ids, and that included; without any, it was cut off."""
    end = next((index for index, token in enumerate(ids) if token in stop_ids), None)
    text = processor.tokenizer.decode(ids[:end], skip_special_tokens=False, clean_up_tokenization_spaces=False)
    if end is None:
        return Completion(text, "length", len(ids), seconds, tuple(ids))
    return Completion(text, "stop", end + 1, seconds, tuple(ids[: end + 1]))


@contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Eval mode, which also turns gradient checkpointing off; then every module's own mode again."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


@contextmanager
def _generating_by(model: Any, config: GenerationConfig) -> Iterator[None]:
    """The model's own generation settings replaced: whatever a passed config leaves open is filled in from them."""
    own, model.generation_config = model.generation_config, config
    try:
        yield
    finally:
        model.generation_config = own
