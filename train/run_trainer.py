"""What every trainer here has: towers with rates of their own, whole checkpoints, an end that loses nothing."""

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
from transformers import Trainer, TrainingArguments
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled
from transformers.trainer import SCHEDULER_NAME, TRAINING_ARGS_NAME

from models.load import Loaded, load_weights_into
from models.sharded import gathered, is_sharded, unsharded
from models.towers import leave_inputs_alone
from recipes.schema import Recipe
from train.checkpoints import PARTIAL, not_saved, publish
from train.guard import RunError, StopOnSignal, Watchdog, check_finite, in_its_own_group
from train.parameters import group_by_tower, learning_rates, set_rates
from train.sharded_state import load_optimizer, save_optimizer
from train.step_log import StepLog
from train.zero import whole


class RunTrainer(Trainer):
    """What comes before one of TRL's trainers in a class's bases."""

    def __init__(
        self,
        recipe: Recipe,
        loaded: Loaded,
        batches: Any,
        args: TrainingArguments,
        stop_every: int = 1,
        **others: Any,
    ) -> None:
        """
        Args:
            batches: the batch sampler, which counts epochs (`set_epoch`).
            stop_every: a signal can end the run after steps that are a multiple of this only.
            others: what TRL's trainer takes.
        """
        self._loaded = loaded
        self.batches = batches
        self._rates = learning_rates(recipe.train, args.learning_rate)
        self._step_rates: dict[str, float] = {}
        sharded = is_sharded(loaded.model)
        if sharded:  # or each process would keep the gradients of the whole model until the last micro-batch
            args.accelerator_config.gradient_accumulation_kwargs = {"sync_each_batch": True}
        self._keep = recipe.train.keep_checkpoints
        self._saving = False
        self._losses: list[torch.Tensor] = []
        self.step_keys: list[list[str]] = []
        """Keys of the puzzles in each micro-batch of the step that is computed, or was last."""
        self.watchdog = Watchdog(recipe.train.stall_timeout_s) if recipe.train.stall_timeout_s else None
        self._last_log = time.monotonic()
        self._waited_s = 0.0
        super().__init__(model=loaded.model, args=args, processing_class=loaded.processor, **others)
        self.is_distributed_loading_by_transformers = sharded  # the library then neither wraps nor moves the model
        if not (args.gradient_checkpointing_kwargs or {}).get("use_reentrant"):
            leave_inputs_alone(loaded.model)
        self.signals = StopOnSignal(stop_every)
        seen = StepLog(Path(args.output_dir, "seen"), args.process_index, lambda: {"keys": self.step_keys})
        for callback in (self.signals, seen, self.watchdog):
            if callback:
                self.add_callback(callback)

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

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        norm = super()._get_grad_norm(model, grad_norm=grad_norm)
        losses, self._losses = self._losses, []
        check_finite(self.state.global_step, losses, self.step_keys, norm, moved=self.is_deepspeed_enabled)
        return norm

    def _tower_rates(self, logs: dict[str, float]) -> dict[str, float]:
        """What a log says besides of the rates: its own is that of the first tower that trains."""
        if "learning_rate" not in logs:
            return {}
        others = {tower: rate for tower, rate in self._step_rates.items() if rate != logs["learning_rate"]}
        return {f"learning_rate_{tower}": rate for tower, rate in others.items()}

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
