"""Conversations and answers as tokens, and their lengths without a pixel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from models.family import token_id
from models.load import Encoder
from tasks.contract import Message, Span

SEQUENCES = ("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids")
"""Inputs with one entry per token, which are padded; all others have one row per image or patch and are joined."""


def encode_prompt(encoder: Encoder, messages: list[Message], images: list[np.ndarray]) -> dict[str, torch.Tensor]:
    """A batch of one, up to where the assistant's answer begins, images at their places in messages.

    images: RGB, uint8 (height, width, 3). The batch holds input_ids and attention_mask (1, tokens), the family's token
    types, and if there are images what `Family.encode_images` gives: their bytes, which `Family.model_inputs` makes
    floats of. With that done it is what the family's processor gives, to the bit.
    Raises ValueError if the image parts in messages and the images differ in number, or an image has a shape that the
    family refuses.
    """
    family, processor = encoder.family, encoder.processor
    image_token = token_id(processor, family.image_token)
    ids = torch.tensor(_one_token_images(encoder, messages, len(images)))
    tokens = [family.image_tokens(processor, image.shape[1], image.shape[0]) for image in images]
    repeats = torch.ones_like(ids)
    repeats[ids == image_token] = torch.tensor(tokens, dtype=repeats.dtype)
    ids = ids.repeat_interleave(repeats)[None]
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        family.token_types: (ids == image_token).to(ids.dtype),
        **family.encode_images(processor, images),
    }


AnyPrompt = tuple[list[Message], list[np.ndarray]] | Mapping[str, torch.Tensor]
"""Messages and images, or what `encode_prompt` makes of them."""


def encoded(encoder: Encoder, prompt: AnyPrompt) -> dict[str, torch.Tensor]:
    """A prompt as `encode_prompt` gives it; one that is encoded already is not encoded again."""
    return encode_prompt(encoder, *prompt) if isinstance(prompt, tuple) else dict(prompt)


def prompt_length(encoder: Encoder, messages: list[Message], image_sizes: list[tuple[int, int]]) -> int:
    """Tokens that `encode_prompt` gives for images of these (width, height) in px, by arithmetic."""
    with_one = _one_token_images(encoder, messages, len(image_sizes))
    return len(with_one) + sum(encoder.family.image_tokens(encoder.processor, *size) - 1 for size in image_sizes)


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


def _one_token_images(encoder: Encoder, messages: list[Message], num_images: int) -> list[int]:
    """Tokens of the prompt, had each image exactly one image token."""
    family, processor = encoder.family, encoder.processor
    text: Any = processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    with_one = text.replace(family.placeholder, family.one_token_image)
    # The template has written the tokens that open a conversation; the tokenizer must not write them again.
    ids = processor.tokenizer(with_one, add_special_tokens=False)["input_ids"]
    places = ids.count(token_id(processor, family.image_token))
    if {places, text.count(family.placeholder)} != {num_images}:
        raise ValueError(
            f"got {num_images} images for a prompt with {places} places for them; give one image per image part "
            f"and keep {family.placeholder} out of the text"
        )
    return ids
