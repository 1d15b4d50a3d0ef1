"""Shares in percent, as every table shows them."""

from __future__ import annotations

from math import copysign
from typing import Literal


def percent(share: float, sign: Literal["", "+"] = "") -> str:
    """With one digit after the point. 0.0 and 100.0 stand for exactly none and all: what is between is 0.1 to 99.9.

    Args:
        share: a mean, the end of an interval, or a difference of such.
        sign: "+": also before what is not below 0.
    """
    value = round(100 * share, 7)  # sums of floats are right to 9 digits
    size = abs(value)
    if 0 < size < 100:
        size = min(max(size, 0.1), 99.9)
    return f"{copysign(size, value) if value else 0.0:{sign}.1f}"
