"""A model without its weights: sizes, names and processor, from what lies on this machine."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from models import FAMILIES
from models.architecture import stated_config
from models.load import CheckpointError, Encoder, Loaded, load_encoder, read_config
from models.scratch import corpus, scratch_processor
from recipes.schema import Model


@dataclass(frozen=True)
class Outline:
    """What can be known of a recipe's model without network and weights."""

    loaded: Loaded
    """On torch's meta device: parameters have shapes and no values."""
    estimated_text: bool
    """Whether its text is counted by another tokenizer. Image tokens are always the model's own."""
    notes: list[str]
    """Where the sizes and the tokenizer are from."""


def outline(model: Model) -> Outline:
    """The model of a recipe, its parameters in float32.

    Raises:
        ValueError: its sizes are not known here, or its image limits do not fit.
    """
    family, notes, estimated = FAMILIES[model.family], [], False
    if model.scratch is not None:
        processor, config = scratch_processor(model)
        encoder = Encoder(processor, family, model.max_tokens)
    else:
        assert model.pretrained is not None
        try:
            config = read_config(family, model.pretrained, model.revision, local=True)
            notes.append(f"sizes: config.json of {model.pretrained}")
        except CheckpointError:
            config = stated_config(model)
            notes.append(f"sizes: model.architecture, as {model.pretrained} is not on this machine")
        try:
            encoder = load_encoder(model, local=True)
        except CheckpointError:
            estimated = True
            notes.append(
                "text tokens: estimated with a small tokenizer, which takes more tokens than the model's own; image "
                "tokens are exact"
            )
            processor = family.scratch_processor(corpus(), model.image)
            family.limit_images(processor, config, model.image)
            encoder = Encoder(processor, family, model.max_tokens)
    eager = {
        sub: "eager" if asked == "eager" else "sdpa"
        for sub, asked in (("text_config", model.attention.language), ("vision_config", model.attention.vision))
    }
    with torch.device("meta"):
        built = family.model_class._from_config(config, attn_implementation={"": eager["text_config"], **eager})
    return Outline(Loaded(encoder.processor, family, encoder.max_tokens, built), estimated, notes)
