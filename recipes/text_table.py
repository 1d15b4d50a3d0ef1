"""Tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns one space apart; the first is text, the others are numbers."""
    first, *numbers = (max(map(len, column)) for column in zip(*rows, strict=True))
    return "\n".join(
        " ".join(
            [row[0].ljust(first), *(cell.rjust(width) for cell, width in zip(row[1:], numbers, strict=True))]
        ).rstrip()
        for row in rows
    )
