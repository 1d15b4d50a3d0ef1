"""Attention in packs: several examples in one row, each of which attends only to itself."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from models.load import Loaded
from recipes.schema import Recipe

PACKED_SDPA = "sdpa_packed"
"""Name of `packed_sdpa` as an attention implementation of transformers."""

_KEEP_APART = ("sdpa", PACKED_SDPA, "flash_attention_2")
"""Attention implementations with which packed examples do not see each other."""


def packed_sdpa(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    position_ids: torch.Tensor | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """The library's SDPA, once per packed example: memory is linear in the tokens, no L x L mask is made.

    Anything but a pack (a padded batch, generation) goes through the library's function unchanged.

    Args:
        query, key, value: (B, heads, L, width).
        attention_mask: None where every token may see all before it.
        position_ids: (B, L), 0 where an example begins; the text row of the model's positions.
    """
    starts = [0]
    if attention_mask is None and position_ids is not None and len(query) == 1 and query.shape[2] > 1:
        starts = (position_ids[0] == 0).nonzero()[:, 0].tolist()
    if len(starts) < 2:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
    lengths = torch.tensor([*starts, query.shape[2]]).diff().tolist()
    parts = [
        sdpa_attention_forward(module, *one, None, **kwargs)[0]
        for one in zip(*(states.split(lengths, dim=2) for states in (query, key, value)), strict=True)
    ]
    return torch.cat(parts, dim=1), None  # (1, L, heads, width)


AttentionInterface.register(PACKED_SDPA, packed_sdpa)
AttentionMaskInterface.register(PACKED_SDPA, sdpa_mask)


def packs(recipe: Recipe, loaded: Loaded) -> bool:
    """Whether several examples share a row: where that is asked for, or left open and the model can."""
    able = loaded.family.positions is not None and loaded.model.config.text_config._attn_implementation in _KEEP_APART
    return recipe.train.batching == "packed" or (recipe.train.batching == "auto" and able)


def allow_packs(loaded: Loaded) -> None:
    """Make the language tower keep packed examples apart.

    Flash Attention 2 does so by itself, told by the first row of the positions.

    Raises:
        ValueError: the family or the attention in use cannot.
    """
    family, used = loaded.family, loaded.model.config.text_config._attn_implementation
    if family.positions is None:
        raise ValueError(
            f"train.batching: got packed for {family.name}; allowed: balanced, plain, because its mask over image "
            "tokens is bidirectional; set train.batching=balanced"
        )
    if used == "sdpa":
        loaded.model.set_attn_implementation({"text_config": PACKED_SDPA})
    elif used not in _KEEP_APART:
        raise ValueError(
            f"train.batching: got packed with attention {used}; it needs sdpa or flash_attention_2; set "
            "model.attention.language=auto"
        )
