"""One answer out of several: each piece where most of them lay it, as far as no two get one cell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

from tasks.jigshape.answer import Answer
from tasks.jigshape.spec import Spec
from tasks.voting import majority


def vote(answers: Sequence[Answer], spec: Spec) -> Answer:
    """Of all ways to lay the pieces on different cells the one with the most votes, a vote being one answer's cell for
    one piece. So each piece lies where most answers lay it, wherever that is possible for all pieces.

    A tie goes to the earliest: of several such ways to the one whose cells have the most seniority, which is k for a
    cell that the first of k answers gave to the piece, 1 for one that only the last gave, 0 for one that none did. What
    is still equal is left to the solver, which decides it alike each time.

    Where answers leave out given pieces, they first vote on which; the others' votes do not count.

    answers: valid ones, at least one.
    """
    placed = majority([_placed(answer) for answer in answers], spec)
    cells = np.array([[answer[index] for index in placed] for answer in answers if _placed(answer) == placed])
    said = cells[..., 0] * spec.grid + cells[..., 1]  # (k, n)
    k, n = said.shape
    votes, seniority = np.zeros((2, n, spec.num_pieces))
    for age, own in enumerate(said[::-1], start=1):
        votes[np.arange(n), own] += 1
        seniority[np.arange(n), own] = age
    weights = votes * (n * k + 1) + seniority  # all seniority together is less than one vote
    chosen = dict(zip(placed, linear_sum_assignment(weights, maximize=True)[1].tolist(), strict=True))
    return [list(divmod(chosen[index], spec.grid)) if index in chosen else None for index in range(spec.num_pieces)]


def _placed(answer: Answer) -> list[int]:
    return [index for index, cell in enumerate(answer) if cell is not None]
