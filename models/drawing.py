"""Completions drawn at random, each by a generator of its own: what is drawn does not depend on who else is asked."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import torch
from transformers import LogitsProcessor, TopPLogitsWarper


@dataclass(frozen=True)
class Drawing:
    """How tokens are drawn."""

    temperature: float
    top_p: float = 1.0
    """Only the likeliest tokens that make up this share are drawn from."""


def draw_seed(*words: object) -> int:
    """A seed in [0, 2^63) from any words and numbers."""
    digest = hashlib.blake2b(repr(words).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


class GumbelDraw(LogitsProcessor):
    """Adds Gumbel noise to log-probabilities, so that the most likely token is one drawn from softmax(logits / T).

    Source: Gumbel-max, Maddison et al. 2014, section 2.
    """

    def __init__(self, drawing: Drawing, seeds: Sequence[int]) -> None:
        """
        Args:
            seeds: of each row.
        """
        self.drawing = drawing
        self._top_p = TopPLogitsWarper(drawing.top_p) if drawing.top_p < 1 else None
        self._generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def rows(self) -> list[GumbelDraw]:
        """Each row by itself, which draws on from where it stands: for rows that do not all draw at every step."""
        alone = [copy(self) for _ in self._generators]
        for one, generator in zip(alone, self._generators, strict=True):
            one._generators = [generator]
        return alone

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """scores: logits (rows, vocabulary)."""
        scaled = scores.float() / self.drawing.temperature
        if self._top_p is not None:
            scaled = self._top_p(input_ids, scaled)
        rows = [torch.rand(scaled.shape[1], generator=one, dtype=torch.float64) for one in self._generators]
        uniform = torch.stack(rows).clamp_min(torch.finfo(torch.float64).tiny)
        return scaled + (-(-uniform.log()).log()).to(device=scaled.device, dtype=scaled.dtype)
