"""Log-probabilities of completions, on rows as supervised training has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from models.load import Loaded
from train.batches import IGNORED, answered, blank, padded
from train.decided import decided_logps
from train.rollouts import Prompt, Written


class CompletionBatch(NamedTuple):
    """Rows of prompt and completion, padded on the right."""

    features: dict[str, torch.Tensor]
    """The model's inputs, before `Family.model_inputs`."""
    labels: torch.Tensor
    """(B, L), IGNORED but for the completions. The last row may be of nobody's."""
    rows: Sequence[tuple[Prompt, Written]]


def completion_batch(
    loaded: Loaded, rows: Sequence[tuple[Prompt, Written]], *, always_image: bool = False
) -> CompletionBatch:
    """
    Args:
        always_image: put a blank image into a batch that has none, so that every process calls the vision tower.
    """
    examples = [answered(prompt.encoded, written.completion.ids) for prompt, written in rows]
    if always_image and not any("pixel_values" in one for one in examples):
        nobody = answered(blank(loaded), [])
        examples.append(nobody)
    features = padded(loaded, examples)
    return CompletionBatch(features, features.pop("labels"), rows)


def completion_logps(
    model: Any, features: dict[str, Any], batch: CompletionBatch, width: int, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """One forward pass of a model, as it is wrapped for training, which has TRL's fused head.

    Args:
        features: those of the batch, as the model takes them.
        width: tokens of the longest completion.
        temperature: at which completions were drawn.

    Returns:
        Log-probability and entropy of each token of a completion, nats, (rows, width) float32 each, 0 where there is
        none, or none that was chosen.
    """
    device = features["input_ids"].device
    labels = batch.labels.to(device)
    mask = torch.zeros(len(batch.rows), width, dtype=torch.bool)
    if batch.rows[0][1].decisions is None:
        for row, (_, written) in enumerate(batch.rows):
            mask[row, : len(written.completion.ids)] = True
        outputs = model(**features, labels=labels, fused_lm_head=True)
        chosen = labels[:, 1:] != IGNORED  # in the order of the mask, row by row
        found = outputs.log_probs[chosen], outputs.entropy[chosen]
    else:
        predicts, allowed = torch.zeros(labels.shape, dtype=torch.bool), list[Sequence[int]]()
        for row, (prompt, written) in enumerate(batch.rows):
            first = prompt.encoded["input_ids"].shape[1]
            for decision in written.decisions or ():
                mask[row, decision.index] = predicts[row, first + decision.index - 1] = True
                allowed.append(decision.allowed)
        predicts = predicts.to(device)
        tokens = labels[:, 1:][predicts[:, :-1]]
        found = decided_logps(model, features, predicts, tokens, allowed, temperature)
    empty = torch.zeros(mask.shape, device=device)
    logps, entropies = (empty.masked_scatter(mask.to(device), values.float()) for values in found)
    return logps, entropies
