"""What honest guessing earns: exact expectations, so that no score stands alone.

Proofs in short. Two facing internal edges that are not the two sides of one cut are independent coins, so they fit with
probability 1/2; the two sides of one cut always fit.
"""

from __future__ import annotations

import math

from tasks.jigshape.score import applicable
from tasks.jigshape.spec import Spec


def chance(spec: Spec) -> dict[str, dict[str, float]]:
    """Expected score entries of two guessers, over their choices and the puzzle's edges.

    random       a uniform bijection.
    flats only   knows which sides of a piece are flat and nothing else: corners are right, border pieces are shuffled
                 within their side, interior pieces among themselves. Absent without shape.
    """
    rows = {"random": _random(spec.grid)}
    if spec.shape:
        rows["flats only"] = _flats_only(spec.grid)
    names = applicable(spec.grid, spec.shape)
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
