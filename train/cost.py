"""What a run will take: hours, and bytes on disk. Rough, on assumptions that are said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import nn

from data_mix.mixture import evaluation_parts
from models.flops import Flops
from recipes.schema import Recipe
from train.forecast import Batches, Forecast, flops_of, training_flops
from train.parameters import ADAMW_BYTES

DECODE_S = 0.03
"""Seconds per generated token of a batch, whatever its size: in generation, GPUs wait for weights and launches."""
DISK_GB_PER_S = 1
"""10^9 bytes per second at which checkpoints are written, while training waits: a guess, as file systems differ."""


@dataclass(frozen=True)
class Machine:
    """What a run is planned for."""

    gpus: int
    gpu_memory_gb: float
    """As cards are named: an 80 GB card has about 80 x 2^30 bytes."""
    mfu: float
    """Model operations per second over the peak's."""
    peak_tflops: float
    """Of one GPU, dense, in the compute precision."""

    @property
    def gpu_bytes(self) -> int:
        return int(self.gpu_memory_gb * 2**30)

    def hours(self, flops: float) -> float:
        return flops / (self.gpus * self.peak_tflops * 1e12 * self.mfu * 3600)


class Cost(NamedTuple):
    """Of a whole run."""

    flops: float
    """Of training, padding not counted."""
    training_h: float
    """Padding included, but not what it adds to attention."""
    saves: int
    checkpoint_bytes: int
    kept: int
    """Checkpoints that are on disk at once, at the most."""
    evaluations: int
    evaluated: int
    """Puzzles over all evaluations."""
    evaluation_h: float

    @property
    def disk_bytes(self) -> int:
        return self.kept * self.checkpoint_bytes

    @property
    def saving_h(self) -> float:
        return self.saves * self.checkpoint_bytes / (DISK_GB_PER_S * 1e9 * 3600)

    @property
    def hours(self) -> float:
        return self.training_h + self.saving_h + self.evaluation_h


def cost_of(forecast: Forecast, batches: Batches, machine: Machine) -> Cost:
    """The run's operations are its examples' mean ones, by part, as often as they come."""
    real = [flops_of(forecast.loaded, one) for one in forecast.measured.values()]
    flops = _of_run(forecast, real)
    padded = _of_run(forecast, [one._replace(text_linear=round(one.text_linear / batches.useful)) for one in real])
    return saves_and_evaluations(forecast, flops, machine.hours(padded) * (1 + batches.unevenness), machine)


def saves_and_evaluations(forecast: Forecast, flops: float, training_h: float, machine: Machine) -> Cost:
    """A run's whole cost from that of its training, see `Cost`."""
    recipe = forecast.recipe
    saves = -(-forecast.steps // recipe.train.checkpoint_every)
    counts = _evaluations(recipe, saves)
    return Cost(
        flops=flops,
        training_h=training_h,
        saves=saves,
        checkpoint_bytes=checkpoint_bytes(forecast.loaded.model, recipe),
        kept=checkpoints_at_once(recipe, saves),
        evaluations=len(counts),
        evaluated=sum(counts) * len(evaluation_parts(recipe)),
        evaluation_h=sum(_evaluation_h(forecast, count, machine) for count in counts),
    )


def _of_run(forecast: Forecast, examples: Sequence[Flops]) -> float:
    return forecast.seen * sum(training_flops(forecast.recipe, one) for one in examples) / len(examples)


def _evaluations(recipe: Recipe, saves: int) -> list[int]:
    """Puzzles per part of each: one serves both at the last step."""
    last = max(recipe.eval.count, recipe.eval.final_count)
    return [count for count in [*[recipe.eval.count] * (saves - 1), last] if count]


def _evaluation_h(forecast: Forecast, count: int, machine: Machine) -> float:
    """Prompts are as dear as training's forward passes; answers come token by token, a batch at a time."""
    recipe, hours = forecast.recipe, 0.0
    for one in forecast.evaluated.values():
        calls = -(-count // recipe.eval.batch)
        tokens = -(-calls // machine.gpus) * one.lengths.answer
        hours += machine.hours(count * one.flops) + tokens * DECODE_S / 3600
    return hours


def checkpoints_at_once(recipe: Recipe, saves: int) -> int:
    """Those that are kept, the best one, and the one that is being written."""
    keep = recipe.train.keep_checkpoints
    return saves if keep is None else min(saves, keep + 2)


def checkpoint_bytes(model: nn.Module, recipe: Recipe) -> int:
    """Weights, or the adapter, and AdamW's state of what trains; the rest is small.

    Args:
        model: as `train_towers` leaves it, of any device.
    """
    parameters = list(model.parameters())
    trained = sum(parameter.numel() for parameter in parameters if parameter.requires_grad)
    if "lora" in recipe.train.methods().values():
        return trained * (4 + ADAMW_BYTES)
    return sum(parameter.numel() * parameter.element_size() for parameter in parameters) + trained * ADAMW_BYTES
