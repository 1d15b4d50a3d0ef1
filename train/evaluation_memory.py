"""What a process holds on its GPU while a checkpoint is evaluated, by arithmetic: no weights, no GPU."""

from __future__ import annotations

from typing import NamedTuple

from models.flops import windows
from train.forecast import Forecast
from train.memory import DIVIDED, OVERHEAD_BYTES, Memory


class EvaluationMemory(NamedTuple):
    """Bytes on one GPU, about."""

    standing: int
    """Weights, AdamW's state and DDP's buckets, as in training; there are no gradients between steps."""
    gathered: int
    """All weights, where they are sharded: each process generates on its own."""
    answer: int
    """Of one puzzle, the longest: keys and values of all its tokens, and the work of one layer on its prompt."""
    together: int
    """Puzzles of a batch; 0 where nothing is evaluated."""

    @property
    def peak(self) -> int:
        return self.standing + self.gathered + self.together * self.answer if self.together else 0

    def fits(self, gpu_bytes: int) -> bool:
        return not self.together or self.peak + OVERHEAD_BYTES <= gpu_bytes

    def most(self, gpu_bytes: int) -> int:
        """Puzzles of a batch that fit; 0: not even one."""
        return max(0, gpu_bytes - OVERHEAD_BYTES - self.standing - self.gathered) // max(1, self.answer)


def evaluation_memory(forecast: Forecast, training: Memory, sharding: str) -> EvaluationMemory:
    """
    Args:
        training: of the same run.
        sharding: a key of DIVIDED.
    """
    recipe, model = forecast.recipe, forecast.loaded.model
    text, sharded = model.config.text_config, "weights" in DIVIDED[sharding]
    bf16 = recipe.train.precision == "bf16"
    width = 2 if bf16 and sharded else model.get_input_embeddings().weight.element_size()
    longest = max((one.lengths for one in forecast.evaluated.values()), key=lambda one: one.total, default=None)
    count = max(recipe.eval.count, recipe.eval.final_count) if longest else 0
    answer = 0
    if longest:
        seen = sum(longest.total if window is None else min(longest.total, window) for window in windows(text))
        cache = 2 * text.num_key_value_heads * text.head_dim * width * seen
        # three wide tensors of an MLP; its input, the residual, the embeddings and the image's features beside them
        work = (3 * text.intermediate_size + 4 * text.hidden_size) * (2 if bf16 else width) * longest.prompt
        answer = cache + work
    return EvaluationMemory(
        standing=training.weights + training.optimizer + training.buckets,
        gathered=width * sum(parameter.numel() for parameter in model.parameters()) if sharded else 0,
        answer=answer,
        together=min(recipe.eval.batch, count),
    )
