"""What honest guessing earns: exact expectations, so that no score stands alone.

Proofs in short. Two facing internal edges that are not the two sides of one cut are independent coins, so they fit with
probability 1/2; the two sides of one cut always fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import lru_cache

from tasks.jigshape.score import applicable
from tasks.jigshape.spec import Spec


def chance(spec: Spec) -> dict[str, dict[str, float]]:
    """Expected score entries of two guessers, over their choices, the puzzle's edges and its clues.

    random       a uniform bijection of the pieces that no clue places.
    flats only   knows which sides of a piece are flat and nothing else: corners are right, border pieces are shuffled
                 within their side, interior pieces among themselves. Absent without shape.
    """
    if spec.clues:
        rows = {"random": _clued([[spec.num_open]])}
        if spec.shape:
            rows["flats only"] = (
                _clued(_open_kinds(spec)) if spec.clue_layout == "block" else _scattered(spec.grid, spec.num_open)
            )
    else:
        rows = {"random": _random(spec.grid)}
        if spec.shape:
            rows["flats only"] = _flats_only(spec.grid)
    names = applicable(spec.grid, spec.shape, clued=spec.clues > 0)
    return {guesser: {name: row[name] for name in names} for guesser, row in rows.items()}


def _random(N: int) -> dict[str, float]:
    """N² equally likely cells for every piece. SC: closed form of facts on the paper's E[T²] - E[X]."""
    pa = 1 / N**2
    return {
        "pa": pa,
        "em": 1 / math.factorial(N**2),
        "aa": 4 / (N * (N + 1)),
        "sc": (1 + N * (N - 1) ** 2) / (2 * N * (N**2 - 1)),
        "aa_oriented": 1 / (N * (N + 1)),
        "valid": 1.0,
        "pa_lenient": pa,
        "pa_corner": pa,
        "pa_border": pa,
        "pa_interior": pa,
    }


def _flats_only(N: int) -> dict[str, float]:
    """With m = N - 2 border pieces per side, expected true neighbours over the answer's internal edges:

    corner-border        8 edges, each true with 1/m
    border-border        4(m-1) edges of one side, each an adjacent pair with 2/m, in order with 1/m
    border-interior      4m edges, each true with 1/m²
    interior-interior    2m(m-1) edges, each an adjacent pair with 4/(m(m+1)), in order with 1/(m(m+1))
    """
    if N == 2:
        return dict.fromkeys(("pa", "em", "aa", "sc", "aa_oriented", "valid", "pa_lenient", "pa_corner"), 1.0)
    m = N - 2
    num_edges = 2 * N * (N - 1)
    oriented = (8 / m + 4 * (m - 1) / m + 4 / m + 2 * (m - 1) / (m + 1)) / num_edges
    return {
        "pa": 9 / N**2,
        "em": 1 / (math.factorial(m) ** 4 * math.factorial(m * m)),
        "aa": (8 / m + 8 * (m - 1) / m + 4 / m + 8 * (m - 1) / (m + 1)) / num_edges,
        # No flat faces inwards, so an edge fits surely where a true pair lies in order, else by a coin.
        "sc": (1 + oriented) / 2,
        "aa_oriented": oriented,
        "valid": 1.0,
        "pa_lenient": 9 / N**2,
        "pa_corner": 1.0,
        "pa_border": 1 / m,
        "pa_interior": 1 / m**2,
    }


def _kind(row: int, column: int, grid: int) -> tuple[int, int]:
    """What the flats of a cell's piece tell: which of nine kinds it is (four corners, four sides, interior)."""
    last = grid - 1
    return ((row == 0) - (row == last), (column == 0) - (column == last))


def _open_kinds(spec: Spec) -> Iterator[list[int]]:
    """For each place of the block of open cells, how many of them are of each kind that is there."""
    grid, side = spec.grid, math.isqrt(spec.num_open)
    for top in range(grid - side + 1):
        for left in range(grid - side + 1):
            kinds: dict[tuple[int, int], int] = {}
            for row in range(top, top + side):
                for column in range(left, left + side):
                    kind = _kind(row, column, grid)
                    kinds[kind] = kinds.get(kind, 0) + 1
            yield list(kinds.values())


def _clued(layouts: Iterable[list[int]]) -> dict[str, float]:
    """Pieces shuffled within their kinds, for equally likely layouts. Of k alike one is right on average, all with 1/k!

    layouts: how many pieces of each kind are open.
    """
    pa, em, count = Fraction(0), Fraction(0), 0
    for sizes in layouts:
        pa += Fraction(len(sizes), sum(sizes))
        em += Fraction(1, math.prod(math.factorial(size) for size in sizes))
        count += 1
    return _clued_row(pa / count, em / count)


@lru_cache(maxsize=64)
def _scattered(grid: int, num_open: int) -> dict[str, float]:
    """The same over all sets of open cells.

    The sum over sets of the product of 1/k! is a coefficient of the product over the kinds, of s cells each, of the sum
    over k of C(s, k) x^k / k!.
    """
    cells = grid**2
    kind_sizes = [size for size in [1] * 4 + [grid - 2] * 4 + [(grid - 2) ** 2] if size]
    num_sets = math.comb(cells, num_open)
    kinds_there = Fraction(sum(num_sets - math.comb(cells - size, num_open) for size in kind_sizes), num_sets)
    series = [Fraction(1)]
    for size in kind_sizes:
        factor = [Fraction(math.comb(size, k), math.factorial(k)) for k in range(min(size, num_open) + 1)]
        product = [Fraction(0)] * min(len(series) + len(factor) - 1, num_open + 1)
        for i, one in enumerate(series):
            for k, other in enumerate(factor[: len(product) - i]):
                product[i + k] += one * other
        series = product
    return _clued_row(kinds_there / num_open, series[num_open] / num_sets)


def _clued_row(pa: Fraction, em: Fraction) -> dict[str, float]:
    return {"pa": float(pa), "em": float(em), "valid": 1.0, "pa_lenient": float(pa)}
