"""What a process holds on its GPU while answers are written, by arithmetic: no weights, no GPU."""

from __future__ import annotations

from typing import NamedTuple

from models.flops import windows
from models.lengths import Lengths
from train.forecast import Forecast
from train.grpo_forecast import GrpoForecast
from train.memory import DIVIDED, OVERHEAD_BYTES, Memory


class EvaluationMemory(NamedTuple):
    """Bytes on one GPU, about."""

    standing: int
    """Weights, AdamW's state and what else stays between two steps, as in training; there are no gradients."""
    gathered: int
    """All weights, where they are sharded: each process generates on its own."""
    answer: int
    """Of one answer, the longest: keys and values of its prompt and all its tokens, and the work of one layer on the
    prompt."""
    together: int
    """Answers of a batch; 0 where none is written."""

    @property
    def peak(self) -> int:
        return self.standing + self.gathered + self.together * self.answer if self.together else 0

    def fits(self, gpu_bytes: int) -> bool:
        return not self.together or self.peak + OVERHEAD_BYTES <= gpu_bytes

    def most(self, gpu_bytes: int) -> int:
        """Answers of a batch that fit; 0: not even one."""
        return max(0, gpu_bytes - OVERHEAD_BYTES - self.standing - self.gathered) // max(1, self.answer)


def evaluation_memory(forecast: Forecast, training: Memory, sharding: str) -> EvaluationMemory:
    """
    Args:
        training: of the same run.
        sharding: a key of DIVIDED.
    """
    longest = max((one.lengths for one in forecast.evaluated.values()), key=lambda one: one.total, default=None)
    count = max(forecast.recipe.eval.count, forecast.recipe.eval.final_count)
    return _writing(forecast, training, sharding, longest, min(forecast.recipe.eval.batch, count))


def rollout_memory(forecast: GrpoForecast, training: Memory, sharding: str) -> EvaluationMemory | None:
    """Of a GRPO run's completions, each as long as it may be; None where vLLM writes them.

    Args:
        training: of the same run.
        sharding: a key of DIVIDED.
    """
    if forecast.recipe.trainer.get("use_vllm"):
        return None
    rollout, batch = forecast.schedule.rollout, forecast.recipe.rollouts.batch
    longest = max((one.lengths for one in forecast.rows.values()), key=lambda one: one.total)
    each = rollout.puzzles * rollout.completions // rollout.processes
    return _writing(forecast, training, sharding, longest, min(batch, each))


def _writing(
    forecast: Forecast, training: Memory, sharding: str, longest: Lengths | None, together: int
) -> EvaluationMemory:
    model, sharded = forecast.loaded.model, "weights" in DIVIDED[sharding]
    text, bf16 = model.config.text_config, forecast.recipe.train.precision == "bf16"
    width = 2 if bf16 and sharded else model.get_input_embeddings().weight.element_size()
    answer = 0
    if longest:
        seen = sum(longest.total if window is None else min(longest.total, window) for window in windows(text))
        cache = 2 * text.num_key_value_heads * text.head_dim * width * seen
        # three wide tensors of an MLP; its input, the residual, the embeddings and the image's features beside them
        work = (3 * text.intermediate_size + 4 * text.hidden_size) * (2 if bf16 else width) * longest.prompt
        answer = cache + work
    return EvaluationMemory(
        standing=training.between_steps,
        gathered=width * sum(parameter.numel() for parameter in model.parameters()) if sharded else 0,
        answer=answer,
        together=together if longest else 0,
    )
