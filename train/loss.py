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
    """(6,) float64, no gradient: nll of the informative tokens, how many of them are the model's first choice, how
    many there are, all tokens fed to the model, ambiguous examples, and all examples."""


def token_loss(model: nn.Module, inputs: dict[str, Any]) -> TokenLoss:
    """One forward pass; only the positions that predict an answer token reach the LM head.

    Args:
        model: maps the inputs without LOSS_FIELDS to logits.
        inputs: a batch of `train.batches.Collator`.
    """
    features = {name: value for name, value in inputs.items() if name not in LOSS_FIELDS}
    labels = inputs["labels"][:, 1:]  # (B, L - 1)
    answered = labels != IGNORED
    predicts = nn.functional.pad(answered, (0, 1), value=False)  # (B, L), position t predicts label t + 1
    weights = inputs["loss_weights"][:, 1:][answered]
    weighted_nll, nll, correct = answer_loss(model, features, predicts, labels[answered], weights)
    with torch.no_grad():
        informative = inputs["informative"][:, 1:][answered]
        counts = torch.stack(
            [
                nll[informative].double().sum(),
                (correct & informative).sum().double(),
                informative.sum().double(),
                inputs["attention_mask"].sum().double(),
                inputs["ambiguous"].sum().double(),
                torch.tensor(float(len(inputs["ambiguous"])), dtype=torch.float64, device=nll.device),
            ]
        )
    return TokenLoss(weighted_nll, counts)
