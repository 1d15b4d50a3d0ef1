"""What loss weights by accuracy must mean: an accuracy for every part, from one place."""

from __future__ import annotations

from collections.abc import Collection

from recipes.curriculum_checks import unknown_part
from recipes.fields import problem, shown
from recipes.schema import Eval, Train

_AT = ("train", "inverse_accuracy")


def weighting_problems(trained: Train, parts: Collection[str], evaluated: Collection[str], judged: Eval) -> list[str]:
    """[] if every part has a weight, and some part has one above 0.

    Args:
        parts: names of the training parts.
        evaluated: names of the parts that evaluations score.
    """
    given, used = trained.inverse_accuracy, trained.weighting == "inverse_accuracy"
    if not used:
        unused = [name for name, value in given if value]
        allowed = "nothing where train.weighting=equal"
        advice = "do set train.weighting=inverse_accuracy, or remove it"
        return [problem((*_AT, name), "a value", allowed, advice) for name in unused]
    if given.accuracy is not None and given.records is not None:
        return [problem(_AT, "accuracy and records", "one of them", "do remove one of the two")]
    if given.accuracy is None and given.records is None and not given.adaptive:
        return [problem(_AT, "nothing", "accuracy, records or adaptive: true", "do set one of them")]
    problems = []
    if given.accuracy is not None:
        problems += [unknown_part((*_AT, "accuracy", name), parts) for name in given.accuracy if name not in parts]
        if missing := [name for name in parts if name not in given.accuracy]:
            got, allowed = f"nothing for {', '.join(missing)}", "a number from 0 to 1 for every training part"
            problems.append(problem((*_AT, "accuracy"), got, allowed, "do add them"))
        elif all(given.accuracy[name] == 1 for name in parts):
            allowed = "below 1 for some part: 1 - 1 leaves nothing to train on"
            problems.append(problem((*_AT, "accuracy"), shown(given.accuracy), allowed, "do lower one"))
    if given.adaptive and judged.count == 0:
        allowed = "false where eval.count is 0: nothing is scored before the end"
        problems.append(problem((*_AT, "adaptive"), "true", allowed, "do raise eval.count"))
    if given.adaptive and (unseen := [name for name in parts if name not in evaluated]):
        allowed = f"false unless every training part is evaluated; {', '.join(unseen)} is not"
        problems.append(problem((*_AT, "adaptive"), "true", allowed, "do add them to eval.parts"))
    return problems
