"""The token loss: summed, weighted, and divided once, by the whole step's weight."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn

from train.batches import IGNORED, LOSS_FIELDS
from train.head import answer_loss


class TokenLoss(NamedTuple):
    """Sums over one micro-batch's answer tokens; the caller divides."""

    weighted_nll: torch.Tensor
    """Scalar with gradient: sum of weight x negative log-likelihood, nats."""
    counts: torch.Tensor
    """(3,) float64, no gradient: tokens fed to the model, ambiguous examples, and all examples."""
    by_part: torch.Tensor
    """(P, 3) float64, no gradient: of each part's informative tokens the nll, how many are the model's first choice,
    and how many there are."""


def token_loss(model: nn.Module, inputs: dict[str, Any], parts: int) -> TokenLoss:
    """One forward pass; only the positions that predict an answer token reach the LM head.

    Args:
        model: maps the inputs without LOSS_FIELDS to logits.
        inputs: a batch of `train.batches.Collator`.
        parts: P, the number of parts in the mixture.
    """
    features = {name: value for name, value in inputs.items() if name not in LOSS_FIELDS}
    labels = inputs["labels"][:, 1:]  # (B, L - 1)
    answered = labels != IGNORED
    predicts = nn.functional.pad(answered, (0, 1), value=False)  # (B, L), position t predicts label t + 1
    weights = inputs["loss_weights"][:, 1:][answered]
    weighted_nll, nll, correct = answer_loss(model, features, predicts, labels[answered], weights)
    with torch.no_grad():
        informative = inputs["informative"][:, 1:][answered]
        told = torch.stack([nll.double() * informative, correct & informative, informative], dim=1)  # (A, 3) float64
        by_part = told.new_zeros(parts, 3).index_add_(0, inputs["part"][:, 1:][answered], told)
        ambiguous = inputs["ambiguous"]
        examples = torch.ones_like(ambiguous)
        counts = torch.stack([each.sum() for each in (inputs["attention_mask"], ambiguous, examples)]).double()
    return TokenLoss(weighted_nll, counts, by_part)
