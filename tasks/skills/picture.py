"""An answer drawn for a person: the sheet, the pieces in question framed, the answer as a line of text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from tasks.jigshape.geometry import geometry
from tasks.jigshape.spec import Spec

_SHEET_PX = 768
_TITLE_PX = 32
_MARGIN_PX = 8
_PAPER = (255, 255, 255)
_INK = (32, 32, 32)
_RIGHT = (20, 150, 60)
_WRONG = (230, 25, 40)


def picture_of(spec: Spec, sheet: np.ndarray, pieces: Sequence[int], title: str, right: bool) -> Image.Image:
    """The sheet at about 768 px with the given pieces framed in green (right) or red (wrong), under its title."""
    image = _fit(Image.fromarray(sheet))
    shape = geometry(spec)
    scale = image.width / shape.width
    draw = ImageDraw.Draw(image)
    for piece in pieces:
        top, left = (scale * (corner - shape.reach) for corner in shape.body(piece, spec.grid))
        side = max(0.0, scale * shape.canvas - 1)
        frame = (left, top, left + side, top + side)
        draw.rectangle(frame, outline=_RIGHT if right else _WRONG, width=max(2, round(side / 20)))
    font = ImageFont.load_default(size=18)
    width = max(image.width, round(font.getlength(title)) + 2 * _MARGIN_PX)
    page = Image.new("RGB", (width, image.height + _TITLE_PX), _PAPER)
    ImageDraw.Draw(page).text((_MARGIN_PX, _TITLE_PX / 2), title, fill=_INK, font=font, anchor="lm")
    page.paste(image, (0, _TITLE_PX))
    return page


def _fit(image: Image.Image) -> Image.Image:
    """Smoothly down to 768 px, or in whole steps up towards them."""
    longest = max(image.size)
    if longest > _SHEET_PX:
        size = (round(side * _SHEET_PX / longest) for side in image.size)
        return image.resize((next(size), next(size)), Image.Resampling.LANCZOS)
    factor = _SHEET_PX // longest
    return image.resize((image.width * factor, image.height * factor), Image.Resampling.NEAREST)
