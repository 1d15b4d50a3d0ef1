"""TRL's SFTTrainer with puzzle batches, an exact weighted loss and whole checkpoints."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import torch
from transformers import Trainer
from trl import SFTConfig, SFTTrainer

from data_mix.mixture import Mixture
from models.load import Loaded
from recipes.schema import Recipe
from train.balance import StepBatches
from train.batches import Collator, as_dataset
from train.loss import token_loss
from train.packing import allow_packs
from train.run_trainer import RunTrainer
from train.weighting import PartWeights


class PuzzleTrainer(RunTrainer, SFTTrainer):
    """Trains a loaded model on a mixture.

    The loss of a step is sum(weight x nll) / sum(weight) over all its answer tokens, whatever the micro-batches,
    accumulation and processes that computed it.
    """

    def __init__(
        self,
        recipe: Recipe,
        loaded: Loaded,
        mixture: Mixture,
        batches: StepBatches,
        weights: PartWeights,
        args: SFTConfig,
        **kwargs: Any,
    ) -> None:
        args.gradient_accumulation_steps = batches.arrange.micro_steps
        if batches.packed:
            allow_packs(loaded)
        self.weights = weights
        self._sums: tuple[torch.Tensor, torch.Tensor] | None = None
        super().__init__(
            recipe,
            loaded,
            batches,
            args,
            train_dataset=as_dataset(mixture),
            data_collator=Collator(
                loaded,
                weights.parts,
                recipe.train.predictable_weight,
                batches.packed,
                always_image=args.world_size > 1,
            ),
            **kwargs,
        )
        # Qwen3-VL declares that it takes no loss arguments; the division below is ours, so this holds for every family.
        self.model_accepts_loss_kwargs = True

    def get_batch_samples(
        self, epoch_iterator: Iterator[dict[str, Any]], num_batches: int, device: torch.device
    ) -> tuple[list[dict[str, Any]], Any]:
        samples, weight = super().get_batch_samples(self._on_the_clock(epoch_iterator), num_batches, device)
        self.step_keys = [batch["keys"] for batch in samples]
        return samples, weight

    def _on_the_clock(self, batches: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The same batches; counts the time that the loop waits for them, in which a GPU may still be at work."""
        while True:
            started = time.monotonic()
            batch = next(batches, None)
            self._waited_s += time.monotonic() - started
            if batch is None:
                return
            yield self._weighed(batch)

    def _weighed(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Here, not where batches are made: those of several steps are made ahead."""
        weights = self.weights.at(self.state.global_step)
        table = batch["loss_weights"].new_tensor([weights[part] for part in self.weights.parts])
        return {**batch, "loss_weights": batch["loss_weights"] * table[batch["part"]]}

    def _prepare_inputs(self, inputs: dict[str, Any]) -> dict[str, Any]:
        return self._loaded.family.model_inputs(self._loaded.processor, super()._prepare_inputs(inputs))

    def _get_num_items_in_batch(self, batch_samples: list[dict[str, Any]], device: torch.device) -> torch.Tensor:
        weight = torch.stack([batch["loss_weights"].double().sum() for batch in batch_samples]).sum().to(device)
        total = self.accelerator.reduce(weight, reduction="sum")
        return torch.where(total > 0, total, 1.0)  # a step of parts that weigh nothing has no loss

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> torch.Tensor:
        result = token_loss(model, inputs, len(self.weights.parts))
        sums = (result.counts, result.by_part)
        self._sums = sums if self._sums is None else (self._sums[0] + sums[0], self._sums[1] + sums[1])
        # DDP averages gradients over processes, and the divisor is already the sum over them
        loss = result.weighted_nll / num_items_in_batch.float() * self.accelerator.num_processes
        self._losses.append(loss.detach())
        return loss

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if "loss" in logs and self._sums is not None:
            counts, by_part = (self.accelerator.reduce(sums, reduction="sum") for sums in self._sums)
            tokens, ambiguous, examples = counts.tolist()
            logs |= _informative(by_part.sum(dim=0).tolist())
            for part, told in zip(self.weights.parts, by_part.tolist(), strict=True):
                logs |= {f"{name}/{part}": value for name, value in _informative(told).items()}
            trained = self.state.global_step - 1  # the newest of the steps that this entry is about
            logs |= {f"share/{part}": share for part, share in self.batches.order.shares(trained).items()}
            if not self.weights.equal:
                logs |= {f"weight/{part}": weight for part, weight in self.weights.at(trained).items()}
            logs["ambiguous"] = ambiguous / max(examples, 1)
            now = time.monotonic()
            seconds = max(now - self._last_log, 1e-9)
            logs["tokens_per_second"] = tokens / seconds
            # the share of the time, for the process that waited longest: the others wait for that one
            waited = torch.tensor([self._waited_s / seconds], device=self.args.device)
            logs["data_wait"] = self.accelerator.gather(waited).max().item()
            self._sums, self._last_log, self._waited_s = None, now, 0.0
        logs |= self._tower_rates(logs)
        Trainer.log(self, logs, start_time)


def _informative(told: list[float]) -> dict[str, float]:
    """What the log says of informative tokens; nothing where there are none."""
    nll, correct, count = told
    return {"informative_nll": nll / count, "informative_accuracy": correct / count} if count else {}
