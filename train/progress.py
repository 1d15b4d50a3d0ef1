"""A progress bar and one clear line per log, instead of the library's dictionaries."""

from __future__ import annotations

from typing import Any

from tqdm import tqdm
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

_COLUMNS = {
    "loss": "loss {:.4f}",
    "reward": "reward {:.3f}",
    "rewards/valid/mean": "valid {:.0%}",
    "frac_reward_zero_std": "without spread {:.0%}",
    "entropy": "entropy {:.3f}",
    "completions/mean_length": "length {:.0f}",
    "informative_nll": "informative nll {:.4f}",
    "informative_accuracy": "accuracy {:.3f}",
    "grad_norm": "grad norm {:.3g}",
    "learning_rate": "lr {:.2e}",
    "tokens_per_second": "{:,.0f} tokens/s",
    "data_wait": "waiting for data {:.0%}",
    "step_time": "{:.1f} s",
}


class Progress(TrainerCallback):
    """Shown by the main process only."""

    def __init__(self) -> None:
        self.bar: tqdm[Any] | None = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if state.is_world_process_zero:
            self.bar = tqdm(total=state.max_steps, initial=state.global_step, desc="training", unit="step")

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self.bar is not None:
            self.bar.update(state.global_step - self.bar.n)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float],
        **kwargs: Any,
    ) -> None:
        if self.bar is not None and "loss" in logs:
            shown = [text.format(logs[name]) for name, text in _COLUMNS.items() if logs.get(name) is not None]
            self.bar.write(f"step {state.global_step}/{state.max_steps}  " + "  ".join(shown))

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None
