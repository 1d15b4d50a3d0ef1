"""What a run has found out about its parts so far: what curricula and adaptive weights are decided by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


class Scores:
    """{part: mean primary score, in [0, 1]} by the optimizer step after which it was measured.

    An adaptive curriculum has the mean spread of rewards within the part's groups instead.
    """

    def __init__(self) -> None:
        self._by_step: dict[int, dict[str, float]] = {}

    def add(self, step: int, scores: Mapping[str, float]) -> None:
        """Every process adds the same."""
        self._by_step[step] = dict(scores)

    def __iter__(self) -> Iterator[tuple[int, dict[str, float]]]:
        """(step, scores), the earliest first."""
        return iter(sorted(self._by_step.items()))

    def latest(self, step: int) -> dict[str, float]:
        """The newest score of each part that was measured after `step` steps or before."""
        newest: dict[str, float] = {}
        for measured, scores in self:
            if measured <= step:
                newest |= scores
        return newest
