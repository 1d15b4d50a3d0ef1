"""Where things lie on a sheet: all of it follows from the spec."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tasks.contract import Board
from tasks.jigshape.digits import Face, choose_face

if TYPE_CHECKING:
    from tasks.jigshape.spec import Spec

# .15 and .28 are the paper's; 8 and 12 are ours, see facts on sheet geometry in docs/tasks.md.
TAB_RATIO_AT = ((4, 8, 12, 16), (0.15, 0.20, 0.25, 0.28))


class Geometry(NamedTuple):
    """Where things lie on a sheet, px."""

    piece: int
    """Side of a piece's body."""
    radius: float
    """Radius of a tab, tab_ratio x piece / 2."""
    reach: int
    """Whole pixels a tab may stick out: ceil(radius)."""
    canvas: int
    """Side of the square that holds a piece with all its tabs: piece + 2 x reach."""
    column_pitch: int
    row_pitch: int
    left: int
    """Left side of a canvas within its column."""
    top: int
    """Top of a canvas within its row."""
    width: int
    height: int
    face: Face | None
    """How labels are drawn; None if they do not fit."""

    def body(self, index: int, grid: int) -> tuple[int, int]:
        """(y, x) of the top-left pixel of the body of the piece in place `index` (row-major) of the sheet."""
        row, column = divmod(index, grid)
        return (
            row * self.row_pitch + self.top + self.reach,
            column * self.column_pitch + self.left + self.reach,
        )


@lru_cache(maxsize=256)
def geometry(spec: Spec) -> Geometry:
    """The sheet of a spec: 724 x 744 px for grid 4 and 3292 x 3312 for grid 16, the published sizes, by default."""
    grid = spec.grid
    piece = spec.piece_px or (144 if grid < 10 else 145)
    ratio = spec.tab_ratio or float(np.interp(grid, *TAB_RATIO_AT))
    radius = ratio * piece / 2
    reach = math.ceil(radius - 1e-9)  # a radius meant as whole must not grow by float noise
    canvas = piece + 2 * reach
    column_pitch, row_pitch = canvas + spec.gap_px, canvas + spec.band_px
    width, height = grid * column_pitch - spec.gap_px, grid * row_pitch
    left, top = 0, spec.band_px
    if spec.layout == "aligned":
        column_pitch = math.ceil(column_pitch / spec.token_px) * spec.token_px
        row_pitch = math.ceil(row_pitch / spec.token_px) * spec.token_px
        width, height = grid * column_pitch, grid * row_pitch
        left, top = (column_pitch - canvas) // 2, spec.band_px + (row_pitch - spec.band_px - canvas) // 2
    # The outer columns of the published layout have no gap beside them.
    label_width = column_pitch if spec.layout == "aligned" else canvas
    face = choose_face(label_width, spec.band_px, len(str(grid**2 - 1)))
    return Geometry(piece, radius, reach, canvas, column_pitch, row_pitch, left, top, width, height, face)


def board(spec: Spec) -> Board:
    """The square of the photo that is cut into pieces."""
    side = spec.grid * geometry(spec).piece
    return Board(side, side, spec.grid, spec.grid)


def image_sizes(spec: Spec) -> tuple[tuple[int, int], ...]:
    """(width, height) of each image that the model sees: the sheet, or one image for each piece."""
    sheet = geometry(spec)
    if spec.input == "sheet":
        sizes = [(sheet.width, sheet.height)]
    else:
        width = sheet.column_pitch if spec.layout == "aligned" else sheet.canvas
        sizes = [(width, sheet.row_pitch)] * spec.grid**2
    return tuple((max(1, round(w * spec.sheet_scale)), max(1, round(h * spec.sheet_scale))) for w, h in sizes)
