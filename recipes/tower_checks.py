"""What a recipe's train.towers must mean. What the model's family allows is checked where the family is known."""

from __future__ import annotations

from typing import Any

from recipes.fields import problem, shown
from recipes.schema import Train


def tower_problems(train: Train, trainer: Any) -> list[str]:
    """One adapter is saved and merged as a whole: beside it no tower trains in full, but for the small projector."""
    methods = train.methods()
    if set(methods.values()) == {"frozen"}:
        advice = "do set train.towers.language.method=full, or another"
        return [problem("train.towers", "frozen for all three", "at least one that is full or lora", advice)]
    adapted = [name for name, method in methods.items() if method == "lora"]
    problems = []
    for name, tower in train.towers:
        method, place = methods[name], f"train.towers.{name}"
        if method == "full" and adapted and name != "projector":
            got = "full" if tower.method else f"full, as train.method={train.method} says"
            allowed = f"lora | frozen where {adapted[0]} is lora"
            advice = f"do set {place}.method=lora, or leave lora out of {', '.join(adapted)}"
            problems.append(problem(f"{place}.method", got, allowed, advice))
        if tower.learning_rate is not None and method == "frozen":
            got, advice = shown(tower.learning_rate), f"do remove it, or set {place}.method"
            problems.append(problem(f"{place}.learning_rate", got, "null where the tower is frozen", advice))
        if tower.targets is not None and method != "lora":
            got, advice = shown(tower.targets), f"do remove them, or set {place}.method=lora"
            problems.append(problem(f"{place}.targets", got, f"null where the tower is {method}", advice))
    checkpointing = trainer.get("gradient_checkpointing_kwargs") if isinstance(trainer, dict) else None
    if methods["vision"] == "lora" and isinstance(checkpointing, dict) and checkpointing.get("use_reentrant"):
        # nothing that enters the tower needs a gradient, so a reentrant pass would compute none inside it
        place, allowed = "trainer.gradient_checkpointing_kwargs.use_reentrant", "false where the vision tower is lora"
        problems.append(problem(place, "true", allowed, "do remove it"))
    return problems
