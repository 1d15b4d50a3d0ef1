"""What differs between model families, as data and a few small functions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer

from models.pixels import scaled_bytes
from recipes.schema import Attention, ImageSize, Scratch

TOWERS = {"language": "text_config", "vision": "vision_config"}
"""The recipe's tower names, and the sub-configs that transformers knows them by."""


class Linears(NamedTuple):
    """The linear layers of a tower: those that may have adapters."""

    inside: str
    """Regular expression of the modules that hold them, by full name."""
    names: tuple[str, ...]
    """Their own names, the last part of their full ones."""


LANGUAGE_LINEARS = Linears(
    r"model\.language_model\.layers\.\d+\.(?:self_attn|mlp)",
    ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
)
"""The same in both families."""


class VisionTower(NamedTuple):
    """Sizes of a vision tower, for counting operations."""

    layers: int
    width: int
    patch_px: int
    weights_per_patch: int
    """Weights of the linear layers that every patch passes, over all layers."""
    weights_per_token: int
    """Weights of the linear layers between tower and language model, which every image token passes."""


@dataclass(frozen=True)
class Family:
    """One model family. `processor` below is the family's own transformers processor."""

    name: str
    model_class: type[Any]
    processor_class: type[Any]
    model_type: str
    """`model_type` in the config of a checkpoint of this family."""
    end_of_turn: str
    """Special token that ends an assistant turn."""
    stop_tokens: tuple[str, ...]
    """Special tokens at which generation stops, besides end_of_turn."""
    vision_tokens: tuple[str, ...]
    """Special tokens that stand for or enclose images; a model must never write them."""
    placeholder: str
    """What the chat template writes for one image."""
    one_token_image: str
    """What the processor turns a placeholder into, had the image exactly one image token."""
    image_token: str
    """Special token that the image tokens of a prompt are."""
    token_types: str
    """Model input that is 1 at image tokens and 0 elsewhere."""
    vision_positions: str
    """Parameter name of the vision tower's position embedding."""
    no_flash: Mapping[str, str]
    """{tower: why} for towers that must not use Flash Attention."""
    scaled_size: Callable[[Any, int, int], tuple[int, int]]
    """`scaled_size(processor, width, height)`: (width, height) in px to which the processor scales such a picture.
    ValueError for one that it would refuse."""
    image_tokens: Callable[[Any, int, int], int]
    """`image_tokens(processor, width, height)`: image tokens of a picture of that size in px, by arithmetic: each
    stands for a square of the scaled picture. ValueError for a picture that the processor would refuse."""
    image_bytes: Callable[[Any, list[torch.Tensor]], dict[str, torch.Tensor]]
    """`image_bytes(processor, scaled)`: what a batch holds of scaled images, each uint8 (height, width, 3): their bytes
    as `pixel_values`, in rows that join by torch.cat, and what else the model needs to know of them."""
    pixel_values: Callable[[Any, Mapping[str, torch.Tensor]], torch.Tensor]
    """`pixel_values(processor, batch)`: the floats that the model takes, of a batch that holds `image_bytes`; equal to
    the processor's own to the bit, on the batch's device."""
    limit_images: Callable[[Any, Any, ImageSize], None]
    """`limit_images(processor, config, image)`: sets the processor's image limits from the recipe; ValueError if they
    are incomplete or do not fit the model's config."""
    scratch_processor: Callable[[Iterable[str], ImageSize], Any]
    """`scratch_processor(corpus, image)`: processor whose tokenizer is trained on the texts of corpus."""
    scratch_config: Callable[[Scratch, Any, ImageSize], Any]
    """`scratch_config(sizes, processor, image)`: config of a small model for that processor."""
    layers: tuple[str, ...]
    """Class names of the transformer layers of both towers, which are gathered one by one where a model is sharded."""
    towers: Mapping[str, str]
    """Tower -> regular expression of the modules that it is made of, by full name. The first that fits counts; what
    fits none is of the language tower."""
    linears: Mapping[str, Linears]
    """Tower -> its linear layers. A tower that has none is absent."""
    vision_tower: Callable[[Any], VisionTower]
    """`vision_tower(config)`: what operations are counted from."""
    see: Callable[[Any, int], list[torch.Tensor]]
    """`see(model, patches)`: what the vision tower and the projector hand to the language tower for an image of so many
    patches, computed from pixels without values: for tracing, on tensors that have none."""
    mask: Callable[[Any, int, int], Any]
    """`mask(config, rows, length)`: the attention masks that the language tower makes of a batch of images and text,
    without values; None where it makes none."""
    positions: Callable[[Any, Mapping[str, Any]], Any] | None = None
    """`positions(model, encoded)`: positions (4, 1, L) of an encoded example, with which it can be packed beside
    others; its first row counts tokens, so that it tells where an example begins. None: the family cannot be packed."""

    def tower_of(self, parameter: str) -> str:
        """language, vision or projector: whose a parameter is, by its full name, in an adapter or a wrapper too."""
        fits = (name for name, modules in self.towers.items() if re.search(rf"(?:^|\.)(?:{modules})\.", parameter))
        return next(fits, "language")

    def encode_images(self, processor: Any, images: list[np.ndarray]) -> dict[str, torch.Tensor]:
        """What a batch holds of its images until `model_inputs`; nothing without images.

        images: RGB, uint8 (height, width, 3), of sizes that `scaled_size` accepts. An only image that needs no scaling
        shares its memory with the result.
        """
        if not images:
            return {}
        sizes = [self.scaled_size(processor, image.shape[1], image.shape[0]) for image in images]
        scaled = [
            scaled_bytes(processor.image_processor, image, *size) for image, size in zip(images, sizes, strict=True)
        ]
        return self.image_bytes(processor, scaled)

    def model_inputs(self, processor: Any, batch: dict[str, Any]) -> dict[str, Any]:
        """The batch with the bytes of its images as floats, to be called where the model is and just before it.

        A model that is fed the bytes raises, for they have another shape.
        """
        if "pixel_values" not in batch:
            return batch
        return {**batch, "pixel_values": self.pixel_values(processor, batch)}

    def vision_token_ids(self, processor: Any) -> list[int]:
        """Ids of `vision_tokens`, to be suppressed in every generation."""
        return [token_id(processor, token) for token in self.vision_tokens]

    def stop_token_ids(self, processor: Any) -> list[int]:
        """Ids of `stop_tokens`, the end of turn first."""
        return [token_id(processor, token) for token in (self.end_of_turn, *self.stop_tokens)]

    def resolve_attention(self, attention: Attention, *, flash: bool) -> tuple[dict[str, str], list[str]]:
        """What each tower will use.

        `flash` says whether Flash Attention 2 can run here (package installed, CUDA present). Returns transformers'
        `attn_implementation` by sub-config ("" is the whole model's own entry) and one log line per tower.
        Raises ValueError for an explicit request that the family forbids or this machine cannot serve.
        """
        resolved: dict[str, str] = {}
        lines = []
        for tower, sub_config in TOWERS.items():
            chosen, why = _resolve_tower(self, tower, getattr(attention, tower), flash)
            resolved[sub_config] = chosen
            lines.append(f"attention, {tower} tower: {chosen} ({why})")
        return {"": resolved["text_config"], **resolved}, lines


