"""Digits drawn in code, so that labels are the same bytes on every machine."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# Rows from the top, one character per pixel.
_SMALL = """
### .#. ### ### #.# ### ### ### ### ###
#.# ##. ..# ..# #.# #.. #.. ..# #.# #.#
#.# .#. ### ### ### ### ### ..# ### ###
#.# .#. #.. ..# ..# ..# #.# .#. #.# ..#
### ### ### ### ..# ### ### .#. ### ###
"""
_LARGE = """
.###. ..#.. .###. ##### ...#. ##### ..##. ##### .###. .###.
#...# .##.. #...# ...#. ..##. #.... .#... ....# #...# #...#
#..## ..#.. ....# ..#.. .#.#. ####. #.... ...#. #...# #...#
#.#.# ..#.. ...#. ...#. #..#. ....# ####. ..#.. .###. .####
##..# ..#.. ..#.. ....# ##### ....# #...# .#... #...# ....#
#...# ..#.. .#... #...# ...#. #...# #...# .#... #...# ...#.
.###. .###. ##### .###. ...#. .###. .###. .#... .###. .##..
"""


def _glyphs(drawing: str) -> np.ndarray:
    """(10, height, width) bool from rows that hold the ten digits side by side."""
    rows = [[[pixel == "#" for pixel in glyph] for glyph in line.split()] for line in drawing.split("\n") if line]
    return np.array(rows).transpose(1, 0, 2)


_FONTS = (_glyphs(_LARGE), _glyphs(_SMALL))


class Face(NamedTuple):
    """A font (0: 5x7, 1: 3x5 pixels per digit) and a whole-number magnification."""

    font: int
    scale: int


def choose_face(width: int, height: int, num_digits: int) -> Face | None:
    """The largest face whose `num_digits` digits fit into width x height px; None if none does.

    A line of ground stays free above and below where there is room for one.
    """
    for font, glyphs in enumerate(_FONTS):
        _, glyph_height, glyph_width = glyphs.shape
        free_height = max(height - 2, glyph_height if font == 1 and height >= glyph_height else 0)
        scale = min(free_height // glyph_height, width // (num_digits * (glyph_width + 1) - 1))
        if scale >= 1:
            return Face(font, scale)
    return None


def draw_number(number: int, face: Face) -> np.ndarray:
    """A non-negative number as a bool mask (height, width), true where ink is, one empty column between digits."""
    glyphs = _FONTS[face.font]
    columns = [np.pad(glyphs[int(digit)], ((0, 0), (0, 1))) for digit in str(number)]
    ink = np.concatenate(columns, axis=1)[:, :-1]
    return np.repeat(np.repeat(ink, face.scale, axis=0), face.scale, axis=1)
