"""Loss weights of the parts: what a model can do already counts less."""

from __future__ import annotations

from pathlib import Path

from data_mix.scores import Scores
from eval_hooks.records import read_records
from eval_hooks.summary import primary_scores, summarize
from recipes.schema import Recipe


class PartWeights:
    """1 - accuracy of each part, or 1 where weights are equal.

    Accuracies are given, or an evaluation's; where they are adaptive, each evaluation of the run sets those of its
    parts from the next step on.
    """

    def __init__(self, recipe: Recipe, scores: Scores) -> None:
        """
        Args:
            scores: filled while the run goes on.

        Raises:
            ValueError: the file of records does not serve.
        """
        asked = recipe.train.inverse_accuracy
        self.equal = recipe.train.weighting == "equal"
        self.parts = tuple(recipe.data.parts)
        self._known = dict.fromkeys(self.parts, 0.0)
        if not self.equal:
            given = asked.accuracy if asked.records is None else _recorded(asked.records, recipe)
            self._known |= given or {}
        self.scores = scores if asked.adaptive else Scores()

    def at(self, step: int) -> dict[str, float]:
        """{part: weight} of a step, counted from 0."""
        found = self._known | self.scores.latest(step)
        return {part: 1 - found[part] for part in self.parts}


def _recorded(path: str, recipe: Recipe) -> dict[str, float]:
    place = "train.inverse_accuracy.records"
    if not Path(path).is_file():
        raise ValueError(
            f"{place}: got {path}, which is no file; give the records of an evaluation, such as "
            "runs/NAME/records/final.jsonl"
        )
    summary = summarize(read_records(Path(path)).records)
    parts = recipe.data.parts
    wrong = [name for name, part in parts.items() if name not in summary or summary[name].task != part.task]
    if wrong:
        held = ", ".join(f"{name} ({part.task})" for name, part in summary.items()) or "none"
        raise ValueError(
            f"{place}: got {path} with records of {held}; needed are those of every training part, under its name and "
            f"of its task, and {', '.join(wrong)} is missing; evaluate those parts, or give numbers: "
            "train.inverse_accuracy.accuracy"
        )
    accuracy = {name: value for name, value in primary_scores(summary).items() if name in parts}
    if all(value == 1 for value in accuracy.values()):
        raise ValueError(f"{place}: got {path}, where every part has accuracy 1; nothing is left to train on")
    return accuracy
