"""The sheet: all pieces drawn side by side, and its inverse."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tasks.contract import Photo
from tasks.jigshape.digits import draw_number
from tasks.jigshape.edges import BOTTOM, LEFT, RIGHT, TOP
from tasks.jigshape.geometry import board, geometry
from tasks.jigshape.perturb import perturb_photo
from tasks.jigshape.spec import Spec
from tasks.photo import cut_board

Cell = Sequence[int]
Signature = Sequence[int]


class _Patch(NamedTuple):
    """Half a disc on one side of a piece, placed relative to the top-left pixel of its body.

    Images are handled as rows of bytes, (height, 3 * width): numpy copies those several times faster than pixels.
    """

    y: int
    x: int
    mask: np.ndarray  # (height, 3 * width) bool, read-only
    ground: np.ndarray  # (height, 3 * width) uint8, read-only


@lru_cache(maxsize=256)
def _patches(spec: Spec) -> dict[tuple[int, int], _Patch]:
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
    ground = np.array(spec.ground, np.uint8)
    return {
        key: _Patch(y, x, _frozen(np.repeat(mask, 3, axis=1)), _frozen(np.tile(ground, mask.shape)))
        for key, (y, x, mask) in placed.items()
    }


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
        for index in range(spec.num_pieces):
            y, x = sheet.body(index, spec.grid)
            ink = draw_number(index, sheet.face)
            y += -sheet.reach - spec.band_px + (spec.band_px - ink.shape[0]) // 2
            x += int((sheet.piece - ink.shape[1]) / 2)  # towards 0: a label as wide as its column stays in it
            template[y : y + ink.shape[0], x : x + ink.shape[1]][ink] = spec.label_color
    return _frozen(template)


def label_ink(spec: Spec) -> np.ndarray:
    """Where labels are printed on the sheet, bool (height, width)."""
    return (_template(spec) != np.array(spec.ground, np.uint8)).any(axis=-1)


def cut_photo(spec: Spec, photo: Photo) -> np.ndarray:
    """The photo's largest centred square, resized and perturbed: what the pieces recompose to, uint8 (N*p, N*p, 3)."""
    return perturb_photo(spec, cut_board(photo, board(spec)))


def draw_sheet(spec: Spec, target: dict[str, Any], pixels: np.ndarray) -> np.ndarray:
    """The sheet as uint8 (height, width, 3).

    pixels: uint8 (N*p, N*p, 3), from `cut_photo`.
    """
    sheet, patches, template = geometry(spec), _patches(spec), _as_rows(_template(spec))
    out = np.empty((sheet.height, sheet.width, 3), np.uint8)
    rows, source = _as_rows(out), _as_rows(pixels)
    end = 0
    for row in range(spec.grid):
        start = row * sheet.row_pitch + sheet.top + sheet.reach
        rows[end:start] = template[end:start]
        end = start + sheet.piece
        rows[start:end] = template[start]  # ground alone: writing one row over and over is faster than copying many
    rows[end:] = template[end:]
    for index, (cell, signature) in enumerate(zip(target["cells"], target["signatures"], strict=True)):
        _draw_piece(sheet.piece, patches, signature, source, cell, rows, sheet.body(index, spec.grid))
    return out


def draw_piece(spec: Spec, signature: Signature, pixels: np.ndarray, cell: Cell) -> np.ndarray:
    """The piece of one cell alone on the ground, uint8 (canvas, canvas, 3)."""
    shape = geometry(spec)
    out = np.empty((shape.canvas, shape.canvas, 3), np.uint8)
    out[:] = spec.ground
    at = (shape.reach, shape.reach)
    _draw_piece(shape.piece, _patches(spec), signature, _as_rows(pixels), cell, _as_rows(out), at)
    return out


def _as_rows(image: np.ndarray) -> np.ndarray:
    """(H, W, 3) as (H, 3 * W), the same memory."""
    return image.reshape(image.shape[0], -1)


def _draw_piece(
    piece: int,
    patches: dict[tuple[int, int], _Patch],
    signature: Signature,
    source: np.ndarray,
    cell: Cell,
    out: np.ndarray,
    at: tuple[int, int],
) -> None:
    """Draw the piece of `cell`, its body at (y, x) `at`; both images as rows of bytes."""
    y, x = at[0], 3 * at[1]
    from_y, from_x = cell[0] * piece, 3 * cell[1] * piece
    out[y : y + piece, x : x + 3 * piece] = source[from_y : from_y + piece, from_x : from_x + 3 * piece]
    for side, edge in enumerate(signature):
        if edge == 0:
            continue
        dy, dx, mask, ground = patches[side, edge]
        height, width = mask.shape
        here = out[y + dy : y + dy + height, x + 3 * dx : x + 3 * dx + width]
        if edge == 1:
            ground = source[from_y + dy : from_y + dy + height, from_x + 3 * dx : from_x + 3 * dx + width]
        np.copyto(here, ground, where=mask)


@lru_cache(maxsize=1024)
def piece_mask(spec: Spec, signature: tuple[int, int, int, int]) -> np.ndarray:
    """Pixels that belong to a piece, bool (canvas, canvas), read-only."""
    sheet, patches = geometry(spec), _patches(spec)
    reach, piece = sheet.reach, sheet.piece
    mask = np.zeros((sheet.canvas, sheet.canvas), bool)
    mask[reach : reach + piece, reach : reach + piece] = True
    for side, edge in enumerate(signature):
        if edge != 0:
            dy, dx, patch, _ = patches[side, edge]
            patch = patch[:, ::3]
            height, width = patch.shape
            part = mask[reach + dy : reach + dy + height, reach + dx : reach + dx + width]
            part[patch] = edge == 1
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
    """The cut photo back from a sheet, byte for byte, uint8 (N*p, N*p, 3)."""
    reach = geometry(spec).reach
    whole = assemble(sheet, target["cells"], target, spec, spec.ground)
    return whole[reach : whole.shape[0] - reach, reach : whole.shape[1] - reach]
