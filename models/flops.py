"""Floating-point operations of an example, by arithmetic from the model's config: nothing is run or rendered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from models.lengths import Lengths
from models.load import Encoder


class Flops(NamedTuple):
    """Of one forward pass over one example, without the cheap elementwise rest; multiply and add count as two."""

    text_linear: int
    text_attention: int
    """Over the pairs that the causal (or sliding) mask allows."""
    vision_linear: int
    """The projector included."""
    vision_attention: int
    """Every patch of an image attends to every other of it: quadratic in the image's area."""
    head: int
    """The LM head, at answer positions."""

    @property
    def total(self) -> int:
        return sum(self)


def example_flops(encoder: Encoder, config: Any, lengths: Lengths, image_sizes: Sequence[tuple[int, int]]) -> Flops:
    """A backward pass costs about twice as much again.

    Args:
        config: of the whole model.
        lengths: of the example, in tokens.
        image_sizes: (width, height) in px of its images, before the processor scales them.
    """
    text, tower = config.text_config, encoder.family.vision_tower(config)
    heads_width = text.num_attention_heads * text.head_dim
    keys_width = text.num_key_value_heads * text.head_dim
    per_layer = text.hidden_size * (2 * heads_width + 2 * keys_width + 3 * text.intermediate_size)
    vision_linear = vision_attention = 0
    for size in image_sizes:
        width, height = encoder.family.scaled_size(encoder.processor, *size)
        patches = (width // tower.patch_px) * (height // tower.patch_px)
        tokens = encoder.family.image_tokens(encoder.processor, *size)
        vision_linear += 2 * (patches * tower.weights_per_patch + tokens * tower.weights_per_token)
        vision_attention += 4 * tower.layers * tower.width * patches**2
    return Flops(
        text_linear=2 * lengths.total * text.num_hidden_layers * per_layer,
        text_attention=4 * heads_width * sum(_pairs(lengths.total, window) for window in windows(text)),
        vision_linear=vision_linear,
        vision_attention=vision_attention,
        head=2 * lengths.answer * text.hidden_size * text.vocab_size,
    )


def windows(text: Any) -> list[int | None]:
    """How far back each layer sees, in tokens; None: to the beginning."""
    kinds = getattr(text, "layer_types", None) or ["full_attention"] * text.num_hidden_layers
    return [text.sliding_window if kind == "sliding_attention" else None for kind in kinds]


def _pairs(tokens: int, window: int | None) -> int:
    """Pairs (query, key) of a causal mask."""
    near = tokens if window is None else min(tokens, window)
    return near * (near + 1) // 2 + (tokens - near) * near
