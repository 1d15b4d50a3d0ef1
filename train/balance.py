"""Which examples of a step share a forward pass, and on which process: equal work, within memory.

An arrangement gives a step's examples as micro_steps x processes bins (`train.bins`), in the order in which accelerate
deals them out: process after process, micro-step after micro-step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from torch.utils.data import Sampler

from data_mix.order import Order
from recipes.schema import Recipe
from train.arguments import accumulation_steps
from train.bins import Cost, bin_work, fewest_packs, fewest_rows, level_packs, level_rows, makespan, shared

USEFUL = 0.98
"""Of the tokens in padded rows, where the number of micro-steps can make it so."""


class Arrangement(Protocol):
    """How the examples of a step become bins."""

    @property
    def micro_steps(self) -> int: ...
    @property
    def processes(self) -> int: ...
    def __call__(self, examples: Sequence[int]) -> list[list[int]]: ...
    def describe(self) -> str: ...


@dataclass(frozen=True)
class Plain:
    """`micro_batch` examples at a time, in order."""

    micro_batch: int
    micro_steps: int
    processes: int

    def __call__(self, examples: Sequence[int]) -> list[list[int]]:
        starts = range(0, self.micro_batch * self.micro_steps * self.processes, self.micro_batch)
        return [list(examples[start : start + self.micro_batch]) for start in starts]

    def describe(self) -> str:
        return f"micro-batch {self.micro_batch} x accumulation {self.micro_steps} x processes {self.processes}"


@dataclass(frozen=True)
class Balanced:
    """Bins of at most `max_tokens` tokens, and FLOPs shared evenly between processes.

    In lockstep they are shared evenly in each micro-step instead, where that makes a step shorter.
    """

    costs: Mapping[int, Cost]
    max_tokens: int
    padded: bool
    """A bin is rows as long as its longest example (True), or one row of all its examples (False)."""
    processes: int
    micro_steps: int
    lockstep: bool = False
    """Whether processes wait for each other after every micro-step."""

    def __call__(self, examples: Sequence[int]) -> list[list[int]]:
        shares = [self._bins(share) for share in shared(examples, self.costs, self.processes)]
        even_sums = [bins[micro_step] for micro_step in range(self.micro_steps) for bins in shares]
        if not self.lockstep:
            return even_sums
        level = level_rows if self.padded else level_packs
        even_micro_steps = level(examples, self.costs, self.max_tokens, self.micro_steps, self.processes)
        return even_sums if even_micro_steps is None else min(even_micro_steps, even_sums, key=self._makespan)

    def _makespan(self, bins: Sequence[Sequence[int]]) -> float:
        work = [bin_work(bin_, self.costs, padded=self.padded) for bin_ in bins]
        return makespan(work, self.processes, lockstep=self.lockstep)

    def _bins(self, examples: Sequence[int]) -> list[list[int]]:
        """One process's bins, the dearest first, so that those of all processes meet in the same micro-step."""
        if self.padded:
            bins = self._split(fewest_rows(examples, self.costs, self.max_tokens))
        else:
            bins = fewest_packs(examples, self.costs, self.max_tokens)
        if len(bins) > self.micro_steps:
            raise RuntimeError(f"a step needs {len(bins)} micro-batches; the run was planned for {self.micro_steps}")
        bins = sorted(bins, key=lambda bin_: -sum(self.costs[example].flops for example in bin_))
        return bins + [[] for _ in range(self.micro_steps - len(bins))]

    def describe(self) -> str:
        one, several = ("balanced micro-batch", "balanced micro-batches") if self.padded else ("pack", "packs")
        kind = one if self.micro_steps == 1 else several
        return f"{self.micro_steps} {kind} of at most {self.max_tokens:,} tokens x processes {self.processes}"

    def useful(self, steps: Iterable[Sequence[int]]) -> float:
        """The share of what these steps compute that is no padding."""
        bins = [[self.costs[example].tokens for example in bin_] for step in steps for bin_ in self(step) if bin_]
        computed = (len(bin_) * max(bin_) if self.padded else sum(bin_) for bin_ in bins)
        return sum(map(sum, bins)) / sum(computed)

    def _split(self, bins: list[list[int]]) -> list[list[int]]:
        """Rows in more bins, up to all micro-steps: each cut is where it saves most padding."""
        while len(bins) < self.micro_steps:
            cuts = [(self._saved(bin_, cut), at, cut) for at, bin_ in enumerate(bins) for cut in range(1, len(bin_))]
            saved, at, cut = max(cuts, default=(0, 0, 0))
            if saved == 0:
                break
            bins = [*bins[:at], bins[at][:cut], bins[at][cut:], *bins[at + 1 :]]
        return bins

    def _saved(self, longest_first: Sequence[int], cut: int) -> int:
        """Tokens of padding that a cut saves: the shorter rows shrink to the longest of them."""
        longest, next_longest = (self.costs[longest_first[at]].tokens for at in (0, cut))
        return (len(longest_first) - cut) * (longest - next_longest)


