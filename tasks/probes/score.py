"""The scorer of the probes, what guessing earns, and what reports draw."""

from __future__ import annotations

from typing import Any

from tasks.contract import Invalid
from tasks.probes.spec import Spec

ENTRIES = ("correct", "valid")


def score(answer: int | Invalid, target: dict[str, Any]) -> dict[str, float]:
    """correct: 1 for the hidden cell's number; valid: 1 for the number of any cell."""
    return {"correct": float(answer == target["number"]), "valid": float(not isinstance(answer, Invalid))}


def chance(spec: Spec) -> dict[str, dict[str, float]]:
    """A uniformly chosen cell, or always the same: 1 / cells."""
    return {"random": {"correct": 1 / spec.grid**2, "valid": 1.0}}


def diagnose(answer: int | Invalid, target: dict[str, Any]) -> dict[str, Any]:
    """What reports draw.

    displacement    [rows, columns] from the hidden cell to the answered one, None if invalid
    transposed      the answer is wrong, and is the hidden cell with row and column exchanged
    reason          why the answer is invalid, None if it is valid
    """
    if isinstance(answer, Invalid):
        return {"displacement": None, "transposed": False, "reason": answer.reason}
    row, column = divmod(target["number"] - 1, target["grid"])
    given_row, given_column = divmod(answer - 1, target["grid"])
    return {
        "displacement": [given_row - row, given_column - column],
        "transposed": row != column and (given_row, given_column) == (column, row),
        "reason": None,
    }
