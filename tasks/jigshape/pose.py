"""A puzzle without its pixels."""

from __future__ import annotations

import numpy as np

from tasks.contract import Photo, Puzzle
from tasks.jigshape.edges import draw_signatures
from tasks.jigshape.prompt import messages
from tasks.jigshape.spec import Spec, geometry

NAME = "jigshape"
VERSION = 1


def pose(spec: Spec, photo: Photo | None, seed: int) -> Puzzle:
    """The puzzle that (spec, photo, seed) stand for.

    Without shape the edges are drawn all the same, so that the two specs are a pair: equal photo, cells and sheet.
    """
    if photo is None:
        raise ValueError("got no photo; jigshape cuts a photo: pass one")
    rng = np.random.default_rng(seed)
    signatures = draw_signatures(rng, spec.grid)  # (N, N, 4)
    places = rng.permutation(spec.grid**2)  # row-major cell by id
    rows, columns = np.divmod(places, spec.grid)
    if not spec.shape:
        signatures = np.zeros_like(signatures)
    sheet = geometry(spec)
    return Puzzle(
        task=NAME,
        version=VERSION,
        spec=spec,
        photo_id=photo.id,
        seed=seed,
        messages=messages(spec),
        target={
            "answer_format": spec.answer_format,
            "grid": spec.grid,
            "shape": spec.shape,
            "cells": np.stack([rows, columns], axis=1).tolist(),
            "signatures": signatures[rows, columns].tolist(),
        },
        image_sizes=((sheet.width, sheet.height),),
    )
