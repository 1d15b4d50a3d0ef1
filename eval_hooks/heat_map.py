"""Pictures of many answers at once: how far pieces lie from where they belong, and where edges fit."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from eval_hooks.percent import percent

_PAPER = (255, 255, 255)
_INK = (32, 32, 32)
_LINE = (215, 215, 215)
_FRAME = (213, 94, 0)
_SCALE = np.array([(237, 248, 177), (127, 205, 187), (44, 127, 184), (8, 29, 88)], float)
"""Light to dark, so that it reads the same to the colour-blind and in grey."""
_LEFT_PX = 72
_TOP_PX = 76
_BELOW_PX = 60
_BAR_PX = 24
_RIGHT_PX = 120

Box = tuple[float, float, float, float]
"""left, top, right, bottom, px."""
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


def displacement_map(counts: Sequence[Sequence[int]], title: str) -> Image.Image:
    """How often a piece lies [rows, columns] away from where it belongs.

    The middle, where the right pieces are, is framed and not on the colour scale: they would drown the others. White is
    never.

    Args:
        counts: (2N-1, 2N-1), zero displacement in the middle, at least one piece.
    """
    shares = np.array(counts, float)
    shares /= shares.sum()
    side = len(shares)
    middle = side // 2
    elsewhere = shares.copy()
    elsewhere[middle, middle] = 0
    most = _rounded_up(float(elsewhere.max()))
    cell = max(12, min(100, 672 // side))
    in_place = f"{percent(float(shares[middle, middle]))} % are in the right cell (framed)"
    note = f"{in_place}; colours: share of all that are placed; white: never"
    page, draw = _page(side * cell, title, note)
    font = ImageFont.load_default(size=min(15, 0.34 * cell))
    for row, column in np.ndindex(side, side):
        left, top = _LEFT_PX + column * cell, _TOP_PX + row * cell
        share = float(elsewhere[row, column])
        color = _color(share / most) if share else _PAPER
        draw.rectangle((left, top, left + cell, top + cell), fill=color, outline=_LINE)
        if cell >= 40 and (share or row == column == middle):
            center = (left + cell / 2, top + cell / 2)
            draw.text(center, _percent(float(shares[row, column])), fill=_ink_on(color), font=font, anchor="mm")
    corner = (_LEFT_PX + middle * cell, _TOP_PX + middle * cell)
    draw.rectangle((*corner, corner[0] + cell, corner[1] + cell), outline=_FRAME, width=3)
    _ticks(draw, [f"{step:+d}" if step else "0" for step in range(-middle, middle + 1)], cell)
    _axis_names(page, "columns right (negative: left)", "rows down (negative: up)", side * cell)
    _scale_bar(page, most, side * cell)
    return page


def fits_map(across: Sequence[Sequence[float]], down: Sequence[Sequence[float]], title: str) -> Image.Image:
    """How often a tab faces a blank at each edge between two cells of the answer.

    Args:
        across: shares (N, N-1), between a cell and the one right of it.
        down: shares (N-1, N), between a cell and the one below it.
    """
    grid = len(across)
    cell = max(20, min(160, 672 // grid))
    mean = float(np.mean([*np.ravel(across), *np.ravel(down)]))
    note = f"a tab faces a blank at {percent(mean)} % of the edges between cells; dark: it does in most answers"
    page, draw = _page(grid * cell, title, note)
    for row, column in np.ndindex(grid, grid):
        left, top = _LEFT_PX + column * cell, _TOP_PX + row * cell
        draw.rectangle((left, top, left + cell, top + cell), outline=_LINE)
    font = ImageFont.load_default(size=min(13, 0.14 * cell)) if cell >= 72 else None
    half_width, half_length = 0.15 * cell, 0.36 * cell
    for row, column in np.ndindex(grid, grid - 1):
        x, y = _LEFT_PX + (column + 1) * cell, _TOP_PX + (row + 0.5) * cell
        _edge(draw, (x - half_width, y - half_length, x + half_width, y + half_length), across[row][column], font)
    for row, column in np.ndindex(grid - 1, grid):
        x, y = _LEFT_PX + (column + 0.5) * cell, _TOP_PX + (row + 1) * cell
        _edge(draw, (x - half_length, y - half_width, x + half_length, y + half_width), down[row][column], font)
    _ticks(draw, list(map(str, range(grid))), cell)
    _axis_names(page, "column", "row", grid * cell)
    _scale_bar(page, 1.0, grid * cell)
    return page


def _edge(draw: ImageDraw.ImageDraw, box: Box, share: float, font: Font | None) -> None:
    """A bar of the share's colour; with a font outlined, and the share in it in percent."""
    color = _color(share)
    draw.rectangle(box, fill=color, outline=_INK if font else None)
    if font:
        middle = ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)
        draw.text(middle, f"{100 * share:.0f}", fill=_ink_on(color), font=font, anchor="mm")


