"""How far a mean over puzzles can be trusted: 95 % intervals for other puzzles of the same kind.

Several answers to one puzzle are no independent evidence: they are counted, and resampled, together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

LEVEL = 0.95
"""How often an interval holds the true mean."""

_Z = float(ndtri((1 + LEVEL) / 2))
FEW = 30
"""Puzzles below which a bootstrap's interval would be too narrow by far."""
_PRIOR = 8
_ALIKE = 1e-6
"""Scores that differ by no more are one score: sums of float32, which bootstraps use, tell no closer ones apart."""
_RESAMPLES = 4000
_SEED = 0x1D5


class Interval(NamedTuple):
    """Where the true value lies, as far as `LEVEL` goes."""

    low: float
    high: float


class Estimate(NamedTuple):
    """A mean over answers and how far it can be trusted."""

    mean: float
    low: float
    high: float
    n: int
    """Puzzles."""


def estimate(answers: Iterable[tuple[str, float]]) -> Estimate:
    """The mean over all answers.

    Wilson's interval where each puzzle has one answer of score 0 or 1, and where all puzzles are alike, as no score in
    [0, 1] spreads wider than 0 and 1 do. Else a bootstrap over puzzles; of fewer than `FEW` see `narrowed`.

    Args:
        answers: (key of the puzzle, score in [0, 1]) of each.

    Raises:
        ValueError: there is none.
    """
    sums: dict[str, float] = {}
    counts: dict[str, int] = {}
    only_0_and_1 = True
    for key, score in answers:
        sums[key] = sums.get(key, 0.0) + score
        counts[key] = counts.get(key, 0) + 1
        only_0_and_1 = only_0_and_1 and score in (0, 1)
    num_answers, n = sum(counts.values()), len(sums)
    if not n:
        raise ValueError("got no answer; allowed: one or more; do leave out what applies to no answer")
    mean = math.fsum(sums.values()) / num_answers
    if alike([sums[key] / counts[key] for key in sums]) or (only_0_and_1 and num_answers == n):
        return Estimate(mean, *wilson(mean * n, n), n)
    keys = sorted(sums)  # the same draws in whatever order the answers come
    interval = narrowed if n < FEW else bootstrap
    return Estimate(mean, *interval([sums[key] for key in keys], [counts[key] for key in keys]), n)


def alike(values: Sequence[float]) -> bool:
    """Whether they differ by rounding alone, so that a bootstrap sees no spread."""
    return max(values) - min(values) <= _ALIKE


def wilson(successes: float, n: float) -> Interval:
    """Wilson's score interval of a proportion (Wilson 1927), which never leaves [0, 1] and never has width 0.

    Raises:
        ValueError: n is not at least 1, or successes not between 0 and n.
    """
    if not (n >= 1 and 0 <= successes <= n):
        raise ValueError(f"got {successes:g} of {n}; allowed: 0 to n of at least 1; do count again")
    share, spread = successes / n, _Z**2 / n
    middle = (share + spread / 2) / (1 + spread)
    reach = _Z * math.sqrt(share * (1 - share) / n + spread / (4 * n)) / (1 + spread)
    low, high = max(0.0, middle - reach), min(1.0, middle + reach)
    return Interval(low if successes else 0.0, high if successes < n else 1.0)  # exact, whatever rounding says


def narrowed(sums: Sequence[float], counts: Sequence[int]) -> Interval:
    """Interval of sum(sums) / sum(counts), for few puzzles, of which a bootstrap sees too little spread: Wilson's, as
    of more puzzles where scores spread less than 0 and 1 would. How much less is taken as if `_PRIOR` puzzles more had
    spread like 0 and 1, so that it is too wide rather than too narrow.

    Args:
        sums: a puzzle's sum of scores, in [0, its count].
        counts: a puzzle's number of answers.
    """
    total, answers = np.asarray(sums, float), np.asarray(counts, float)
    n, mean = len(total), float(total.sum() / answers.sum())
    widest = mean * (1 - mean)
    if n < 2 or widest <= 0:
        return wilson(mean * n, n)
    spread = float(((total - mean * answers) ** 2).sum() / (n - 1) / answers.mean() ** 2)
    share = (n * min(1.0, spread / widest) + _PRIOR) / (n + _PRIOR)
    return wilson(mean * n / share, n / share)


def bootstrap(sums: Sequence[float], counts: Sequence[int]) -> Interval:
    """Interval of sum(sums) / sum(counts), drawing puzzles with replacement: BCa, bias-corrected and accelerated
    (Efron 1987), since scores pile up at 0 and 1. Always the same draws for as many puzzles.

    Args:
        sums: a puzzle's sum of scores. Not all puzzles' means may be `alike`.
        counts: a puzzle's number of answers.
    """
    total, answers = np.asarray(sums, np.float32), np.asarray(counts, np.float32)
    draws = _resamples(len(total))
    means = (draws @ total) / (draws @ answers)
    mean = float(total.sum(dtype=float) / answers.sum(dtype=float))
    near = _ALIKE * max(1.0, abs(mean))
    below = (np.mean(means < mean - near) + np.mean(means <= mean + near)) / 2
    bias = ndtri(np.clip(below, 1 / _RESAMPLES, 1 - 1 / _RESAMPLES))
    influence = total.astype(float) - mean * answers
    acceleration = (influence**3).sum() / (6 * (influence**2).sum() ** 1.5)
    normal = bias + np.array([-_Z, _Z])
    low, high = np.quantile(means, ndtr(bias + normal / (1 - acceleration * normal)))
    return Interval(min(float(low), mean), max(float(high), mean))


@lru_cache(maxsize=4)
def _resamples(n: int) -> np.ndarray:
    """How often each of n puzzles is drawn: float32 (resamples, n)."""
    draws = np.random.default_rng([_SEED, n]).multinomial(n, np.full(n, 1 / n), size=_RESAMPLES)
    return draws.astype(np.float32)


def beyond_chance(score: float, chance: float) -> float | None:
    """(score - chance) / (1 - chance): 0 for a guesser, 1 for all right, negative below the guesser.

    None where the guesser is always right, and nothing can be told from it.
    """
    return None if chance >= 1 else (score - chance) / (1 - chance)


def estimate_beyond_chance(score: Estimate, chance: float) -> Estimate | None:
    """The same of a mean and its interval: chance is known exactly."""
    if chance >= 1:
        return None
    mean, low, high = ((each - chance) / (1 - chance) for each in (score.mean, score.low, score.high))
    return Estimate(mean, low, high, score.n)


def mean_of(estimates: Sequence[Estimate]) -> Estimate:
    """The mean of several estimates of different puzzles, each weighing the same.

    How far it can be trusted follows from their intervals (MOVER, Zou and Donner 2008), so that those need not be
    symmetric.
    """
    k = len(estimates)
    mean = math.fsum(each.mean for each in estimates) / k
    down = math.hypot(*(each.mean - each.low for each in estimates)) / k
    up = math.hypot(*(each.high - each.mean for each in estimates)) / k
    return Estimate(mean, mean - down, mean + up, sum(each.n for each in estimates))
