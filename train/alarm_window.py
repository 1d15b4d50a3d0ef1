"""A stretch of a GRPO run's log, summed up: what the rules of its alarms compare."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

_LEAST = 0.25
"""Share of a window's entries that must have a value for it to count: a part is not asked in every step."""
_SAME_MIX = 0.1
"""Share of the puzzles that may be of other parts in two windows whose totals are still compared."""

Entry = Mapping[str, Any]
"""One entry of the trainer's log; values that a step has not are absent, None or NaN."""


class Level(NamedTuple):
    """A mean over the entries of a window, NaN where too few have a value."""

    mean: float = math.nan
    error: float = math.nan
    """Standard error of the mean, as if entries were independent."""

    def scaled(self, factor: float) -> Level:
        return Level(self.mean * factor, self.error * factor)


def change(before: Level, after: Level) -> Level:
    """How much the mean has risen."""
    return Level(after.mean - before.mean, math.hypot(before.error, after.error))


def risen(before: Level, after: Level, *, errors: float) -> bool:
    """Whether the mean is higher by more than so many standard errors; not where either is unknown."""
    by = change(before, after)
    return by.mean > max(errors * by.error, 1e-9)  # equal values differ by rounding


@dataclass(frozen=True)
class Window:
    """What a number of log entries in a row say on average. All numbers are NaN where the log has too few of them."""

    steps: tuple[int, int]
    """First and last."""
    mix: Mapping[str, float]
    """{part: its share of the puzzles}, of the parts in `parts`; they sum to 1."""
    parts: Mapping[str, Level]
    """{part: primary score in [0, 1]}."""
    teaching: Mapping[str, float]
    """{part: share of its groups whose rewards differ}."""
    primary: Level
    """Over all parts, by their shares."""
    reward: Level
    valid: float
    """Share of completions that are an answer in the right form."""
    entropy: float
    """Median, nats per token."""
    kl: float
    """Median distance from the reference model, nats per token: a single odd token makes a mean of any size."""
    length: float
    """Tokens of a completion."""
    cut: float
    """Share of completions that were cut at the length limit."""
    no_spread: float
    """Share of groups whose rewards are all the same."""

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> Window:
        """
        Args:
            entries: of training steps, in their order.
        """
        found = {part: _level(entries, f"primary/{part}") for part in _named(entries, "primary/")}
        parts = {part: level for part, level in found.items() if not math.isnan(level.mean)}
        # a log without shares is of one mix: equal ones are as good as any
        shares = {part: _mean(entries, f"share/{part}") for part in parts}
        weights = {part: 1.0 if math.isnan(share) else share for part, share in shares.items()}
        total = sum(weights.values())
        mix = {part: weight / total for part, weight in weights.items()} if total else {}
        return cls(
            steps=(entries[0].get("step", 0), entries[-1].get("step", 0)),
            mix=mix,
            parts=parts,
            teaching={part: _mean(entries, f"teaching/{part}") for part in parts},
            primary=_mixed(parts, mix),
            reward=_level(entries, "reward"),
            valid=1 - _mean(entries, "invalid/truncated") - _mean(entries, "invalid/ended"),
            entropy=_median(entries, "entropy"),
            kl=_median(entries, "kl"),
            length=_mean(entries, "completions/mean_length"),
            cut=_mean(entries, "completions/clipped_ratio"),
            no_spread=_mean(entries, "frac_reward_zero_std"),
        )

    def comparable(self, other: Window) -> bool:
        """Whether the parts have about the same shares in both: another mix has another reward, length and entropy."""
        both = self.mix.keys() | other.mix.keys()
        return sum(abs(self.mix.get(part, 0.0) - other.mix.get(part, 0.0)) for part in both) / 2 <= _SAME_MIX

    def per_answer(self, level: Level) -> Level:
        """What a valid answer has of a score that invalid ones have none of."""
        return level.scaled(1 / self.valid) if self.valid > 0 else Level()


def _mixed(parts: Mapping[str, Level], mix: Mapping[str, float]) -> Level:
    if not mix:
        return Level()
    return Level(
        sum(share * parts[part].mean for part, share in mix.items()),
        math.hypot(*(share * parts[part].error for part, share in mix.items())),
    )


def _named(entries: Sequence[Entry], start: str) -> list[str]:
    return sorted({key.removeprefix(start) for entry in entries for key in entry if key.startswith(start)})


def _values(entries: Sequence[Entry], key: str) -> list[float]:
    """Those there are; none where they are too few."""
    given = [float(entry[key]) for entry in entries if isinstance(entry.get(key), int | float)]
    finite = [value for value in given if math.isfinite(value)]
    return finite if len(finite) >= max(2, _LEAST * len(entries)) else []


def _level(entries: Sequence[Entry], key: str) -> Level:
    values = _values(entries, key)
    if not values:
        return Level()
    mean, n = sum(values) / len(values), len(values)  # fmean and squares raise where values are huge
    return Level(mean, math.hypot(*(value - mean for value in values)) / math.sqrt((n - 1) * n))


def _mean(entries: Sequence[Entry], key: str) -> float:
    return _level(entries, key).mean


def _median(entries: Sequence[Entry], key: str) -> float:
    values = _values(entries, key)
    return median(values) if values else math.nan
