"""Which rewards no swap that puts a piece right can lower.

Let two pieces of an arrangement be swapped so that one of them comes to its true cell. Neither was right before, so pa
rises by 1/N² or more, and no entry that counts right pieces falls. At most 8 of the E = 2N(N-1) internal edges change,
and an entry that counts edges can lose them all: 8/E. So with a weight a of pa, and b of all entries that count edges,
no such swap lowers the reward where a/N² >= 8b/E, which is a/b >= 4N/(N-1). Every arrangement but the truth has one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tasks.jigshape.spec import Spec

_OF_EDGES = ("sc", "aa", "aa_oriented")


def unsafe(weights: Mapping[str, float], spec: Spec) -> str | None:
    """What weights over score entries must keep to, if with them such a swap can lose; None if it cannot.

    What the entries of one kind of piece would add is left out: the swap may be one of another kind.
    """
    N, counted = spec.grid, {name: weights[name] for name in _OF_EDGES if weights.get(name)}
    gain = (weights.get("pa", 0.0) + weights.get("pa_lenient", 0.0)) * (N - 1)
    loss = sum(counted.values()) * 4 * N
    if gain >= loss or math.isclose(gain, loss):
        return None
    return f"pa at least {4 * N / (N - 1):.4g} times {' + '.join(counted)}, at grid {N}"
