"""The hardest micro-batches of a run first: what does not fit shows at once, not in its ninth hour."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from eval_hooks.undisturbed import kept_random_state
from train.loss import token_loss
from train.trainer import PuzzleTrainer

logger = logging.getLogger(__name__)


class WorstBatchFirst(TrainerCallback):
    """Runs some micro-batches forward and backward where training begins, on every process, and leaves no trace."""

    def __init__(self, trainer: PuzzleTrainer, bins: Sequence[Sequence[int]]) -> None:
        """
        Args:
            bins: the examples of each micro-batch, by their positions in the mixture.
        """
        self._trainer = trainer
        self._bins = list(dict.fromkeys(map(tuple, bins)))

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        trainer = self._trainer
        if trainer.is_deepspeed_enabled:  # its backward pass ends in an optimizer step
            logger.warning("train.worst_batch_first is left out: DeepSpeed cannot compute gradients and drop them")
            return
        room = optimizer_room(trainer.model_wrapped, trainer.optimizer)
        for bin_ in self._bins:
            try:
                with kept_random_state():
                    self._compute(bin_)
                    self._compute(bin_)  # on top of gradients, as all micro-batches of a step but its first
            except torch.OutOfMemoryError:
                logger.error(
                    "train.worst_batch_first: the micro-batch of examples %s does not fit; set train.max_pack_tokens "
                    "or train.micro_batch lower, or trainer.gradient_checkpointing=true, or ask train.plan",
                    list(bin_),
                )
                raise
            trainer.model_wrapped.zero_grad(set_to_none=True)
        del room
        logger.info("worst batch first: %s micro-batch(es) went forward and backward", len(self._bins))

    def _compute(self, bin_: Sequence[int]) -> None:
        trainer = self._trainer
        model = trainer.model_wrapped.train()
        batch = trainer.data_collator([trainer.train_dataset[one] for one in bin_])
        inputs = trainer._prepare_inputs(batch)
        with trainer.compute_loss_context_manager():
            loss = token_loss(model, inputs, len(trainer.weights.parts)).weighted_nll
        trainer.accelerator.backward(loss)


def optimizer_room(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Memory that AdamW will take at the first step, so that it is not counted on; nothing where it has it already."""
    if optimizer.state:
        return []
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [torch.empty_like(parameter, dtype=torch.float32) for parameter in trained for _ in range(2)]
