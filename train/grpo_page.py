"""What the page of a plan says of a GRPO run where it differs from supervised training."""

from __future__ import annotations

from train.cost import DECODE_S, Machine
from train.evaluation_memory import EvaluationMemory
from train.forecast import Batches
from train.grpo_cost import GrpoCost, scoring_passes
from train.grpo_forecast import GrpoForecast
from train.plan_page import (
    SCRATCH_TIMES,
    beside_lines,
    gpu_hours_of,
    holding_line,
    pflop,
    rate,
    shape_of,
    time_of,
    useful_line,
)


def rollouts_lines(forecast: GrpoForecast, batches: Batches) -> list[str]:
    rollout, largest, tries = forecast.schedule.rollout, batches.largest, forecast.recipe.data.refill_tries
    asked = rollout.puzzles * forecast.schedule.rollouts
    limit = max(one.lengths.answer for one in forecast.rows.values())
    again = f", up to {asked * (1 + tries):,} with data.refill_tries={tries}" if tries else ""
    uses = f", each trained on in {rollout.uses} steps" if rollout.uses > 1 else ""
    each = f"{rollout.puzzles} puzzle(s), {rollout.completions} completions each of at most {limit:,} tokens"
    return [
        f"{forecast.steps:,} steps of {forecast.recipe.train.effective_batch} completions = "
        f"{forecast.batches.arrange.describe()}",
        f"{forecast.schedule.rollouts:,} rollouts: {each}{uses}",
        f"{asked:,} puzzles asked{again}",
        f"{forecast.seen:,} completions trained on, {forecast.tokens:,} tokens if as long as reference answers",
        useful_line(forecast, batches),
        f"largest micro-batch: {shape_of(largest)}; at most {largest.patches:,} patches",
    ]


def grpo_cost_lines(
    forecast: GrpoForecast,
    cost: GrpoCost,
    writing: EvaluationMemory | None,
    evaluation: EvaluationMemory,
    machine: Machine,
) -> list[str]:
    least, most, passes = cost.least, cost.most, scoring_passes(forecast)
    scoring = f"log-probabilities before training ({', '.join(passes)}): {between(least.scoring, most.scoring)}"
    hours = least.total + cost.beside, most.total + cost.beside
    gpu_hours = dict.fromkeys(gpu_hours_of(machine, one) for one in hours)
    return [
        *_writing_lines(forecast, cost, writing),
        *([scoring] if passes else []),
        f"training: {pflop(cost.run.flops)} PFLOP; {between(least.training, most.training)} on {rate(machine)}",
        *beside_lines(forecast, cost.run, evaluation),
        f"all: about {between(*hours)}, {' to '.join(gpu_hours)} GPU hours"
        + ("" if writing else ", without what vLLM takes"),
        "(first: completions as long as reference answers, none asked again; then: as long as they may be, all asked "
        "again that may be)",
        *([SCRATCH_TIMES] if forecast.recipe.model.scratch else []),
    ]


def _writing_lines(forecast: GrpoForecast, cost: GrpoCost, memory: EvaluationMemory | None) -> list[str]:
    if memory is None:
        return ["rollouts: by vLLM, whose time, and memory within its share, are not planned here"]
    pace = f"{1000 * DECODE_S:.0f} ms per token and batch of {memory.together}"
    return [
        f"rollouts: about {between(cost.least.writing, cost.most.writing)} ({pace})",
        holding_line("rollouts", memory, "completions", "rollouts.batch"),
    ]


def between(least: float, most: float) -> str:
    """Hours."""
    return " to ".join(dict.fromkeys((time_of(least), time_of(most))))
