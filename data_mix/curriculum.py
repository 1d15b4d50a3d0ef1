"""Parts whose shares change over a run: at fixed steps, or when its evaluations or groups have found enough.

Nothing is stored: the same scores, by step, make the same run, and a checkpoint holds them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence

from data_mix.mixture import Mixture
from data_mix.order import EpochOrder, Order
from data_mix.phases import Phase, by_scores, phases, possible_shares
from data_mix.scores import Scores
from data_mix.streams import stream
from recipes.schema import Curriculum, Recipe

logger = logging.getLogger(__name__)


class CurriculumOrder:
    """Each step draws from the parts by the shares of its phase; each part's puzzles come once before one comes again.

    From a phase's beginning to any step of it, no part is ahead of its share by more than one example, nor behind it by
    more than there are parts. An adaptive curriculum keeps that from the run's beginning, as within one of its short
    phases a small share may never be due.
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
        self._positions = positions
        self._batch = batch
        self._seed = seed
        self._scores = scores
        self._made: list[list[int]] = []
        self._phase = -1
        self._credit: dict[str, float] = {}
        self._draws: Iterator[list[str]] = iter(())
        self._puzzles = {part: self._endless(part) for part in positions}

    @property
    def steps_per_epoch(self) -> int:
        return -(-sum(map(len, self._positions.values())) // self._batch)

    @property
    def decided(self) -> bool:
        return not by_scores(self._curriculum)

    def phases(self) -> list[Phase]:
        """As far as they are decided."""
        return phases(self._curriculum, list(self._positions), self._scores)

    def step(self, step: int) -> Sequence[int]:
        """
        Raises:
            RuntimeError: a decision has changed a step that was given out already.
        """
        if step >= len(self._made):
            self._make(step)
        return self._made[step]

    def _make(self, last: int) -> None:
        told = self.phases()
        while len(self._made) <= last:
            due = sum(phase.start <= len(self._made) for phase in told) - 1
            if due != self._phase:
                start, name, shares = told[due]
                if start != len(self._made):
                    raise RuntimeError(
                        f"curriculum: {name} begins at step {start}, but batches up to step {len(self._made) - 1} have "
                        "been made without it; raise data.curriculum.lag"
                    )
                logger.info("curriculum: %s from step %s on", name, start)
                if self._curriculum.adaptive is None:
                    self._credit = {}
                self._phase, self._draws = due, draws(shares, self._batch, self._credit)
            self._made.append([next(self._puzzles[part]) for part in next(self._draws)])

    def shares(self, step: int) -> dict[str, float]:
        shares = [phase.shares for phase in self.phases() if phase.start <= step][-1]
        return {part: shares.get(part, 0.0) / sum(shares.values()) for part in self._positions}

    def positions(self, steps: int) -> list[int]:
        if self.decided:
            return list(dict.fromkeys(at for step in range(steps) for at in self.step(step)))
        parts = dict.fromkeys(part for shares in self._possible() for part in shares)
        return [position for part in parts for position in self._positions[part]]

    def possible_steps(self, steps: int) -> Iterator[Sequence[int]]:
        if self.decided:
            yield from (self.step(step) for step in range(steps))
            return
        for shares in self._possible():
            for parts, _ in zip(draws(shares, self._batch), range(steps), strict=False):
                yield [self._positions[part][0] for part in parts]

    def _possible(self) -> list[Mapping[str, float]]:
        return possible_shares(self._curriculum, list(self._positions))

    def _endless(self, part: str) -> Iterator[int]:
        """A part's puzzles, pass after pass, each in an order of its own."""
        positions, passed = self._positions[part], 0
        while True:
            for at in stream("curriculum", self._seed, part, passed).permutation(len(positions)):
                yield positions[at]
            passed += 1


def draws(shares: Mapping[str, float], batch: int, credit: dict[str, float] | None = None) -> Iterator[list[str]]:
    """The parts that each step of a phase draws from: one for each of `batch` places, evenly spread.

    Args:
        credit: {part: examples that it is owed} from the phase before, kept up to date.
    """
    total = sum(shares.values())
    credit = {} if credit is None else credit
    while True:
        step = []
        for _ in range(batch):
            for part, share in shares.items():
                credit[part] = credit.get(part, 0.0) + share / total
            part = max(shares, key=credit.__getitem__)
            credit[part] -= 1
            step.append(part)
        yield step


def training_order(recipe: Recipe, mixture: Mixture, scores: Scores) -> Order:
    """The order that a recipe asks for."""
    batch, curriculum = recipe.train.effective_batch, recipe.data.curriculum
    if curriculum is None:
        return EpochOrder(len(mixture), batch, recipe.seed)
    return CurriculumOrder(curriculum, mixture.positions(), batch, recipe.seed, scores)
