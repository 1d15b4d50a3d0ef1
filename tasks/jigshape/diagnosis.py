"""What went wrong in an answer: what reports draw."""

from __future__ import annotations

from typing import Any

from tasks.contract import Invalid
from tasks.jigshape.answer import Answer
from tasks.jigshape.score import checked, fitting_edges, has_edges


def diagnose(answer: Answer | Invalid, target: dict[str, Any]) -> dict[str, Any]:
    """Of the pieces that were asked for, that is without clues; all JSON-able.

    displacement    [rows, columns] from true to given cell by id, None where a piece is not placed or was given
    wrong           ids that are not on their true cell
    wrong_look      those whose edges are the ones that belong there: right in shape, wrong in content; absent
                    without known edges
    wrong_shape     the others; absent likewise
    swapped         pairs of ids that lie on each other's cell
    swapped_alike   those of equal edges, which only the content tells apart; absent likewise
    transposed      share of the pieces off the diagonal that lie on (column, row) instead of (row, column); None if all
                    are on it
    fits_across, fits_down    whether a tab faces a blank, by row and column of the left or upper cell; only for a valid
                    answer to a puzzle with shape and without clues
    reason          why the answer is invalid, None if it is valid
    """
    answer = checked(answer, target)
    truth = target["cells"]
    given = set(target.get("clues", ()))
    cells: list[list[int] | None] = [None] * len(truth)
    said = (answer.partial or []) if isinstance(answer, Invalid) else answer
    for index, cell in enumerate(said):
        if index not in given:
            cells[index] = cell
    owner = {tuple(cell): index for index, cell in enumerate(truth)}
    asked = [index for index in range(len(truth)) if index not in given]
    wrong = [index for index in asked if cells[index] != truth[index]]
    off_diagonal = [index for index in asked if truth[index][0] != truth[index][1]]
    swapped = []
    for index in wrong:
        cell = cells[index]
        other = None if cell is None else owner[tuple(cell)]
        if other is not None and other > index and cells[other] == truth[index]:
            swapped.append([index, other])
    report: dict[str, Any] = {
        "displacement": [
            cell and [cell[0] - true[0], cell[1] - true[1]] for cell, true in zip(cells, truth, strict=True)
        ],
        "wrong": wrong,
        "swapped": swapped,
        "transposed": (
            sum(cells[index] == truth[index][::-1] for index in off_diagonal) / len(off_diagonal)
            if off_diagonal
            else None
        ),
        "reason": answer.reason if isinstance(answer, Invalid) else None,
    }
    if has_edges(target):
        signatures = target["signatures"]
        placed = {index: cell for index in wrong if (cell := cells[index]) is not None}
        alike = {index for index, cell in placed.items() if signatures[index] == signatures[owner[tuple(cell)]]}
        report["wrong_look"] = sorted(alike)
        report["wrong_shape"] = [index for index in wrong if index not in alike]
        report["swapped_alike"] = [pair for pair in swapped if signatures[pair[0]] == signatures[pair[1]]]
        if not isinstance(answer, Invalid) and not given:
            across, down = fitting_edges(answer, target)
            report["fits_across"], report["fits_down"] = across.tolist(), down.tolist()
    return report
