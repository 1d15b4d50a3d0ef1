"""Which puzzles each process has at hand for a GRPO run's completions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch.utils.data import Sampler

from data_mix.order import Order


class Asked(NamedTuple):
    """One completion that is to be written."""

    place: int
    """Number of its group among those that its step asks; negative for one that only evens out the processes."""
    position: int
    """The puzzle's, in the mixture."""
    sample: int
    """Number of the completion in its group."""


@dataclass(frozen=True)
class Rollout:
    """How the completions of a step are spread over its processes and micro-batches."""

    puzzles: int
    """Groups of a step."""
    completions: int
    """Of each group."""
    processes: int
    micro_steps: int
    """Micro-batches per optimizer step and process."""
    uses: int = 1
    """Optimizer steps that train on the same completions."""

    def share(self, positions: Sequence[int], rank: int, first_place: int = 0) -> list[Asked]:
        """A process's completions, as many as every other's: groups follow one another, and may be cut between two
        processes. Where they do not divide, the first group is asked again behind the last."""
        number = len(positions)
        while number * self.completions % self.processes:
            number += 1
        places = [*enumerate(positions, first_place)]
        places += [(len(positions) - at - 1, positions[0]) for at in range(len(positions), number)]
        every = [Asked(place, position, sample) for place, position in places for sample in range(self.completions)]
        each = len(every) // self.processes
        return every[rank * each : (rank + 1) * each]

    def at_hand(self, positions: Sequence[int], rank: int) -> list[int]:
        """The puzzles of a process's completions, each once."""
        return list(dict.fromkeys(asked.position for asked in self.share(positions, rank)))


class PromptBatches(Sampler[list[int]]):
    """The puzzles of each process at the first micro-batch that trains on their completions, and none at the others."""

    def __init__(self, order: Order, rollouts: int, rollout: Rollout) -> None:
        """
        Args:
            rollouts: how often the run asks; it ends there.
        """
        self.order = order
        self.rollouts = rollouts
        self.rollout = rollout
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        spread = self.rollout
        return self.order.steps_per_epoch * spread.uses * spread.micro_steps * spread.processes

    def __iter__(self) -> Iterator[list[int]]:
        spread, first = self.rollout, self.epoch * self.order.steps_per_epoch
        for number in range(first, min(first + self.order.steps_per_epoch, self.rollouts)):
            positions = self.order.step(number)
            yield from (spread.at_hand(positions, rank) for rank in range(spread.processes))
            yield from ([] for _ in range((spread.uses * spread.micro_steps - 1) * spread.processes))
