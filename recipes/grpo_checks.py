"""What a GRPO recipe must mean: whole groups in every step, and settings that count where completions are rewarded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from recipes.fields import problem, shown
from recipes.schema import Rollouts, Train

NUM_GENERATIONS = 8
"""Completions per puzzle where trainer.num_generations is left out: TRL's default."""

_DRAWN_BY_VLLM_ONLY = ("top_k", "min_p", "repetition_penalty", "generation_kwargs")


def grpo_problems(trained: Train, rollouts: Rollouts, trainer: dict[str, Any]) -> list[str]:
    """[] if it can be trained on. A value of `trainer` whose type is wrong is told elsewhere."""
    return [
        *_train_problems(trained),
        *_step_problems(trained, trainer),
        *_drawing_problems(rollouts, trainer),
    ]


def sft_problems(rollouts: Rollouts, refill_tries: Any) -> list[str]:
    """What only GRPO has, in a recipe without reward. [] if there is nothing of it."""
    allowed, advice = "in a recipe without reward", "do remove it, or set reward={} for GRPO"
    problems = []
    if rollouts != Rollouts():
        problems.append(problem("rollouts", "a value", f"nothing {allowed}", advice))
    if refill_tries:
        problems.append(problem("data.refill_tries", shown(refill_tries), f"0 {allowed}", advice))
    return problems


def _train_problems(trained: Train) -> Iterator[str]:
    if trained.batching != "plain":
        allowed = "plain in a recipe with reward: micro-batches are whole completions"
        yield problem("train.batching", trained.batching, allowed, "do set train.batching=plain")
    if trained.worst_batch_first:
        yield problem(
            "train.worst_batch_first", "true", "false in a recipe with reward: no batch is known before it is written",
            "do set train.worst_batch_first=false; python -m train.plan says what the longest needs",
        )  # fmt: skip
    for name, none in (("predictable_weight", 1.0), ("weighting", "equal")):
        value = getattr(trained, name)
        if value != none:
            allowed = f"{shown(none)} in a recipe with reward: tokens weigh what their completion earned"
            yield problem(f"train.{name}", shown(value), allowed, f"do set train.{name}={none}")


def _step_problems(trained: Train, trainer: dict[str, Any]) -> Iterator[str]:
    """A step's completions are whole groups, and a checkpoint lies between two rollouts."""
    group, iterations = trainer.get("num_generations", NUM_GENERATIONS), trainer.get("num_iterations", 1)
    batch = trained.effective_batch
    if group is None or (_whole(group) and group < 2):
        allowed = "a whole number >= 2: completions of one puzzle are compared with each other"
        yield problem("trainer.num_generations", shown(group), allowed, "do raise it, or remove it for 8")
    elif _whole(group) and batch % group:
        allowed = f"a whole multiple of trainer.num_generations, {group}"
        near = max(1, round(batch / group)) * group
        yield problem("train.effective_batch", str(batch), allowed, f"do set train.effective_batch={near}")
    if not _whole(iterations):
        return
    if iterations < 1:
        yield problem("trainer.num_iterations", str(iterations), "a whole number >= 1", "do raise it")
    elif trained.checkpoint_every % iterations:
        allowed = f"a whole multiple of trainer.num_iterations, {iterations}: a checkpoint holds no completions"
        near = -(-trained.checkpoint_every // iterations) * iterations
        advice = f"do set train.checkpoint_every={near}"
        yield problem("train.checkpoint_every", str(trained.checkpoint_every), allowed, advice)


def _drawing_problems(rollouts: Rollouts, trainer: dict[str, Any]) -> Iterator[str]:
    by_vllm = trainer.get("use_vllm", False)
    if by_vllm and rollouts.constrained:
        advice = "do remove one of the two"
        yield problem("rollouts.constrained", "true", "false where trainer.use_vllm is true", advice)
    for name in (key for key in trainer if key.startswith("vllm_") and not by_vllm):
        allowed, advice = "nothing unless trainer.use_vllm is true", "do set trainer.use_vllm=true, or remove it"
        yield problem(("trainer", name), shown(trainer[name]), allowed, advice)
    for name in _DRAWN_BY_VLLM_ONLY if not by_vllm else ():
        if name in trainer:
            allowed = "nothing unless trainer.use_vllm is true: completions are drawn by temperature and top_p"
            yield problem(("trainer", name), shown(trainer[name]), allowed, "do remove it")
    temperature, top_p = trainer.get("temperature", 1.0), trainer.get("top_p", 1.0)
    if _number(temperature) and temperature <= 0:
        allowed = "a number > 0: completions must differ"
        yield problem("trainer.temperature", shown(temperature), allowed, "do raise it")
    if _number(top_p) and not 0 < top_p <= 1:
        yield problem("trainer.top_p", shown(top_p), "a number > 0 and <= 1", "do change it")


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: Any) -> bool:
    return _whole(value) or isinstance(value, float)
