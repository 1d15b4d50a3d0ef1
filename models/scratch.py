"""Small models of the real classes with random weights, built in code: nothing is downloaded."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
from PIL import Image
from transformers import GenerationConfig

from models import FAMILIES
from recipes.schema import Model
from tasks import TASKS
from tasks.contract import Message
from tasks.photo import ImagePhoto

CORPUS_SPECS: dict[str, list[dict[str, Any]]] = {
    "jigshape": [
        {"grid": grid, "wording": wording, "shape": shape}
        for grid in (2, 3, 4, 8, 12, 16)
        for wording in ("full", "brief")
        for shape in (True, False)
    ],
    "probes": [{"kind": "grid_missing", "wording": wording} for wording in ("full", "brief")],
}
"""Puzzles whose texts the vocabulary is trained on. Any other text is still encoded, in more tokens."""
CORPUS_SEEDS = range(4)


@cache
def corpus() -> tuple[str, ...]:
    """Prompts and reference answers of every task in CORPUS_SPECS; always the same texts."""
    return tuple(_corpus())


def _corpus() -> Iterator[str]:
    for name, specs in CORPUS_SPECS.items():
        task = TASKS[name]
        for fields in specs:
            spec = task.Spec.model_validate(fields)
            board = task.board(spec)
            photo = None if board is None else ImagePhoto(Image.new("RGB", (board.width, board.height)))
            for seed in CORPUS_SEEDS:
                puzzle = task.pose(spec, photo, seed)
                yield from _texts(puzzle.messages)
                yield task.gold(puzzle.target)


def _texts(messages: list[Message]) -> Iterator[str]:
    """The text parts of a conversation, in order."""
    for message in messages:
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        yield from (part["text"] for part in parts if part["type"] == "text")


def scratch_processor(model: Model) -> tuple[Any, Any]:
    """(processor, config) of the model that `build_scratch` builds, without its weights.

    Raises ValueError for sizes that the family's classes do not allow.
    """
    if model.scratch is None:
        raise ValueError(f"got model {model.name} without a scratch section; give model.scratch its sizes")
    family = FAMILIES[model.family]
    processor = family.scratch_processor(corpus(), model.image)
    config = family.scratch_config(model.scratch, processor, model.image)
    family.limit_images(processor, config, model.image)
    return processor, config


def build_scratch(model: Model, seed: int) -> tuple[Any, Any]:
    """(model in fp32, processor) of `model.scratch`'s sizes.

    The same model section and seed give bit-equal weights and the same vocabulary; the caller's random state is left
    as it was. Raises ValueError for sizes that the family's classes do not allow.
    """
    processor, config = scratch_processor(model)
    assert model.scratch is not None
    family = FAMILIES[model.family]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        built = family.model_class(config)
        if model.scratch.vision_position_std is not None:
            positions = built.get_parameter(family.vision_positions)
            torch.nn.init.normal_(positions, std=model.scratch.vision_position_std)
    built.generation_config = GenerationConfig(
        eos_token_id=family.stop_token_ids(processor), pad_token_id=processor.tokenizer.pad_token_id
    )
    return built, processor
