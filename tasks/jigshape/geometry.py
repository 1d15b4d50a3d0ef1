"""Where things lie on a sheet: all of it follows from the spec."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field

from tasks.contract import Board
from tasks.contract import Spec as BaseSpec
from tasks.jigshape.digits import Face, choose_face

# .15 and .28 are the paper's; 8 and 12 are ours, see facts on sheet geometry in docs/tasks.md.
TAB_RATIO_AT = ((4, 8, 12, 16), (0.15, 0.20, 0.25, 0.28))


Channel = Annotated[int, Field(ge=0, le=255)]
RGB = tuple[Channel, Channel, Channel]


class Layout(BaseSpec):
    """The fields of a spec that say how the pieces are cut and shown."""

    grid: Annotated[int, Field(ge=2, le=32)]
    """N: pieces per side."""
    input: Literal["sheet", "pieces"] = "sheet"
    """sheet: one image of all pieces. pieces: one image for each, for models that squeeze large images."""
    piece_px: Annotated[int, Field(ge=4, le=1024)] | None = None
    """Side of a piece without tabs, px. None: 144 up to grid 9, 145 from grid 10 (the published sheets' sizes)."""
    tab_ratio: Annotated[float, Field(gt=0, le=0.6)] | None = None
    """Tab diameter / piece side. None: .15 / .20 / .25 / .28 at grid 4 / 8 / 12 / 16, linear between, constant outside.
    Above .6 the blanks of one piece would come near each other."""
    gap_px: Annotated[int, Field(ge=0, le=256)] = 20
    """Gap between columns, px."""
    band_px: Annotated[int, Field(ge=0, le=256)] = 20
    """Label band above each row, px."""
    label: Literal["band", "none"] = "band"
    """band: the id is printed above its piece; none: ids follow from the order of the pieces."""
    label_color: RGB = (0, 0, 0)
    ground: RGB = (255, 0, 255)
    """Colour between the pieces. Magenta hides no tab; white hides .68 % of them at 4x4 (clipped sky on white)."""
    layout: Literal["published", "aligned"] = "published"
    """aligned: columns and rows start at multiples of token_px, so that no vision token sees two pieces."""
    token_px: Annotated[int, Field(ge=1, le=256)] = 32
    """Side of the square that becomes one vision token, px (aligned layout only)."""
    sheet_scale: Annotated[float, Field(ge=0.1, le=4)] = 1.0
    """Factor on the sides of the image that the model sees (Lanczos)."""

    @property
    def num_pieces(self) -> int:
        return self.grid**2


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
    label_width: int
    """Room for a label above its piece."""
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
def geometry(spec: Layout) -> Geometry:
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
    return Geometry(piece, radius, reach, canvas, column_pitch, row_pitch, left, top, width, height, label_width, face)


MAX_PIXELS = 89_478_485
"""Largest image, where Pillow begins to warn of decompression bombs: 9,459 px square."""


def board(spec: Layout) -> Board:
    """The square of the photo that is cut into pieces."""
    side = spec.grid * geometry(spec).piece
    return Board(side, side, spec.grid, spec.grid)


def image_sizes(spec: Layout) -> tuple[tuple[int, int], ...]:
    """(width, height) of each image that the model sees: the sheet, or one image for each piece."""
    sheet = geometry(spec)
    if spec.input == "sheet":
        sizes = [(sheet.width, sheet.height)]
    else:
        width = sheet.column_pitch if spec.layout == "aligned" else sheet.canvas
        sizes = [(width, sheet.row_pitch)] * spec.grid**2
    return tuple((max(1, round(w * spec.sheet_scale)), max(1, round(h * spec.sheet_scale))) for w, h in sizes)