def _resolve_tower(family: Family, tower: str, asked: str, flash: bool) -> tuple[str, str]:
    forbidden = family.no_flash.get(tower)
    if asked == "auto":
        if forbidden:
            return "sdpa", f"auto; not flash_attention_2: {forbidden}"
        if flash:
            return "flash_attention_2", "auto; flash-attn is installed"
        return "sdpa", "auto; flash_attention_2 needs the flash-attn package, a CUDA GPU and bf16"
    if asked == "flash_attention_2" and forbidden:
        raise ValueError(
            f"got model.attention.{tower}=flash_attention_2; {family.name} allows auto, sdpa, eager there, because "
            f"{forbidden}; set model.attention.{tower}=sdpa"
        )
    if asked == "flash_attention_2" and not flash:
        raise ValueError(
            f"got model.attention.{tower}=flash_attention_2, which needs the flash-attn package and a CUDA GPU, and "
            f"this environment lacks one of them; allowed here: auto, sdpa, eager; install flash-attn or set "
            f"model.attention.{tower}=auto"
        )
    return asked, "asked for by the recipe"


def token_id(processor: Any, token: str) -> int:
    """Id of a special token; ValueError if the tokenizer does not have it."""
    found = processor.tokenizer.convert_tokens_to_ids(token)
    if found is None or processor.tokenizer.convert_ids_to_tokens(found) != token:  # some give the unknown token's id
        raise ValueError(
            f"got a tokenizer without the token {token}; allowed is that of the model's own family (model.family); use "
            "a checkpoint with its own tokenizer files"
        )
    return found


def vocabulary_and_merges(trained: Tokenizer) -> tuple[dict[str, int], Any]:
    """What a trained BPE has learnt, as transformers' tokenizer classes take it."""
    learnt = json.loads(trained.to_str())["model"]
    return learnt["vocab"], [tuple(merge) for merge in learnt["merges"]]


def require_multiple(field: str, got: int, of: int) -> None:
    """ValueError unless `got` is a multiple of `of`."""
    if got % of:
        raise ValueError(f"got {field}={got}; allowed are multiples of {of}; set it to {max(of, got // of * of)}")
