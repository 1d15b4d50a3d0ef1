"""TRL's SFTTrainer with puzzle batches, an exact weighted loss and whole checkpoints."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from safetensors import SafetensorError
from torch.utils.data import DataLoader
from transformers import Trainer
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled
from transformers.trainer import SCHEDULER_NAME, TRAINING_ARGS_NAME
from trl import SFTConfig, SFTTrainer

from data_mix.mixture import Mixture
from models.load import Loaded, load_weights_into
from models.sharded import gathered, is_sharded, unsharded
from models.towers import leave_inputs_alone
from recipes.schema import Recipe
from train.balance import StepBatches
from train.batches import Collator, as_dataset
from train.checkpoints import PARTIAL, not_saved, publish
from train.guard import RunError, StopOnSignal, Watchdog, check_finite, in_its_own_group
from train.loss import token_loss
from train.packing import allow_packs
from train.parameters import group_by_tower, learning_rates, set_rates
from train.seen import SeenPuzzles
from train.sharded_state import load_optimizer, save_optimizer
from train.weighting import PartWeights
from train.zero import whole


class PuzzleTrainer(SFTTrainer):
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
        self._loaded = loaded
        self.batches = batches
        self._rates = learning_rates(recipe.train, args.learning_rate)
        self._step_rates: dict[str, float] = {}
        args.gradient_accumulation_steps = batches.arrange.micro_steps
        sharded = is_sharded(loaded.model)
        if sharded:  # or each process would keep the gradients of the whole model until the last micro-batch
            args.accelerator_config.gradient_accumulation_kwargs = {"sync_each_batch": True}
        if batches.packed:
            allow_packs(loaded)
        self._keep = recipe.train.keep_checkpoints
        self._saving = False
        self.weights = weights
        self._sums: tuple[torch.Tensor, torch.Tensor] | None = None
        self._losses: list[torch.Tensor] = []
        self.step_keys: list[list[str]] = []
        """Keys of the puzzles in each micro-batch of the step that is computed, or was last."""
        self.watchdog = Watchdog(recipe.train.stall_timeout_s) if recipe.train.stall_timeout_s else None
        self._last_log = time.monotonic()
        self._waited_s = 0.0
        super().__init__(
            model=loaded.model,
            args=args,
            train_dataset=as_dataset(mixture),
            data_collator=Collator(
                loaded,
                weights.parts,
                recipe.train.predictable_weight,
                batches.packed,
                always_image=args.world_size > 1,
            ),
            processing_class=loaded.processor,
            **kwargs,
        )
        self.is_distributed_loading_by_transformers = sharded  # the library then neither wraps nor moves the model
        if not (args.gradient_checkpointing_kwargs or {}).get("use_reentrant"):
            leave_inputs_alone(loaded.model)
        self.signals = StopOnSignal()
        seen = SeenPuzzles(Path(args.output_dir), args.process_index, lambda: self.step_keys)
        for callback in (self.signals, seen, self.watchdog):
            if callback:
                self.add_callback(callback)
        # Qwen3-VL declares that it takes no loss arguments; the division below is ours, so this holds for every family.
        self.model_accepts_loss_kwargs = True

    def train(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().train(*args, **kwargs)
        finally:  # no earlier: the evaluation after the last step is guarded, too
            self.signals.end()
            if self.watchdog:
                self.watchdog.end()

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        if self.optimizer is None:
            super().create_optimizer(model)
            group_by_tower(self.optimizer, self.model if model is None else model, self._loaded.family, self._rates)
        return self.optimizer

    def _get_learning_rate(self) -> float:
        self._step_rates = {group["tower"]: group["lr"] for group in self.optimizer.param_groups}
        return next(iter(self._step_rates.values()))

    def get_train_dataloader(self) -> DataLoader:
        # the library's own takes batches of one size only, and repeats examples where they do not divide
        return self.accelerator.prepare(
            DataLoader(
                self.train_dataset,
                batch_sampler=self.batches,
                collate_fn=self.data_collator,
                num_workers=self.args.dataloader_num_workers,
                worker_init_fn=in_its_own_group,
                pin_memory=self.args.dataloader_pin_memory,
                multiprocessing_context=self.args.dataloader_multiprocessing_context,
                prefetch_factor=self.args.dataloader_prefetch_factor,
                persistent_workers=self.args.dataloader_persistent_workers,
            )
        )

    def _init_training_state(
        self, max_steps: int, steps_per_epoch: int, num_train_epochs: int, *args: Any
    ) -> tuple[int, int]:
        trained = super()._init_training_state(max_steps, steps_per_epoch, num_train_epochs, *args)
        self.state.compute_steps(self.args, max_steps)  # the checkpoint's own intervals would outlive a changed recipe
        self._last_log, self._waited_s = time.monotonic(), 0.0
        if self.state.global_step >= max_steps:  # all is trained; the library would go on to the end of the epoch
            return num_train_epochs, 0
        return trained

    def _run_epoch(self, model: Any, epoch: int, **kwargs: Any) -> None:
        # accelerate does not reach the sampler through the wrappers of a resumed, sharded loader
        self.batches.set_epoch(epoch)
        super()._run_epoch(model=model, epoch=epoch, **kwargs)

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

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        norm = super()._get_grad_norm(model, grad_norm=grad_norm)
        losses, self._losses = self._losses, []
        check_finite(self.state.global_step, losses, self.step_keys, norm, moved=self.is_deepspeed_enabled)
        return norm

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
        if "learning_rate" in logs:  # of the first tower that trains
            others = {tower: rate for tower, rate in self._step_rates.items() if rate != logs["learning_rate"]}
            logs |= {f"learning_rate_{tower}": rate for tower, rate in others.items()}
        Trainer.log(self, logs, start_time)

    @contextmanager
    def off_the_clock(self) -> Iterator[None]:
        """What is done inside (evaluation, saving) does not count in the tokens per second."""
        started = time.monotonic()
        try:
            yield
        finally:
            self._last_log += time.monotonic() - started

    @contextmanager
    def whole_model(self) -> Iterator[None]:
        """Every process has all weights while the block runs, and may call the model on its own."""
        with whole(self.model_wrapped) if is_deepspeed_zero3_enabled() else unsharded(self.model):
            yield

    def _move_model_to_device(self, model: Any, device: torch.device) -> None:
        if not is_sharded(model):
            super()._move_model_to_device(model, device)

    def beat(self) -> None:
        """Something other than a step has got on."""
        if self.watchdog:
            self.watchdog.beat()

    def signalled(self) -> bool:
        """Whether this process has been asked to stop."""
        return self.signals.received is not None

    # ---- checkpoints: complete or absent ----

    def _get_output_dir(self, trial: Any) -> str:
        folder = Path(super()._get_output_dir(trial))
        return str(folder / PARTIAL if self._saving else folder)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        run, step = Path(self.args.output_dir), self.state.global_step
        with self.off_the_clock():
            self._saving = True
            try:
                Trainer._save_checkpoint(self, model, trial)  # TRL's own adds a model card that we do not want
            except torch.OutOfMemoryError:
                raise
            except (OSError, RuntimeError, SafetensorError) as error:
                raise RunError(not_saved(run, step, error)) from error
            finally:
                self._saving = False
            self.accelerator.wait_for_everyone()
            if self.args.should_save:
                # pickled arguments that nobody reads: recipe.yaml says the same
                (run / PARTIAL / f"checkpoint-{step}" / TRAINING_ARGS_NAME).unlink(missing_ok=True)
                try:
                    publish(run, step, keep=self._keep)
                except OSError as error:
                    raise RunError(not_saved(run, step, error)) from error
            self.accelerator.wait_for_everyone()
            self.beat()

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Any] | None = None) -> None:
        if is_sharded(self.model):
            state_dict = gathered(self.model, trained_only=isinstance(self.model, PeftModel))
        if self.args.should_save:
            super()._save(output_dir, state_dict)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        if not is_sharded(self.model):
            super()._save_optimizer_and_scheduler(output_dir)
            return
        save_optimizer(Path(output_dir), self.model, self.optimizer.optimizer)
        if self.args.should_save:
            torch.save(self.lr_scheduler.state_dict(), Path(output_dir, SCHEDULER_NAME))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if not is_sharded(self.model):
            super()._load_optimizer_and_scheduler(checkpoint)
        elif checkpoint is not None:
            load_optimizer(Path(checkpoint), self.model, self.optimizer.optimizer)
            self.lr_scheduler.load_state_dict(torch.load(Path(checkpoint, SCHEDULER_NAME), weights_only=True))
        if checkpoint is not None:
            set_rates(self.optimizer, self.lr_scheduler, self._rates)  # the recipe's, if they are others by now

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        # the library's own loads Gemma3's hub-style keys into nothing, silently
        load_weights_into(self.model if model is None else model, resume_from_checkpoint)


def _informative(told: list[float]) -> dict[str, float]:
    """What the log says of informative tokens; nothing where there are none."""
    nll, correct, count = told
    return {"informative_nll": nll / count, "informative_accuracy": correct / count} if count else {}
