"""The sheet: the picture the model sees, and its inverse."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tasks.contract import Example, Photo, Puzzle
from tasks.jigshape.digits import draw_number
from tasks.jigshape.edges import BOTTOM, LEFT, RIGHT, TOP
from tasks.jigshape.spec import Spec, board, geometry
from tasks.photo import cut_board

Cell = Sequence[int]
Signature = tuple[int, int, int, int]


class Patch(NamedTuple):
    """Half a disc on one side of a piece, placed relative to the top-left pixel of its body."""

    y: int
    x: int
    mask: np.ndarray  # (height, width, 3) bool, read-only


@lru_cache(maxsize=256)
def _patches(spec: Spec) -> dict[tuple[int, int], Patch]:
    """Where (side, edge) adds pixels (tab) or takes them (blank). Both come from one half-disc table, turned: so a
    blank lacks exactly the pixels that the neighbour's tab carries."""
    piece, radius, reach, *_ = geometry(spec)
    width = 2 * reach - piece % 2  # an odd side has its midpoint in the middle of a pixel
    start = (piece - width) // 2
    along = np.arange(width) - (width - 1) / 2
    depth = np.arange(reach) + 0.5
    away = depth[:, None] ** 2 + along[None] ** 2 <= radius**2  # (reach, width), row 0 at the edge
    placed = {
        (TOP, 1): (-reach, start, away[::-1]),
        (TOP, -1): (0, start, away),
        (BOTTOM, 1): (piece, start, away),
        (BOTTOM, -1): (piece - reach, start, away[::-1]),
        (LEFT, 1): (start, -reach, away[::-1].T),
        (LEFT, -1): (start, 0, away.T),
        (RIGHT, 1): (start, piece, away.T),
        (RIGHT, -1): (start, piece - reach, away[::-1].T),
    }
    return {key: Patch(y, x, _frozen(np.repeat(mask[:, :, None], 3, axis=2))) for key, (y, x, mask) in placed.items()}


def _frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


@lru_cache(maxsize=8)
def _template(spec: Spec) -> np.ndarray:
    """The sheet without pieces: ground and labels, uint8 (height, width, 3), read-only."""
    sheet = geometry(spec)
    template = np.empty((sheet.height, sheet.width, 3), np.uint8)
    template[:] = spec.ground
    if spec.label == "band" and sheet.face is not None:
        for index in range(spec.grid**2):
            y, x = sheet.body(index, spec.grid)
            ink = draw_number(index, sheet.face)
            y += -sheet.reach - spec.band_px + (spec.band_px - ink.shape[0]) // 2
            x += int((sheet.piece - ink.shape[1]) / 2)  # towards 0: a label as wide as its column stays in it
            template[y : y + ink.shape[0], x : x + ink.shape[1]][ink] = spec.label_color
    return _frozen(template)


def cut_photo(spec: Spec, photo: Photo) -> np.ndarray:
    """The photo's largest centred square, resized and dimmed: what the pieces recompose to, uint8 (N*p, N*p, 3)."""
    pixels = cut_board(photo, board(spec))
    if spec.brightness < 1:
        pixels = np.rint(np.arange(256) * spec.brightness).astype(np.uint8)[pixels]
    return pixels


def draw_sheet(spec: Spec, target: dict[str, Any], pixels: np.ndarray) -> np.ndarray:
    """The sheet as uint8 (height, width, 3).

    pixels: uint8 (N*p, N*p, 3), from `cut_photo`.
    """
    sheet, patches = geometry(spec), _patches(spec)
    piece = sheet.piece
    out = _template(spec).copy()
    ground = np.array(spec.ground, np.uint8)
    for index, ((row, column), signature) in enumerate(zip(target["cells"], target["signatures"], strict=True)):
        y, x = sheet.body(index, spec.grid)
        from_y, from_x = row * piece, column * piece
        out[y : y + piece, x : x + piece] = pixels[from_y : from_y + piece, from_x : from_x + piece]
        for side, edge in enumerate(signature):
            if edge == 0:
                continue
            dy, dx, mask = patches[side, edge]
            height, width, _ = mask.shape
            here = out[y + dy : y + dy + height, x + dx : x + dx + width]
            if edge == 1:
                there = pixels[from_y + dy : from_y + dy + height, from_x + dx : from_x + dx + width]
                np.copyto(here, there, where=mask)
            else:
                np.copyto(here, ground, where=mask)
    return out


def render(puzzle: Puzzle, photo: Photo | None) -> Example:
    """The one image of a puzzle: all pieces in id order."""
    if photo is None:
        raise ValueError("got no photo; jigshape cuts a photo: pass the one the puzzle was posed with")
    assert isinstance(puzzle.spec, Spec)
    return Example(puzzle, [draw_sheet(puzzle.spec, puzzle.target, cut_photo(puzzle.spec, photo))])


@lru_cache(maxsize=1024)
def piece_mask(spec: Spec, signature: Signature) -> np.ndarray:
    """Pixels that belong to a piece, bool (canvas, canvas), read-only."""
    sheet, patches = geometry(spec), _patches(spec)
    reach, piece = sheet.reach, sheet.piece
    mask = np.zeros((sheet.canvas, sheet.canvas), bool)
    mask[reach : reach + piece, reach : reach + piece] = True
    for side, edge in enumerate(signature):
        if edge != 0:
            dy, dx, patch = patches[side, edge]
            height, width, _ = patch.shape
            part = mask[reach + dy : reach + dy + height, reach + dx : reach + dx + width]
            part[patch[:, :, 0]] = edge == 1
    return _frozen(mask)


def assemble(
    sheet: np.ndarray, cells: Sequence[Cell | None], target: dict[str, Any], spec: Spec, ground: tuple[int, int, int]
) -> np.ndarray:
    """Pieces cut out of a sheet and laid on cells, uint8 (N*p + 2*reach, N*p + 2*reach, 3).

    cells: [row, col] by id; None leaves a piece out. Pieces that do not fit lie over each other in id order.
    """
    shape = geometry(spec)
    reach, canvas, piece = shape.reach, shape.canvas, shape.piece
    side = spec.grid * piece + 2 * reach
    out = np.empty((side, side, 3), np.uint8)
    out[:] = ground
    for index, cell in enumerate(cells):
        if cell is None:
            continue
        y, x = shape.body(index, spec.grid)
        to_y, to_x = cell[0] * piece, cell[1] * piece
        mask = piece_mask(spec, tuple(target["signatures"][index]))
        cut = sheet[y - reach : y - reach + canvas, x - reach : x - reach + canvas]
        np.copyto(out[to_y : to_y + canvas, to_x : to_x + canvas], cut, where=mask[:, :, None])
    return out


def recompose(sheet: np.ndarray, target: dict[str, Any], spec: Spec) -> np.ndarray:
    """The resized photo back from a sheet, byte for byte, uint8 (N*p, N*p, 3)."""
    reach = geometry(spec).reach
    whole = assemble(sheet, target["cells"], target, spec, spec.ground)
    return whole[reach : whole.shape[0] - reach, reach : whole.shape[1] - reach]
