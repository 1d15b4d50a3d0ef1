"""What pixels say about two pieces being neighbours: colours continued across the cut, along its true contour."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tasks.jigshape.edges import BOTTOM, LEFT, RIGHT, TOP
from tasks.jigshape.geometry import geometry
from tasks.jigshape.sheet import piece_mask
from tasks.jigshape.spec import Spec

NOISE = 1.0
"""Variance, in squared pixel values, that every colour gradient is taken to have: rounding and JPEG leave that much."""


class PairCosts(NamedTuple):
    """Dissimilarity of ordered pairs of pieces by id, float64 (N², N²): >= 0, infinite where the edges do not fit."""

    across: np.ndarray
    """[i, j]: j is the right neighbour of i."""
    down: np.ndarray
    """[i, j]: j is below i."""


class _Rims(NamedTuple):
    """Pixels of all pieces beside the cut on one side, float64 (N², p, 3)."""

    last: np.ndarray
    """The outermost pixels."""
    before: np.ndarray
    """One pixel further in."""


def pair_costs(spec: Spec, sheet: np.ndarray, signatures: np.ndarray) -> PairCosts:
    """Mahalanobis gradient compatibility (Gallagher, CVPR 2012) of all pairs, in both directions and summed.

    sheet: uint8 (height, width, 3). signatures: int8 (N², 4) by id; they are not looked at without shape.
    """
    if not spec.shape:
        signatures = np.zeros_like(signatures)
    top, right, bottom, left = (_rims(spec, sheet, signatures[:, side], side) for side in range(4))
    costs = PairCosts(_both_ways(right, left), _both_ways(bottom, top))
    for cost, own, facing in ((costs.across, RIGHT, LEFT), (costs.down, BOTTOM, TOP)):
        if spec.shape:
            cost[signatures[:, own, None] * signatures[None, :, facing] != -1] = np.inf
        np.fill_diagonal(cost, np.inf)
    return costs


@lru_cache(maxsize=32)
def _places(spec: Spec, side: int, depth: int) -> tuple[np.ndarray, np.ndarray]:
    """(y, x) relative to the body of the pixels `depth` px from the cut on one side, each int (3, p): a row for
    blank, flat and tab."""
    piece, reach = geometry(spec).piece, geometry(spec).reach
    bulge = piece_mask(spec, (1, 0, 0, 0))[:reach, reach : reach + piece].sum(axis=0)  # (p,) px the tab sticks out
    inwards = depth - np.array([[-1], [0], [1]]) * bulge  # (3, p)
    along = np.broadcast_to(np.arange(piece), inwards.shape)
    if side in (BOTTOM, RIGHT):
        inwards = piece - 1 - inwards
    return (inwards, along) if side in (TOP, BOTTOM) else (along, inwards)


def _rims(spec: Spec, sheet: np.ndarray, edges: np.ndarray, side: int) -> _Rims:
    bodies = np.array([geometry(spec).body(index, spec.grid) for index in range(spec.grid**2)])  # (N², 2)
    rims = []
    for depth in (0, 1):
        y, x = _places(spec, side, depth)
        rims.append(sheet[bodies[:, :1] + y[edges + 1], bodies[:, 1:] + x[edges + 1]].astype(np.float64))
    return _Rims(*rims)


def _both_ways(own: _Rims, facing: _Rims) -> np.ndarray:
    return _continued(own, facing.last) + _continued(facing, own.last).T


def _continued(own: _Rims, other: np.ndarray) -> np.ndarray:
    """How badly `other` [j] continues `own` [i], (N², N²): the mean over the rim of the squared Mahalanobis distance
    between the colour step over the cut and the steps within i.

    The quadratic form is expanded, so that no array of all pairs and pixels is needed.
    """
    pieces, length, _ = own.last.shape
    steps = own.last - own.before
    mean = steps.mean(axis=1)
    centred = steps - mean[:, None]
    covariance = centred.transpose(0, 2, 1) @ centred / length + NOISE * np.eye(3)
    precision = np.linalg.inv(covariance)  # (N², 3, 3)
    expected = own.last + mean[:, None]  # (N², p, 3)
    weighted = expected @ precision
    constant = (weighted * expected).sum(axis=(1, 2))
    cross = weighted.reshape(pieces, -1) @ other.reshape(pieces, -1).T
    moments = (other.transpose(0, 2, 1) @ other).reshape(pieces, 9)
    square = precision.reshape(pieces, 9) @ moments.T
    return np.maximum(constant[:, None] - 2 * cross + square, 0) / length
