"""Completions of a step's puzzles: each drawn by a seed of its own, so that nothing depends on who else is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch

from data_mix.groups import Group
from data_mix.mixture import Mixture
from data_mix.prompt_batches import Asked
from data_mix.source import Posed
from eval_hooks.evaluate import answer_limit, grammar_of
from models.constrained import ConstrainedCompletion, Decision, generate_constrained
from models.drawing import Drawing, GumbelDraw, draw_seed
from models.generation import Completion, generate
from models.lengths import Lengths
from models.load import Loaded
from models.tokens import answer_ids, encode_prompt
from recipes.schema import Recipe
from train.reward_functions import earned, reward_of, reward_weights


@dataclass(frozen=True)
class Prompt:
    """One puzzle that is asked, with its images."""

    posed: Posed
    images: list[np.ndarray]
    encoded: Mapping[str, torch.Tensor]
    """See `models.tokens.encode_prompt`."""
    limit: int
    """Most tokens of a completion."""


@dataclass(frozen=True)
class Written:
    """One completion, and what it earns."""

    completion: Completion
    scores: Mapping[str, float]
    reward: float
    primary: float
    logps: Sequence[float] | None = None
    """Log-probability of each token by the engine that drew it; None where that is the model itself."""

    @property
    def decisions(self) -> Sequence[Decision] | None:
        """The tokens that were chosen, where the form dictated the others."""
        return self.completion.decisions if isinstance(self.completion, ConstrainedCompletion) else None


Engine = Callable[
    [int, Sequence[Asked], Sequence[Prompt], Callable[[], None]], Sequence[tuple[Completion, Sequence[float] | None]]
]
"""(step, what is asked, the prompt of each, called while it goes on) -> completions, with the engine's own
log-probabilities."""


class OwnEngine:
    """Completions by the model that is trained, in batches of like length."""

    def __init__(self, recipe: Recipe, loaded: Loaded, drawing: Drawing) -> None:
        self._seed = recipe.seed
        self._batch = recipe.rollouts.batch
        self._constrained = recipe.rollouts.constrained
        self._autocast = recipe.train.precision == "bf16"
        self._loaded = loaded
        self._drawing = drawing

    def __call__(
        self, step: int, asked: Sequence[Asked], prompts: Sequence[Prompt], beat: Callable[[], None]
    ) -> list[tuple[Completion, Sequence[float] | None]]:
        written: dict[int, Completion] = {}
        lengths = [one.encoded["input_ids"].shape[1] + one.limit for one in prompts]
        order = sorted(range(len(asked)), key=lambda at: (-lengths[at], asked[at]))
        for start in range(0, len(order), self._batch):
            some = order[start : start + self._batch]
            written |= zip(some, self._write(step, [(asked[at], prompts[at]) for at in some]), strict=True)
            beat()
        return [(written[at], None) for at in range(len(asked))]

    def _write(self, step: int, some: Sequence[tuple[Asked, Prompt]]) -> Sequence[Completion]:
        seeds = [draw_seed("rollout", self._seed, step, *asked) for asked, _ in some]
        draw = GumbelDraw(self._drawing, seeds)
        prompts = [one.encoded for _, one in some]
        device = self._loaded.model.device.type
        with torch.autocast(device, torch.bfloat16) if self._autocast else nullcontext():
            if self._constrained:
                return generate_constrained(self._loaded, prompts, [grammar_of(one.posed) for _, one in some], draw)
            return generate(self._loaded, prompts, [one.limit for _, one in some], draw)


class Prompts:
    """The puzzles of a mixture as prompts, those of the newest steps only."""

    def __init__(self, loaded: Loaded, mixture: Mixture) -> None:
        self._loaded = loaded
        self._mixture = mixture
        self._held: dict[int, Prompt] = {}

    def hold(self, examples: Mapping[int, tuple[Posed, list[np.ndarray]]]) -> None:
        """What has been rendered already, by position; all that was held before is let go."""
        self._held = {position: self._prompt(*one) for position, one in examples.items()}

    def __getitem__(self, position: int) -> Prompt:
        if position not in self._held:
            posed = self._mixture[position]
            self._held[position] = self._prompt(posed, posed.example().images)
        return self._held[position]

    def _prompt(self, posed: Posed, images: list[np.ndarray]) -> Prompt:
        encoded = encode_prompt(self._loaded, posed.puzzle.messages, images)
        answer = answer_ids(self._loaded, posed.task.gold(posed.puzzle.target))
        lengths = Lengths(encoded["input_ids"].shape[1], len(answer))
        return Prompt(posed, images, encoded, answer_limit(lengths, self._loaded.max_tokens))


def judged(recipe: Recipe) -> Callable[[Posed, Completion, Sequence[float] | None], Written]:
    """What makes a completion a `Written` one, by a recipe's weights."""
    weights = reward_weights(recipe)

    def judge(posed: Posed, completion: Completion, logps: Sequence[float] | None) -> Written:
        scores = earned(posed.task, completion.text, posed.puzzle.spec, posed.puzzle.target)
        return Written(completion, scores, reward_of(scores, weights), scores[posed.task.primary], logps)

    return judge


def grouped(positions: Sequence[int], parts: Sequence[str], told: Sequence[tuple[float, float]]) -> list[Group]:
    """The groups of a step.

    Args:
        positions: of each group's puzzle.
        parts: of each group.
        told: (primary score, reward) of every completion, group after group.
    """
    each = len(told) // len(positions)
    return [
        Group(position, part, *map(list, zip(*told[at * each : (at + 1) * each], strict=True)))
        for at, (position, part) in enumerate(zip(positions, parts, strict=True))
    ]
