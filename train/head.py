"""The LM head and its loss in one, on a few answer positions at a time: the logits of a whole answer never exist."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from accelerate.utils import extract_model_from_parallel
from torch import nn
from torch.autograd.function import once_differentiable

CHUNK_BYTES = 2**28
"""fp32 logits that exist at a time."""


class AnswerLoss(NamedTuple):
    """The loss of A answer tokens."""

    weighted_nll: torch.Tensor
    """Scalar float32 with gradient: sum of weight x negative log-likelihood, nats."""
    nll: torch.Tensor
    """(A,) float32, no gradient: negative log-likelihood of each token, nats."""
    correct: torch.Tensor
    """(A,) bool: whether the token is the model's first choice (of equal logits, the first)."""


def answer_loss(
    model: nn.Module, features: dict[str, Any], predicts: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor
) -> AnswerLoss:
    """One forward pass of a model, as it is wrapped for training, that ends in the loss instead of in logits.

    The loss is what the head gives instead of logits: whatever wraps the model then has autocast set, has the head's
    weight gathered where it is sharded, and finds the loss in the model's output, from which its backward pass starts.

    Args:
        model: maps the features to logits of the positions that its argument `logits_to_keep` selects.
        features: the model's inputs.
        predicts: (B, L) bool, the A positions whose logits predict an answer token.
        targets: (A,) int64, the answer tokens, in the order of predicts.
        weights: (A,) float32, without gradient.

    Raises:
        ValueError: the model's logits are more than the product of hidden states and one weight matrix.
    """
    head = _plain_head(model)
    scored: list[AnswerLoss] = []

    def score(hidden: torch.Tensor) -> torch.Tensor:  # (A, H)
        scored.append(linear_nll(hidden, head.weight, targets, weights))
        return scored[0].weighted_nll

    head.forward = score  # type: ignore[method-assign]
    try:
        output = model(**features, logits_to_keep=predicts, use_cache=False)
    finally:
        del head.forward
    return scored[0]._replace(weighted_nll=output.logits)


def linear_nll(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    targets: torch.Tensor,
    weights: torch.Tensor,
    *,
    chunk_bytes: int = CHUNK_BYTES,
) -> AnswerLoss:
    """Weighted cross entropy of the logits `hidden @ weight.T`, in chunks of tokens.

    Gradients are computed beside the loss, while a chunk's logits exist, so each is multiplied only once. Logits are
    rounded as autocast rounds them; the loss and the gradient of weight are summed in float32.

    Args:
        hidden: (A, H), A may be 0.
        weight: (V, H).
        targets: (A,) int64, in 0..V-1.
        weights: (A,) float32, without gradient.
        chunk_bytes: fp32 logits that may exist at a time; at least one token's always do.
    """
    rows = max(1, chunk_bytes // (4 * weight.shape[0]))
    return AnswerLoss(*_LinearNll.apply(hidden, weight, targets, weights, rows, torch.is_grad_enabled()))


class _LinearNll(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        targets: torch.Tensor,
        weights: torch.Tensor,
        rows: int,
        training: bool,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        device = hidden.device
        autocast = torch.is_autocast_enabled(device.type)
        states = hidden.to(torch.get_autocast_dtype(device.type) if autocast else hidden.dtype)
        matrix = weight.to(states.dtype)
        nll = torch.empty(len(targets), device=device)
        correct = torch.empty(len(targets), dtype=torch.bool, device=device)
        hidden_needs, weight_needs = (training and needs for needs in ctx.needs_input_grad[:2])
        states_gradient = torch.empty_like(states) if hidden_needs else None
        weight_gradient = torch.zeros_like(weight, dtype=torch.float32) if weight_needs else None
        products = states.new_empty(min(rows, len(targets)), len(matrix))
        for start in range(0, len(targets), rows):
            chunk = slice(start, start + rows)
            wanted = targets[chunk, None]  # (C, 1)
            product = torch.mm(states[chunk], matrix.t(), out=products[: len(wanted)])  # (C, V)
            logits = product.float()  # the very same memory if it is float32 already
            highest, choice = logits.max(dim=-1, keepdim=True)
            correct[chunk] = (choice == wanted)[:, 0]
            logits.sub_(highest)
            reached = logits.gather(1, wanted)
            total = logits.exp_().sum(dim=-1, keepdim=True)
            nll[chunk] = (total.log() - reached)[:, 0]
            if not (hidden_needs or weight_needs):
                continue
            share = weights[chunk, None]
            logits.mul_(share / total).scatter_add_(1, wanted, -share)
            product.copy_(logits)
            if states_gradient is not None:
                torch.mm(product, matrix, out=states_gradient[chunk])
            if weight_gradient is not None:
                _add_product(weight_gradient, product.t(), states[chunk])
        ctx.save_for_backward(states_gradient, weight_gradient)
        ctx.dtypes = (hidden.dtype, weight.dtype)
        ctx.mark_non_differentiable(nll, correct)
        return (weights * nll).sum(), nll, correct

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: torch.Tensor, *_: Any) -> tuple[torch.Tensor | None, ...]:
        scaled = (  # in place: a head's gradient is too large to copy
            None if gradient is None else gradient.mul_(scale).to(dtype)
            for gradient, dtype in zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        )
        return *scaled, None, None, None, None


def _add_product(total: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
    """total += left @ right for a float32 total, without rounding the product to the factors' dtype."""
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    elif total.is_cuda:
        torch.addmm(total, left, right, out_dtype=total.dtype, out=total)
    else:
        total.addmm_(left.float(), right.float())


def _plain_head(model: nn.Module) -> nn.Linear:
    inner = extract_model_from_parallel(model)
    head = inner.get_output_embeddings()
    if not isinstance(head, nn.Linear) or head.bias is not None:
        raise ValueError(
            f"got a model whose LM head is a {type(head).__name__}; allowed is a Linear without bias or adapter; take "
            "the head out of the LoRA targets"
        )
    softcap = getattr(inner.config.get_text_config(), "final_logit_softcapping", None)
    if softcap is not None:
        raise ValueError(
            f"got a model with final_logit_softcapping={softcap}, which the library leaves out when the model has "
            "images, so training and generation elsewhere would differ; allowed is null; set it so in config.json"
        )
    return head
