"""What ends a run before its last step: a signal, a loss that is no number, a stall, a full disk. Nothing is lost."""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import sys
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

logger = logging.getLogger(__name__)


class RunError(RuntimeError):
    """The run cannot go on; the message says why, what is kept and what to do."""


class StopOnSignal(TrainerCallback):
    """SIGTERM and SIGUSR1 end the step that is being computed, save a checkpoint and end the run.

    All processes stop after the same step, whichever of them got the signal.
    """

    def __init__(self, every: int = 1) -> None:
        """
        Args:
            every: a run can stop after steps that are a multiple of this only.
        """
        self._every = every
        self.received: signal.Signals | None = None
        self.stopped = False
        self._before: dict[signal.Signals, Any] = {}

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        for number in (signal.SIGTERM, signal.SIGUSR1):
            self._before[number] = signal.signal(number, self._receive)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.received = signal.Signals(number)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        asked = torch.tensor(self.received is not None, device=args.device, dtype=torch.int32)
        if dist.is_available() and dist.is_initialized():
            dist.all_reduce(asked, op=dist.ReduceOp.MAX)
        if asked.item() and state.global_step < state.max_steps and state.global_step % self._every == 0:
            name = self.received.name if self.received else "a signal to another process"
            logger.warning("%s: the run saves after step %s and stops", name, state.global_step)
            self.stopped = control.should_save = control.should_training_stop = True

    def end(self) -> None:
        """Leave signals to whom they belonged to before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)


def in_its_own_group(worker: int) -> None:
    """Have a data loader's worker miss a signal to the run's process group, as launchers send it.

    The worker would die of it, and the run with the worker, before it has saved. A worker whose run is gone ends by
    itself.
    """
    os.setpgid(0, 0)


class Watchdog(TrainerCallback):
    """Where nothing is heard for `seconds`, dumps the stack of every thread to stderr and ends the process.

    Heard are the end of a step and whatever calls `beat`.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.on = False

    def beat(self) -> None:
        if self.on:
            faulthandler.dump_traceback_later(self._seconds, exit=True, file=sys.__stderr__ or sys.stderr)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.on = True
        self.beat()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self.beat()

    def end(self) -> None:
        self.on = False
        faulthandler.cancel_dump_traceback_later()


def check_finite(
    step: int, losses: list[torch.Tensor], keys: list[list[str]], grad_norm: Any, *, moved: bool = False
) -> None:
    """Refuse to go on from losses or gradients that are no finite numbers.

    Args:
        step: the optimizer step, counted from 0.
        losses: of this process's micro-batches, scalars.
        keys: the keys of the puzzles in each.
        grad_norm: of the whole step; None where it is not known.
        moved: whether the optimizer has stepped by now, as DeepSpeed's has.

    Raises:
        RunError: a loss or the gradients are no number; names the puzzles.
    """
    finite = torch.stack(losses).isfinite()
    if not finite.all():
        bad = [key for fine, those in zip(finite.tolist(), keys, strict=True) if not fine for key in those]
        what = f"the loss of a micro-batch of puzzles {', '.join(bad)} is no finite number"
    elif grad_norm is not None and not torch.as_tensor(grad_norm).isfinite():
        every = [key for those in keys for key in those]
        what = f"the gradients of step {step}, with puzzles {', '.join(every)} on this process, are no finite numbers"
    else:
        return
    raise RunError(
        f"step {step}: {what}; {'' if moved else 'no weight was changed by it, and '}the checkpoints before it are "
        "good: continue from there (resume=true) with a lower trainer.learning_rate, more trainer.warmup_steps or a "
        "lower trainer.max_grad_norm, or look at those puzzles"
    )
