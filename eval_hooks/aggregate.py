"""Many diagnoses as one: each statement of `Task.diagnose` is aggregated by the kind of its value, whatever the task.

    true, false, a share      the mean over the answers that have it
    a list                    its mean length per answer; texts in it are counted besides
    rows of true and false    the mean at each place: rows of shares
    a text                    how many answers say it, and what they score on average
    `displacement`            [rows, columns] from where a piece belongs to where it lies, or a list of those: how often
                              each occurs, as rows of counts with zero in the middle

None says nothing and counts nowhere.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

DISPLACEMENT = "displacement"


@dataclass(frozen=True)
class Said:
    """A text among the diagnoses."""

    count: int
    score: float
    """Mean score of the answers that it was said of, in [0, 1]; an answer counts as often as the text."""


@dataclass(frozen=True)
class Aggregate:
    """What the diagnoses of one part say together."""

    n: int
    """Answers diagnosed."""
    counts: dict[str, int]
    """Statement -> answers that have it, in the order of the diagnoses."""
    shares: dict[str, float]
    """Statement -> mean, of truths and numbers."""
    lengths: dict[str, float]
    """Statement -> mean number of things in its list."""
    texts: dict[str, dict[str, Said]]
    """Statement -> text -> how often, most frequent first."""
    grids: dict[str, list[list[float]]]
    """Statement -> share of true by row and column."""
    displacement: list[list[int]] | None
    """Pieces by displacement, (2N-1, 2N-1): first those N-1 rows above their cell; None if no piece is placed."""

    @property
    def in_place(self) -> float | None:
        """Share of the placed pieces that lie where they belong."""
        if self.displacement is None:
            return None
        middle = len(self.displacement) // 2
        return self.displacement[middle][middle] / sum(map(sum, self.displacement))


def aggregate(diagnoses: Iterable[tuple[Mapping[str, Any], float]], grid: int = 2) -> Aggregate:
    """
    Args:
        diagnoses: what `diagnose` says of each answer, and the answer's score.
        grid: the least N of the displacement's rows and columns; a larger displacement makes more.

    Raises:
        ValueError: a statement's rows of true and false differ in size.
    """
    counts: Counter[str] = Counter()
    numbers: dict[str, list[float]] = defaultdict(list)
    lengths: dict[str, list[int]] = defaultdict(list)
    grids: dict[str, list[np.ndarray]] = defaultdict(list)
    texts: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    moves: Counter[tuple[int, int]] = Counter()
    n = 0
    for report, score in diagnoses:
        n += 1
        for name, value in report.items():
            counts[name] += value is not None
            if value is None:
                continue
            if name == DISPLACEMENT:
                moves.update(_moves(value))
            elif isinstance(value, str):
                texts[name][value].append(score)
            elif not isinstance(value, list):
                numbers[name].append(value)
            elif _is_grid(value):
                grids[name].append(np.array(value))
            else:
                lengths[name].append(len(value))
                for text in (item for item in value if isinstance(item, str)):
                    texts[name][text].append(score)
    return Aggregate(
        n=n,
        counts=dict(counts),
        shares={name: fmean(values) for name, values in numbers.items()},
        lengths={name: fmean(values) for name, values in lengths.items()},
        texts={name: _by_frequency(said) for name, said in texts.items()},
        grids={name: _mean_grid(name, values) for name, values in grids.items()},
        displacement=_around_zero(moves, grid) if moves else None,
    )


def _moves(value: list[Any]) -> list[tuple[int, int]]:
    """One displacement, or those of a list that are there."""
    pairs = [value] if value and isinstance(value[0], int) else value
    return [(pair[0], pair[1]) for pair in pairs if pair is not None]


def _is_grid(value: list[Any]) -> bool:
    return bool(value) and all(
        isinstance(row, list) and row and all(isinstance(place, bool) for place in row) for row in value
    )


def _mean_grid(name: str, grids: list[np.ndarray]) -> list[list[float]]:
    sizes = {grid.shape for grid in grids}
    if len(sizes) > 1:
        raise ValueError(f"{name}: got sizes {sorted(sizes)}; allowed: one; do diagnose puzzles of one grid at a time")
    mean: list[list[float]] = np.mean(grids, axis=0).tolist()
    return mean


def _by_frequency(said: Mapping[str, list[float]]) -> dict[str, Said]:
    ranked = sorted(said.items(), key=lambda item: -len(item[1]))
    return {text: Said(len(scores), fmean(scores)) for text, scores in ranked}


def _around_zero(moves: Mapping[tuple[int, int], int], grid: int) -> list[list[int]]:
    farthest = max(grid - 1, *(abs(step) for move in moves for step in move))
    counts = np.zeros((2 * farthest + 1, 2 * farthest + 1), int)
    for (rows, columns), count in moves.items():
        counts[farthest + rows, farthest + columns] = count
    table: list[list[int]] = counts.tolist()
    return table
