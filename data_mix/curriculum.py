"""Parts whose shares change over a run: at fixed steps, or when evaluations have found enough.

A stage that scores end is decided by an evaluation and ends `lag` steps after it, so that batches which are being
prepared already stay as they are, for every number of workers and processes. Nothing is stored: the same scores, by
step, make the same run, and a checkpoint holds them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence

from data_mix.mixture import Mixture
from data_mix.order import EpochOrder, Order
from data_mix.scores import Scores
from data_mix.streams import stream
from recipes.schema import Curriculum, Recipe, Stage

logger = logging.getLogger(__name__)


def stage_starts(curriculum: Curriculum, scores: Scores) -> list[int]:
    """The step at which each stage begins, as far as it is decided; the first at 0."""
    starts = [0]
    for stage in list(curriculum.stages.values())[:-1]:
        end = _end(stage, starts[-1], curriculum.lag, scores)
        if end is None:
            break
        starts.append(end)
    return starts


def _end(stage: Stage, start: int, lag: int, scores: Scores) -> int | None:
    ends = [] if stage.steps is None else [start + stage.steps]
    if stage.until is not None:
        ends += [step + lag for step, found in scores if step > start and _reached(stage.until, found)][:1]
    return min(ends, default=None)


def _reached(wanted: Mapping[str, float], found: Mapping[str, float]) -> bool:
    return all(found.get(part, 0.0) >= least for part, least in wanted.items())


class CurriculumOrder:
    """Each step draws from the parts by the shares of its stage; each part's puzzles come once before one comes again.

    From a stage's beginning to any step of it, no part is ahead of its share by more than one example, nor behind it by
    more than there are parts.
    """

    def __init__(
        self, curriculum: Curriculum, positions: Mapping[str, Sequence[int]], batch: int, seed: int, scores: Scores
    ) -> None:
        """
        Args:
            positions: part -> where in the mixture its puzzles are.
            batch: puzzles per step.
            scores: filled while the run goes on.
        """
        self._curriculum = curriculum
        self._stages = list(curriculum.stages.values())
        self._positions = positions
        self._batch = batch
        self._seed = seed
        self._scores = scores
        self._made: list[list[int]] = []
        self._stage = -1
        self._draws: Iterator[list[str]] = iter(())
        self._puzzles = {part: self._endless(part) for part in positions}

    @property
    def steps_per_epoch(self) -> int:
        return -(-sum(map(len, self._positions.values())) // self._batch)

    @property
    def decided(self) -> bool:
        return all(stage.until is None for stage in self._stages)

    def step(self, step: int) -> Sequence[int]:
        """
        Raises:
            RuntimeError: an evaluation has changed a step that was given out already.
        """
        starts = stage_starts(self._curriculum, self._scores)
        while len(self._made) <= step:
            due = sum(start <= len(self._made) for start in starts) - 1
            if due != self._stage:
                if starts[due] != len(self._made):
                    raise RuntimeError(
                        f"stage {due} of the curriculum begins at step {starts[due]}, but batches up to step "
                        f"{len(self._made) - 1} have been made without it; raise data.curriculum.lag"
                    )
                logger.info("curriculum: stage %s from step %s on", list(self._curriculum.stages)[due], starts[due])
                self._stage, self._draws = due, draws(self._stages[due].shares, self._batch)
            self._made.append([next(self._puzzles[part]) for part in next(self._draws)])
        return self._made[step]

    def shares(self, step: int) -> dict[str, float]:
        starts = stage_starts(self._curriculum, self._scores)
        shares = self._stages[sum(start <= step for start in starts) - 1].shares
        return {part: shares.get(part, 0.0) / sum(shares.values()) for part in self._positions}

    def positions(self, steps: int) -> list[int]:
        if self.decided:
            return list(dict.fromkeys(at for step in range(steps) for at in self.step(step)))
        parts = dict.fromkeys(part for stage in self._stages for part in stage.shares)
        return [position for part in parts for position in self._positions[part]]

    def possible_steps(self, steps: int) -> Iterator[Sequence[int]]:
        if self.decided:
            yield from (self.step(step) for step in range(steps))
            return
        for stage in self._stages:
            for parts, _ in zip(draws(stage.shares, self._batch), range(steps), strict=False):
                yield [self._positions[part][0] for part in parts]

    def _endless(self, part: str) -> Iterator[int]:
        """A part's puzzles, pass after pass, each in an order of its own."""
        positions, passed = self._positions[part], 0
        while True:
            for at in stream("curriculum", self._seed, part, passed).permutation(len(positions)):
                yield positions[at]
            passed += 1


def draws(shares: Mapping[str, float], batch: int) -> Iterator[list[str]]:
    """The parts that each step of a stage draws from: one for each of `batch` places, evenly spread."""
    total = sum(shares.values())
    credit = dict.fromkeys(shares, 0.0)
    while True:
        step = []
        for _ in range(batch):
            for part, share in shares.items():
                credit[part] += share / total
            part = max(credit, key=credit.__getitem__)
            credit[part] -= 1
            step.append(part)
        yield step


def training_order(recipe: Recipe, mixture: Mixture, scores: Scores) -> Order:
    """The order that a recipe asks for."""
    batch, curriculum = recipe.train.effective_batch, recipe.data.curriculum
    if curriculum is None:
        return EpochOrder(len(mixture), batch, recipe.seed)
    return CurriculumOrder(curriculum, mixture.positions(), batch, recipe.seed, scores)
