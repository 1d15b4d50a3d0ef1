"""How examples become bins: packs, and rows of like length, of at most so many tokens.

A bin is what one process computes in one micro-step; it may be empty. Processes that wait for each other after every
micro-step want bins that are even within each (`level_packs`, `level_rows`); the others want even sums (`shared`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import NamedTuple

_HALVINGS = 16
"""Of the range in which the least work of the dearest bin is sought."""


class Cost(NamedTuple):
    """What an example takes."""

    tokens: int
    flops: float
    """In any unit: only ratios count."""


def bin_work(examples: Sequence[int], costs: Mapping[int, Cost], *, padded: bool) -> float:
    """FLOPs of a bin; where it is padded rows, each is as dear as the dearest of them."""
    flops = [costs[example].flops for example in examples]
    return len(flops) * max(flops, default=0.0) if padded else sum(flops)


def makespan(work: Sequence[float], processes: int, *, lockstep: bool) -> float:
    """Work from a step's begin to its end: the busiest process's, or in lockstep the dearest bins' of all micro-steps.

    Args:
        work: of each bin, process after process, micro-step after micro-step.
        lockstep: whether processes wait for each other after every micro-step.
    """
    if lockstep:
        return sum(max(work[start : start + processes]) for start in range(0, len(work), processes))
    return max(sum(work[process::processes]) for process in range(processes))


def shared(examples: Sequence[int], costs: Mapping[int, Cost], processes: int) -> list[list[int]]:
    """Examples for each process, of even FLOPs: the dearest first, each to the process with the least so far."""
    shares: list[list[int]] = [[] for _ in range(processes)]
    loads = [0.0] * processes
    for example in _dearest_first(examples, costs):
        least = loads.index(min(loads))
        shares[least].append(example)
        loads[least] += costs[example].flops
    return shares


def fewest_packs(examples: Sequence[int], costs: Mapping[int, Cost], max_tokens: int) -> list[list[int]]:
    """Bins of at most max_tokens tokens: the longest first, each into the first bin that has room."""
    bins: list[list[int]] = []
    left: list[int] = []
    for example in _longest_first(examples, costs):
        tokens = costs[example].tokens
        at = next((at for at, room in enumerate(left) if room >= tokens), len(bins))
        if at == len(bins):
            bins.append([])
            left.append(max_tokens)
        bins[at].append(example)
        left[at] -= tokens
    return bins


def fewest_rows(
    examples: Sequence[int], costs: Mapping[int, Cost], max_tokens: int, most_work: float = inf
) -> list[list[int]]:
    """Bins of at most max_tokens tokens and most_work FLOPs, padding included: neighbours in length share one."""
    bins: list[list[int]] = []
    for example in _longest_first(examples, costs):
        if bins:
            longest, rows = costs[bins[-1][0]], len(bins[-1]) + 1
            if rows * longest.tokens <= max_tokens and rows * longest.flops <= most_work:
                bins[-1].append(example)
                continue
        bins.append([example])
    return bins


def level_packs(
    examples: Sequence[int], costs: Mapping[int, Cost], max_tokens: int, micro_steps: int, processes: int
) -> list[list[int]] | None:
    """Packs that are even within each micro-step; None where they do not hold all examples.

    A micro-step is as long as its dearest example, or an even share of what is left; what would make it longer, or
    finds no room, comes later.
    """
    left = _dearest_first(examples, costs)
    bins: list[list[int]] = []
    for to_come in range(micro_steps, 0, -1):
        work = [costs[example].flops for example in left]
        most_work = max([sum(work) / (to_come * processes), *work[:1]]) if to_come > 1 else inf
        packs, left = _even_packs(left, costs, max_tokens, most_work, processes)
        bins += packs
    return None if left else _dealt(bins, lambda bin_: bin_work(bin_, costs, padded=False), processes)


def _even_packs(
    dearest_first: Sequence[int], costs: Mapping[int, Cost], max_tokens: int, most_work: float, processes: int
) -> tuple[list[list[int]], list[int]]:
    """A pack for each process, and what is left: each example goes to the pack with the least work that has room."""
    packs: list[list[int]] = [[] for _ in range(processes)]
    tokens, work, left = [0] * processes, [0.0] * processes, []
    for example in dearest_first:
        cost = costs[example]
        room = [at for at in range(processes) if tokens[at] + cost.tokens <= max_tokens]
        at = min(room, key=work.__getitem__, default=None)
        if at is None or work[at] + cost.flops > most_work:
            left.append(example)
            continue
        packs[at].append(example)
        tokens[at] += cost.tokens
        work[at] += cost.flops
    return packs, left


def level_rows(
    examples: Sequence[int], costs: Mapping[int, Cost], max_tokens: int, micro_steps: int, processes: int
) -> list[list[int]] | None:
    """Rows of like length whose dearest bin takes as little work as can be; None where they do not hold all examples.

    Those of like work share a micro-step.
    """
    low = max((costs[example].flops for example in examples), default=0.0)
    high = low * len(examples)
    bins = fewest_rows(examples, costs, max_tokens)
    if len(bins) > micro_steps * processes:
        return None
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        found = fewest_rows(examples, costs, max_tokens, middle)
        if len(found) > micro_steps * processes:
            low = middle
        else:
            high, bins = middle, found
    bins += [[] for _ in range(micro_steps * processes - len(bins))]

    def work(bin_: Sequence[int]) -> float:
        return bin_work(bin_, costs, padded=True)

    return _dealt(sorted(bins, key=work, reverse=True), work, processes)


def _dealt(bins: Sequence[list[int]], work: Callable[[Sequence[int]], float], processes: int) -> list[list[int]]:
    """The bins of each micro-step in another order: the dearest to the process that has had the least so far."""
    loads = [0.0] * processes
    dealt: list[list[int]] = []
    for start in range(0, len(bins), processes):
        dearest_first = sorted(bins[start : start + processes], key=work, reverse=True)
        least_first = sorted(range(processes), key=loads.__getitem__)
        dealt += [bin_ for _, bin_ in sorted(zip(least_first, dearest_first, strict=True))]
        loads = [load + work(bin_) for load, bin_ in zip(loads, dealt[-processes:], strict=True)]
    return dealt


def _dearest_first(examples: Sequence[int], costs: Mapping[int, Cost]) -> list[int]:
    return sorted(examples, key=lambda example: -costs[example].flops)


def _longest_first(examples: Sequence[int], costs: Mapping[int, Cost]) -> list[int]:
    return sorted(examples, key=lambda example: -costs[example].tokens)
