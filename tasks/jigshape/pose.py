"""A puzzle without its pixels."""

from __future__ import annotations

from typing import Any

import numpy as np

from tasks.contract import Photo, Puzzle
from tasks.jigshape.answer import Answer
from tasks.jigshape.clues import given_ids
from tasks.jigshape.edges import draw_signatures
from tasks.jigshape.geometry import board, image_sizes
from tasks.jigshape.hints import similar_pieces
from tasks.jigshape.perturb import perturb_photo
from tasks.jigshape.prompt import messages
from tasks.jigshape.sheet import cut_photo
from tasks.jigshape.solve import certificate
from tasks.jigshape.spec import Spec
from tasks.jigshape.twins import twins
from tasks.photo import cut_board, needed

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
    photo = needed(photo, NAME)
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
    if spec.clues:
        clues = given_ids(spec, target["cells"], np.random.default_rng([seed, _CLUES_STREAM]))
        target |= {"clues": clues, "repeat_clues": spec.repeat_clues}
    if spec.certify != "count":
        target = _certified(spec, photo, seed, target)
    asked: dict[str, Any] = {}
    if spec.clues:
        asked["given"] = [[index, *target["cells"][index]] for index in target["clues"]]
    if spec.hints == "color":
        asked["alike"] = similar_pieces(spec, target, cut_photo(spec, photo))
    if asked:
        target["asked"] = asked
    return Puzzle(
        task=NAME,
        version=VERSION,
        spec=spec,
        photo_id=photo.id,
        seed=seed,
        messages=messages(spec, asked),
        target=target,
        image_sizes=image_sizes(spec),
    )


def target_of(answer: Answer, spec: Spec) -> dict[str, Any]:
    """The target of a puzzle made elsewhere, from its right answer: nothing says which edges are tabs.

    Raises:
        ValueError: the spec has clues or hints: nothing says which pieces are given, or alike.
    """
    if spec.clues or spec.hints != "none":
        raise ValueError(
            f"got clues {spec.clues} and hints {spec.hints} for puzzles made elsewhere; allowed: 0 and none, as "
            "nothing says which pieces are given or alike; remove clues and hints from the part's spec"
        )
    return {"answer_format": spec.answer_format, "grid": spec.grid, "shape": spec.shape, "cells": answer}


def _edges(spec: Spec, rng: np.random.Generator) -> np.ndarray:
    """Signatures by cell, int8 (N, N, 4), all flat without shape."""
    signatures = draw_signatures(rng, spec.grid)
    return signatures if spec.shape else np.zeros_like(signatures)


def _certified(spec: Spec, photo: Photo, seed: int, target: dict[str, Any]) -> dict[str, Any]:
    """The target with the first edges that leave one right answer, or with its own if none of several draws does.

    Edges are chosen by the photo as it is, so that a part with a perturbation stays a pair of the one without; the
    permutation is never drawn anew. `certified` says whether the puzzle as it is shown has one right answer, `draws`
    how many draws were looked at.
    """
    plain = cut_board(photo, board(spec))
    rows, columns = np.array(target["cells"]).T
    chosen, draws = target, 0
    for draw in range(_MAX_DRAWS if spec.shape else 1):
        tried = target
        if draw:
            by_cell = _edges(spec, np.random.default_rng([seed, _REDRAW_STREAM, draw]))
            tried = target | {"signatures": by_cell[rows, columns].tolist()}
        draws += 1
        if _has_one_answer(spec, tried, plain):
            chosen = tried
            break
    shown = perturb_photo(spec, plain)
    return chosen | {"certified": _has_one_answer(spec, chosen, shown), "draws": draws}


def _has_one_answer(spec: Spec, target: dict[str, Any], pixels: np.ndarray) -> bool:
    if twins(spec, target, pixels):
        return False
    return spec.certify != "full" or certificate(spec, target, pixels).solved