def _page(board: int, title: str, note: str) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    """An empty page around a board of that many px, with its two lines above."""
    large, small = ImageFont.load_default(size=18), ImageFont.load_default(size=14)
    text = max(large.getlength(title), small.getlength(note))
    width = max(_LEFT_PX + board + _RIGHT_PX, math.ceil(text) + 32)
    page = Image.new("RGB", (width, _TOP_PX + board + _BELOW_PX), _PAPER)
    draw = ImageDraw.Draw(page)
    draw.text((16, 22), title, fill=_INK, font=large, anchor="lm")
    draw.text((16, 48), note, fill=_INK, font=small, anchor="lm")
    return page, draw


def _ticks(draw: ImageDraw.ImageDraw, labels: Sequence[str], cell: int) -> None:
    """Numbers below and left of the board, as many as there is room for."""
    font = ImageFont.load_default(size=13)
    step = math.ceil(30 / cell)
    bottom = _TOP_PX + len(labels) * cell
    for place, label in enumerate(labels):
        if (place - len(labels) // 2) % step == 0:
            along = (place + 0.5) * cell
            draw.text((_LEFT_PX + along, bottom + 12), label, fill=_INK, font=font, anchor="mm")
            draw.text((_LEFT_PX - 8, _TOP_PX + along), label, fill=_INK, font=font, anchor="rm")


def _axis_names(page: Image.Image, columns: str, rows: str, board: int) -> None:
    """The names of both axes; the rows' runs downwards, as they do."""
    font = ImageFont.load_default(size=15)
    draw = ImageDraw.Draw(page)
    draw.text((_LEFT_PX + board / 2, _TOP_PX + board + 36), columns, fill=_INK, font=font, anchor="mm")
    strip = Image.new("RGB", (math.ceil(font.getlength(rows)), 22), _PAPER)
    ImageDraw.Draw(strip).text((0, 11), rows, fill=_INK, font=font, anchor="lm")
    turned = strip.transpose(Image.Transpose.ROTATE_270)
    page.paste(turned, (10, round(_TOP_PX + board / 2 - turned.height / 2)))


def _scale_bar(page: Image.Image, most: float, board: int) -> None:
    """The colours from 0 to `most`, with numbers in percent, right of the board."""
    draw = ImageDraw.Draw(page)
    font = ImageFont.load_default(size=13)
    left = _LEFT_PX + board + 28
    for step in range(board + 1):
        draw.line((left, _TOP_PX + step, left + _BAR_PX, _TOP_PX + step), fill=_color(1 - step / board))
    draw.rectangle((left, _TOP_PX, left + _BAR_PX, _TOP_PX + board), outline=_INK)
    for fifth in range(6):
        y = _TOP_PX + board * (1 - fifth / 5)
        draw.line((left + _BAR_PX, y, left + _BAR_PX + 5, y), fill=_INK)
        draw.text((left + _BAR_PX + 9, y), f"{20 * fifth * most:.3g} %", fill=_INK, font=font, anchor="lm")


def _rounded_up(share: float) -> float:
    """The next round number that is no smaller, .1, .15, .2, .3, ... times a power of ten; 1 for 0."""
    if share == 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(share))
    return min(1.0, next(step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if share <= step * power * (1 + 1e-9)))


def _percent(share: float) -> str:
    """In percent, short; neither 0 nor 100 unless it is that exactly."""
    size = 100 * share
    if 0 < size < 0.1:
        return "<.1"
    if 99 < size < 100:
        return f"{min(size, 99.9):.1f}"
    return f"{size:.1f}" if 0 < size < 9.95 else f"{size:.0f}"


def _color(share: float) -> tuple[int, int, int]:
    """A share of the scale, in [0, 1]."""
    stops = np.linspace(0, 1, len(_SCALE))
    red, green, blue = (round(float(np.interp(share, stops, channel))) for channel in _SCALE.T)
    return red, green, blue


def _ink_on(color: tuple[int, int, int]) -> tuple[int, int, int]:
    red, green, blue = color
    return _INK if 0.299 * red + 0.587 * green + 0.114 * blue > 128 else _PAPER
