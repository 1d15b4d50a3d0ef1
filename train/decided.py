"""Log-probabilities of the tokens that were chosen within a grammar, among those that were allowed: no other logits
exist."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from train.head import plain_head


def decided_logps(
    model: nn.Module,
    features: dict[str, Any],
    predicts: torch.Tensor,
    tokens: torch.Tensor,
    allowed: Sequence[Sequence[int]],
    temperature: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One forward pass of a model, as it is wrapped for training, that ends in log-probabilities instead of in logits;
    see `train.head.answer_loss`.

    Args:
        model: maps the features to logits of the positions that its argument `logits_to_keep` selects.
        features: the model's inputs.
        predicts: (B, L) bool, the A positions whose logits predict a decided token: of each the one before it.
        tokens: (A,) int64, the decided tokens, in the order of predicts.
        allowed: of each the different tokens that it was chosen from, itself among them.
        temperature: at which it was drawn, > 0.

    Returns:
        Log-probability of each token and entropy of each choice, nats, (A,) float32 each, with gradient.

    Raises:
        ValueError: the model's logits are more than the product of hidden states and one weight matrix.
    """
    head = plain_head(model)

    def score(hidden: torch.Tensor) -> torch.Tensor:  # (A, H)
        return torch.stack(masked_logps(hidden, head.weight, tokens, allowed, temperature))

    head.forward = score  # type: ignore[method-assign]
    try:
        output = model(**features, logits_to_keep=predicts, use_cache=False)
    finally:
        del head.forward
    logps, entropies = output.logits
    return logps, entropies


def masked_logps(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    tokens: torch.Tensor,
    allowed: Sequence[Sequence[int]],
    temperature: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`decided_logps` of hidden states (A, H), A may be 0, and the head's weight (V, H).

    The product is with the U tokens that are allowed anywhere: forms leave few, and their rows, taken once, need less
    memory than the rows of each choice. It is rounded as autocast rounds it; all after it is float32.
    """
    device = hidden.device
    flat = torch.tensor([token for some in allowed for token in some], dtype=torch.long, device=device)
    choices = torch.tensor([choice for choice, some in enumerate(allowed) for _ in some], device=device)
    used, columns = flat.unique(return_inverse=True)  # sorted
    barred = torch.ones(len(allowed), len(used), dtype=torch.bool, device=device)
    barred[choices.long(), columns] = False
    logits = nn.functional.linear(hidden, weight[used]).float() / temperature  # (A, U)
    log_probs = logits.masked_fill(barred, -torch.inf).log_softmax(dim=-1)
    logps = log_probs.gather(1, torch.searchsorted(used, tokens)[:, None])[:, 0]
    entropies = -(log_probs.exp() * log_probs.masked_fill(barred, 0)).sum(dim=-1)
    return logps, entropies
