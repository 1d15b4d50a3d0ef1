"""Two models on the same puzzles: what the difference is, and whether chance could have made it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtri
from scipy.stats import binomtest

from eval_hooks.intervals import FEW, LEVEL, Interval, alike, bootstrap, narrowed

_FLIPS = 4999
_SEED = 0xF11


@dataclass(frozen=True)
class Difference:
    """Of the mean scores of two models over the puzzles that both answered."""

    n: int
    """Puzzles in common."""
    one: float
    other: float
    """Mean scores; a puzzle's samples count as their mean."""
    difference: float
    """one - other."""
    low: float
    high: float
    """95 % interval of the difference."""
    p: float
    """How often a difference at least as large comes about where the two models are equals."""
    test: str
    """McNemar, for scores of 0 and 1; sign flips."""


def compare_scores(one: Mapping[str, float], other: Mapping[str, float]) -> Difference | None:
    """Compare on the puzzles in both; None if there is none.

    Scores of 0 and 1 alone: the exact McNemar test and Agresti and Min's interval (2005). Else: sign flips of each
    puzzle's difference, and a bootstrap over puzzles, of few `narrowed`; where there is no spread, the interval is that
    of 0 and 1.

    Args:
        one, other: key of the puzzle -> its score, in [0, 1].
    """
    keys = sorted(one.keys() & other.keys())
    if not keys:
        return None
    first, second = [one[key] for key in keys], [other[key] for key in keys]
    differences = [a - b for a, b in zip(first, second, strict=True)]
    only_0_and_1 = {*first, *second} <= {0, 1}
    if only_0_and_1 or alike(differences):
        gained, lost = (math.fsum(max(0.0, sign * each) for each in differences) for sign in (1, -1))
        low, high = matched_proportions(gained, lost, len(keys))
    elif len(keys) < FEW:
        low, high = (2 * end - 1 for end in narrowed([(each + 1) / 2 for each in differences], [1] * len(keys)))
    else:
        low, high = bootstrap(differences, [1] * len(keys))
    if only_0_and_1:
        p, test = mcnemar(differences.count(1), differences.count(-1)), "McNemar"
    else:
        p, test = sign_flips(differences), "sign flips"
    mean, mean_other, difference = (math.fsum(each) / len(keys) for each in (first, second, differences))
    return Difference(len(keys), mean, mean_other, difference, low, high, p, test)


def mcnemar(gained: int, lost: int) -> float:
    """Two-sided p of the exact McNemar test: of the puzzles that one alone solved, is it half the time the same one?"""
    return float(binomtest(gained, gained + lost).pvalue) if gained + lost else 1.0


def matched_proportions(gained: float, lost: float, n: int) -> Interval:
    """Interval of (gained - lost) / n: Wald's after half a puzzle more in each cell of the 2x2 table (Agresti and Min,
    Statistics in Medicine 2005). It has width even where nothing was gained or lost."""
    gained, lost, n = gained + 0.5, lost + 0.5, n + 2
    middle = (gained - lost) / n
    reach = float(ndtri((1 + LEVEL) / 2)) * math.sqrt(gained + lost - (gained - lost) ** 2 / n) / n
    return Interval(max(-1.0, middle - reach), min(1.0, middle + reach))


def sign_flips(differences: Sequence[float]) -> float:
    """Two-sided p of the sign-flip permutation test of a mean of 0; always with the same flips for as many puzzles."""
    values = np.asarray(differences, float)
    sums = np.abs(_signs(len(values)) @ values)
    as_large = sums >= abs(values.sum()) - 1e-9 * max(1.0, np.abs(values).sum())
    return (int(as_large.sum()) + 1) / (_FLIPS + 1)


@lru_cache(maxsize=4)
def _signs(n: int) -> np.ndarray:
    """-1 or 1 for each of n puzzles: int8 (flips, n)."""
    return np.random.default_rng([_SEED, n]).integers(0, 2, (_FLIPS, n), np.int8) * np.int8(2) - np.int8(1)
