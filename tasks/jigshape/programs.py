"""Programs that have learnt nothing, at work on posed puzzles: baselines, and what can be said of a puzzle's answer.

They see the sheet without noise, bars, scaling or JPEG, and no clues.
"""

from __future__ import annotations

import numpy as np

from tasks.contract import Photo, Puzzle
from tasks.jigshape.answer import gold
from tasks.jigshape.sheet import cut_photo, draw_sheet
from tasks.jigshape.signatures import read_signatures, solve_signatures
from tasks.jigshape.solve import certificate, solve_pieces
from tasks.jigshape.spec import Spec
from tasks.photo import needed


def solve_without_vision(puzzle: Puzzle, photo: Photo | None) -> str | None:
    """One arrangement in which all edges fit, as a completion; empty if none is found, None without shape."""
    spec, sheet = _seen(puzzle, photo)
    if not spec.shape:
        return None
    cells = solve_signatures(read_signatures(spec, sheet), spec.grid, puzzle.seed)
    return "" if cells is None else gold(puzzle.target | {"cells": cells})


def solve_with_vision(puzzle: Puzzle, photo: Photo | None) -> str | None:
    """The joint solver's arrangement, by edges and pixels, as a completion."""
    spec, sheet = _seen(puzzle, photo)
    return gold(puzzle.target | {"cells": solve_pieces(spec, sheet).cells})


def certify(puzzle: Puzzle, photo: Photo | None) -> dict[str, bool | None]:
    """What holds for a puzzle.

    certified        the joint solver finds the truth, and no swap of two pieces looks as good
    unique by edges  edges alone leave one answer; None if bounded effort did not decide it
    twins            two pieces are the same in shape and in every pixel
    ambiguous        another answer looks as good as the truth to the solver, or there are twins
    search failed    the solver's answer is wrong though the truth looks better
    clipped, flat    of ambiguous ones: the wrong pieces are mostly 0 or 255, or hardly vary
    """
    spec = _spec(puzzle)
    found = certificate(spec, puzzle.target, cut_photo(spec, needed(photo, puzzle.task)))
    return {
        "certified": found.solved,
        "unique by edges": found.geometrically_unique,
        "twins": bool(found.twins),
        "ambiguous": found.cause == "ambiguous",
        "search failed": found.cause == "search",
        "clipped": found.content == "clipped",
        "flat": found.content == "flat",
    }


def _seen(puzzle: Puzzle, photo: Photo | None) -> tuple[Spec, np.ndarray]:
    spec = _spec(puzzle)
    return spec, draw_sheet(spec, puzzle.target, cut_photo(spec, needed(photo, puzzle.task)))


def _spec(puzzle: Puzzle) -> Spec:
    assert isinstance(puzzle.spec, Spec)
    return puzzle.spec
