"""Conversations and answers as tokens, and their lengths without a pixel."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from models.load import Encoder
from tasks.contract import Message, Span

SEQUENCES = ("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids")
"""Inputs with one entry per token, which are padded; all others have one row per image or patch and are joined."""


def encode_prompt(encoder: Encoder, messages: list[Message], images: list[np.ndarray]) -> dict[str, torch.Tensor]:
    """A batch of one, up to where the assistant's answer begins, images at their places in messages.

    images: RGB, uint8 (height, width, 3). The batch holds input_ids and attention_mask (1, tokens), pixel_values if
    there are images, and what else the family's model takes (image_grid_thw and mm_token_type_ids, or token_type_ids).
    Raises ValueError if the image parts in messages and the images differ in number, or an image has a shape that the
    family refuses.
    """
    text = _prompt_text(encoder, messages, len(images))
    for image in images:
        encoder.family.image_tokens(encoder.processor, image.shape[1], image.shape[0])
    # The template has written the tokens that open a conversation; the tokenizer must not write them again.
    encoded = encoder.processor(
        text=[text], images=images or None, return_tensors="pt", text_kwargs={"add_special_tokens": False}
    )
    return dict(encoded)


def prompt_length(encoder: Encoder, messages: list[Message], image_sizes: list[tuple[int, int]]) -> int:
    """Tokens that `encode_prompt` gives for images of these (width, height) in px, by arithmetic."""
    family = encoder.family
    text = _prompt_text(encoder, messages, len(image_sizes))
    with_one = _ids(encoder, text.replace(family.placeholder, family.one_token_image))
    return len(with_one) + sum(family.image_tokens(encoder.processor, *size) - 1 for size in image_sizes)


def answer_ids(encoder: Encoder, text: str) -> list[int]:
    """Tokens of an answer and its end of turn, as they follow the prompt."""
    return answer_encoding(encoder, text)[0]


def answer_lengths(encoder: Encoder, texts: list[str]) -> list[int]:
    """len(answer_ids(encoder, text)) of each text, encoded together, which is many times faster."""
    if not texts:  # a tokenizer cannot encode an empty batch
        return []
    encoded = encoder.processor.tokenizer(texts, add_special_tokens=False, return_attention_mask=False)["input_ids"]
    return [len(ids) + 1 for ids in encoded]


def answer_encoding(encoder: Encoder, text: str) -> tuple[list[int], list[Span]]:
    """`answer_ids`, and the characters of text that each token covers; the end of turn covers (len, len)."""
    encoded = encoder.processor.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    spans = [(start, stop) for start, stop in encoded["offset_mapping"]]
    end_of_turn = encoder.family.stop_token_ids(encoder.processor)[0]
    return [*encoded["input_ids"], end_of_turn], [*spans, (len(text), len(text))]


def _prompt_text(encoder: Encoder, messages: list[Message], num_images: int) -> str:
    text: Any = encoder.processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    placeholders = text.count(encoder.family.placeholder)
    if placeholders != num_images:
        raise ValueError(
            f"got {num_images} images for a prompt with {placeholders} places for them; give one image per image part "
            f"and keep {encoder.family.placeholder} out of the text"
        )
    return text


def _ids(encoder: Encoder, text: str) -> list[int]:
    return encoder.processor.tokenizer(text, add_special_tokens=False)["input_ids"]
