"""In which order a run sees the puzzles of its mixture: step by step, a function of seed and step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Protocol

from data_mix.streams import stream


class Order(Protocol):
    """The puzzles of each optimizer step of a run, by their positions in the mixture."""

    @property
    def steps_per_epoch(self) -> int: ...

    @property
    def decided(self) -> bool:
        """Whether every step is known before the run; else some depend on what evaluations will find."""
        ...

    def step(self, step: int) -> Sequence[int]:
        """The puzzles of one step, counted from 0 over all epochs."""
        ...

    def shares(self, step: int) -> dict[str, float]:
        """{part: its share of the step's puzzles}, adding up to 1; empty where the parts' counts decide."""
        ...

    def positions(self, steps: int) -> list[int]:
        """Every puzzle that a run of `steps` steps may see, once."""
        ...

    def possible_steps(self, steps: int) -> Iterator[Sequence[int]]:
        """The steps of such a run; of one that is not decided, steps that draw from the same parts as its own may."""
        ...


class EpochOrder:
    """Every puzzle once per epoch, in a permutation of its own for each; an epoch's last step may have fewer.

    The first epoch keeps the mixture's own order, which is shuffled already.
    """

    decided = True

    def __init__(self, size: int, batch: int, seed: int) -> None:
        """
        Args:
            size: puzzles in the mixture.
            batch: puzzles per step.
        """
        self.size = size
        self.batch = batch
        self.seed = seed
        self._epoch = lru_cache(maxsize=2)(self._permutation)

    @property
    def steps_per_epoch(self) -> int:
        return -(-self.size // self.batch)

    def step(self, step: int) -> Sequence[int]:
        epoch, at = divmod(step, self.steps_per_epoch)
        return self._epoch(epoch)[at * self.batch : (at + 1) * self.batch]

    def shares(self, step: int) -> dict[str, float]:
        return {}

    def positions(self, steps: int) -> list[int]:
        return list(range(min(self.size, steps * self.batch)))

    def possible_steps(self, steps: int) -> Iterator[Sequence[int]]:
        return (self.step(step) for step in range(steps))

    def _permutation(self, epoch: int) -> Sequence[int]:
        if epoch == 0:
            return range(self.size)
        return stream("epoch order", self.seed, epoch).permutation(self.size).tolist()
