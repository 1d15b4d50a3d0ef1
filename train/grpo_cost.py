"""What a GRPO run will take: hours, and bytes on disk. Rough, on assumptions that are said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from train.check import Measured
from train.cost import DECODE_S, Cost, Machine, saves_and_evaluations
from train.forecast import flops_of, training_flops
from train.grpo_forecast import GrpoForecast, grpo_batches


class Hours(NamedTuple):
    """Of a whole run, saves and evaluations aside."""

    writing: float
    """Completions; 0 where vLLM writes them."""
    scoring: float
    """Log-probabilities that are compared with, before training."""
    training: float

    @property
    def total(self) -> float:
        return sum(self)


class GrpoCost(NamedTuple):
    """Of a whole run."""

    least: Hours
    """With completions as long as the reference answers, and no group replaced."""
    most: Hours
    """With completions as long as they may be, and all that may be asked again."""
    run: Cost
    """Where completions are as long as the reference answers."""

    @property
    def beside(self) -> float:
        """Hours of saves and evaluations."""
        return self.run.saving_h + self.run.evaluation_h


def grpo_cost(forecast: GrpoForecast, machine: Machine) -> GrpoCost:
    least = _hours(forecast, forecast.measured, machine, rounds=1)
    most = _hours(forecast, forecast.rows, machine, rounds=1 + forecast.recipe.data.refill_tries)
    real = {at: flops_of(forecast.loaded, one) for at, one in forecast.measured.items()}
    training = {at: training_flops(forecast.recipe, one) for at, one in real.items()}
    flops = forecast.over_rollouts(training) * forecast.uses
    return GrpoCost(least, most, saves_and_evaluations(forecast, flops, least.training, machine))


def scoring_passes(forecast: GrpoForecast) -> list[str]:
    """The forward passes over a rollout's completions before it is trained on: what each is for."""
    trainer = forecast.recipe.trainer
    own = forecast.uses > 1
    if trainer.get("use_vllm"):
        own |= trainer.get("vllm_importance_sampling_correction", True)
    return [*(["the model's own"] if own else []), *(["the reference's"] if trainer.get("beta") else [])]


def _hours(forecast: GrpoForecast, rows: Mapping[int, Measured], machine: Machine, *, rounds: int) -> Hours:
    """
    Args:
        rows: of each puzzle.
        rounds: how often all puzzles of a step are asked.
    """
    recipe, batches = forecast.recipe, grpo_batches(forecast, rows)
    real = {at: flops_of(forecast.loaded, one) for at, one in rows.items()}
    padded = {at: one._replace(text_linear=round(one.text_linear / batches.useful)) for at, one in real.items()}
    trained = forecast.over_rollouts({at: training_flops(recipe, one) for at, one in padded.items()})
    scored = forecast.over_rollouts({at: one.total for at, one in padded.items()})
    uneven = 1 + batches.unevenness
    return Hours(
        writing=0.0 if recipe.trainer.get("use_vllm") else rounds * _writing_h(forecast, rows, machine),
        scoring=len(scoring_passes(forecast)) * machine.hours(scored) * uneven,
        training=machine.hours(trained) * forecast.uses * uneven,
    )


def _writing_h(forecast: GrpoForecast, rows: Mapping[int, Measured], machine: Machine) -> float:
    """Each completion's own prompt is read at training's rate; then tokens come one by one, a batch at a time, and all
    processes wait for the one whose batches take longest."""
    prompts = {
        at: flops_of(forecast.loaded, one._replace(lengths=one.lengths._replace(answer=1))).total
        for at, one in rows.items()
    }
    order, spread, batch = forecast.batches.order, forecast.batches.arrange, forecast.recipe.rollouts.batch
    asked = list(order.possible_steps(forecast.schedule.rollouts))
    tokens = 0
    for positions in asked:
        tokens += max(_decoded([rows[at] for at in share], batch) for share in spread.shares(positions))
    decoded = tokens / len(asked) * forecast.schedule.rollouts
    return machine.hours(forecast.over_rollouts(prompts)) + decoded * DECODE_S / 3600


def _decoded(share: list[Measured], batch: int) -> int:
    """Tokens that a process's batches of like length take, one after another."""
    longest_first = sorted(share, key=lambda one: -one.lengths.total)
    batches = (longest_first[start : start + batch] for start in range(0, len(share), batch))
    return sum(max(one.lengths.answer for one in some) for some in batches)
