"""A puzzle without its pixels."""

from __future__ import annotations

from typing import Any

import numpy as np

from tasks.contract import Photo, Puzzle
from tasks.jigshape.answer import Answer
from tasks.jigshape.clues import open_cells
from tasks.jigshape.edges import draw_signatures
from tasks.jigshape.geometry import image_sizes
from tasks.jigshape.hints import similar_pieces
from tasks.jigshape.prompt import messages
from tasks.jigshape.sheet import cut_photo, draw_sheet
from tasks.jigshape.solve import solve_pieces
from tasks.jigshape.spec import Spec
from tasks.jigshape.twins import twins

NAME = "jigshape"
VERSION = 2

_CLUES_STREAM = 2
_REDRAW_STREAM = 3
_MAX_DRAWS = 8


def pose(spec: Spec, photo: Photo | None, seed: int) -> Puzzle:
    """The puzzle that (spec, photo, seed) stand for.

    Without shape the edges are drawn all the same, so that the two specs are a pair: equal photo, cells and sheet.
    The photo's pixels are read only for `hints` and for `certify` other than count.
    """
    if photo is None:
        raise ValueError("got no photo; jigshape cuts a photo: pass one")
    rng = np.random.default_rng(seed)
    by_cell = _edges(spec, rng)  # (N, N, 4)
    rows, columns = np.divmod(rng.permutation(spec.num_pieces), spec.grid)  # cell by id
    target: dict[str, Any] = {
        "answer_format": spec.answer_format,
        "grid": spec.grid,
        "shape": spec.shape,
        "cells": np.stack([rows, columns], axis=1).tolist(),
        "signatures": by_cell[rows, columns].tolist(),
    }
    if spec.certify != "count":
        target = _certified(spec, photo, seed, target)
    if spec.clues:
        left_open = open_cells(spec, np.random.default_rng([seed, _CLUES_STREAM]))
        target["clues"] = [index for index, cell in enumerate(target["cells"]) if not left_open[tuple(cell)]]
        target["repeat_clues"] = spec.repeat_clues
    groups = similar_pieces(spec, target, cut_photo(spec, photo)) if spec.hints == "color" else []
    return Puzzle(
        task=NAME,
        version=VERSION,
        spec=spec,
        photo_id=photo.id,
        seed=seed,
        messages=messages(spec, target, groups),
        target=target,
        image_sizes=image_sizes(spec),
    )


def _solved(spec: Spec, target: dict[str, Any], pixels: np.ndarray) -> bool:
    return solve_pieces(spec, draw_sheet(spec, target, pixels)).cells == target["cells"]


def target_of(answer: Answer, spec: Spec) -> dict[str, Any]:
    """The target of a puzzle made elsewhere, from its right answer: nothing says which edges are tabs.

    Raises:
        ValueError: the spec has clues: nothing says which pieces are given.
    """
    if spec.clues:
        raise ValueError(
            f"got clues {spec.clues} for puzzles made elsewhere; allowed: 0, as nothing says which pieces are given; "
            "remove clues from the part's spec"
        )
    return {"answer_format": spec.answer_format, "grid": spec.grid, "shape": spec.shape, "cells": answer}


def _edges(spec: Spec, rng: np.random.Generator) -> np.ndarray:
    """Signatures by cell, int8 (N, N, 4), all flat without shape."""
    signatures = draw_signatures(rng, spec.grid)
    return signatures if spec.shape else np.zeros_like(signatures)


def _certified(spec: Spec, photo: Photo, seed: int, target: dict[str, Any]) -> dict[str, Any]:
    """The target with the first edges that leave one right answer, or with its own if none of several draws does.

    With certify full the joint solver must find it, too. `certified` says whether there is one, `draws` how many draws
    were looked at. The permutation is never drawn anew.
    """
    pixels = cut_photo(spec, photo)
    rows, columns = np.array(target["cells"]).T
    tried = target
    for draw in range(1, _MAX_DRAWS + 1):
        if not twins(spec, tried, pixels) and (spec.certify != "full" or _solved(spec, tried, pixels)):
            return tried | {"certified": True, "draws": draw}
        if not spec.shape:
            return target | {"certified": False, "draws": draw}
        by_cell = _edges(spec, np.random.default_rng([seed, _REDRAW_STREAM, draw]))
        tried = target | {"signatures": by_cell[rows, columns].tolist()}
    return target | {"certified": False, "draws": _MAX_DRAWS}