def balanced(
    costs: Mapping[int, Cost],
    steps: Iterable[Sequence[int]],
    *,
    max_tokens: int,
    padded: bool,
    processes: int,
    lockstep: bool = False,
) -> Balanced:
    """The arrangement with as many micro-steps as the neediest of a run's steps takes.

    Rows get more of them, until USEFUL of all tokens are no padding: fewer examples, of like length, share a bin.

    Args:
        costs: of every example in steps.
        steps: the examples of each optimizer step.
        lockstep: whether processes wait for each other after every micro-step.

    Raises:
        ValueError: an example alone exceeds max_tokens.
    """
    longest = max(cost.tokens for cost in costs.values())
    if longest > max_tokens:
        raise ValueError(
            f"train.max_pack_tokens: got {max_tokens}, but the longest example has {longest} tokens; set "
            f"train.max_pack_tokens={longest} or more"
        )
    fewest = fewest_rows if padded else fewest_packs
    steps = list(steps)
    shares = [share for step in steps for share in shared(step, costs, processes)]
    needed = max(len(fewest(share, costs, max_tokens)) for share in shares)
    for micro_steps in range(needed, max(map(len, shares)) + 1):
        apart = Balanced(costs, max_tokens, padded, processes, micro_steps)
        arrangement = replace(apart, lockstep=lockstep)
        # in lockstep either may do: rows that are even in each micro-step need not come to USEFUL with any number
        if any(one.useful(steps) >= USEFUL for one in (apart, arrangement)):
            break
    return arrangement


class StepBatches(Sampler[list[int]]):
    """The bins of each step of an epoch; each of a step's examples is in exactly one of them.

    Ends where the run ends, so that no worker prepares what nobody trains on.
    """

    def __init__(
        self, order: Order, steps: int, arrange: Arrangement, *, packed: bool = False, lockstep: bool = False
    ) -> None:
        """
        Args:
            steps: optimizer steps of the whole run.
            packed: whether the examples of a bin are one row.
            lockstep: whether processes wait for each other after every micro-step.
        """
        self.order = order
        self.steps = steps
        self.arrange = arrange
        self.packed = packed
        self.lockstep = lockstep
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return self.order.steps_per_epoch * self.arrange.micro_steps * self.arrange.processes

    def __iter__(self) -> Iterator[list[int]]:
        first = self.epoch * self.order.steps_per_epoch
        for step in range(first, min(first + self.order.steps_per_epoch, self.steps)):
            yield from self.arrange(self.order.step(step))


def step_batches(
    recipe: Recipe,
    order: Order,
    steps: int,
    processes: int,
    costs: Mapping[int, Cost],
    *,
    packed: bool,
    lockstep: bool = False,
) -> StepBatches:
    """The batches that a recipe asks for.

    Args:
        steps: optimizer steps of the whole run.
        costs: of every example that the run may see; not looked at by train.batching=plain.
        packed: whether a micro-batch is one row, see `train.packing.packs`.
        lockstep: whether processes wait for each other after every micro-batch, see `train.sharding.in_lockstep`.

    Raises:
        ValueError: they cannot be had: an example is too long, or plain micro-batches do not divide the step.
    """
    train = recipe.train
    if train.batching == "plain":
        arrange: Arrangement = Plain(train.micro_batch, accumulation_steps(recipe, processes), processes)
    else:
        arrange = balanced(
            costs,
            order.possible_steps(steps),
            max_tokens=train.max_pack_tokens or recipe.model.max_tokens,
            padded=not packed,
            processes=processes,
            lockstep=lockstep,
        )
    return StepBatches(order, steps, arrange, packed=packed, lockstep=lockstep)
