"""An answer drawn for a person: the sheet, the model's assembly and the truth side by side."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from tasks.contract import Invalid, Photo, Puzzle
from tasks.jigshape.answer import Answer
from tasks.jigshape.geometry import geometry
from tasks.jigshape.render import render
from tasks.jigshape.sheet import assemble, cut_photo, draw_sheet
from tasks.jigshape.spec import Spec
from tasks.photo import needed

_PANEL_PX = 512
_MARGIN_PX = 16
_TITLE_PX = 32
_PAPER = (255, 255, 255)
_INK = (32, 32, 32)
_EMPTY = (200, 200, 200)
_WRONG = (230, 25, 40)


def picture(puzzle: Puzzle, answer: Answer | Invalid, photo: Photo | None) -> Image.Image:
    """Three panels of about 512 px: sheet, answer (wrong pieces outlined in red, empty cells grey), truth."""
    spec, target = puzzle.spec, puzzle.target
    assert isinstance(spec, Spec)
    pixels = cut_photo(spec, needed(photo, "jigshape"))
    sheet = draw_sheet(spec, target, pixels)
    cells = list((answer.partial or [None] * spec.num_pieces) if isinstance(answer, Invalid) else answer)
    given = target.get("clues", ())
    num_right = sum(cells[index] == true for index, true in enumerate(target["cells"]) if index not in given)
    for index in given:
        cells[index] = target["cells"][index]
    title = f"answer: {num_right} of {spec.num_open} right"
    if isinstance(answer, Invalid):
        title = f"no valid answer: {answer.reason}"
    panels = [
        ("sheet", _fit(Image.fromarray(render(puzzle, photo).images[0] if spec.input == "sheet" else sheet))),
        (title, _assembly(spec, target, sheet, cells)),
        ("truth", _fit(Image.fromarray(pixels))),
    ]
    return _side_by_side(panels)


def _fit(image: Image.Image) -> Image.Image:
    """Scaled to a panel's height: smoothly down, in whole steps up."""
    if image.height > _PANEL_PX:
        width = round(image.width * _PANEL_PX / image.height)
        return image.resize((width, _PANEL_PX), Image.Resampling.LANCZOS)
    factor = max(1, _PANEL_PX // image.height)
    return image.resize((image.width * factor, image.height * factor), Image.Resampling.NEAREST)


def _assembly(spec: Spec, target: dict, sheet: np.ndarray, cells: list) -> Image.Image:
    """Pieces where the answer puts them, empty cells grey, wrong pieces outlined."""
    shape = geometry(spec)
    laid = assemble(sheet, cells, target, spec, _EMPTY)
    side = spec.grid * shape.piece
    image = _fit(Image.fromarray(laid))
    draw = ImageDraw.Draw(image)
    scale = image.height / (side + 2 * shape.reach)
    line = max(1, min(4, round(shape.piece * scale / 20)))
    for cell, true in zip(cells, target["cells"], strict=True):
        if cell is not None and cell != true:
            top, left = (round((place * shape.piece + shape.reach) * scale) for place in cell)
            size = round(shape.piece * scale) - 1
            draw.rectangle((left, top, left + size, top + size), outline=_WRONG, width=line)
    return image


def _side_by_side(panels: list[tuple[str, Image.Image]]) -> Image.Image:
    height = max(image.height for _, image in panels) + _TITLE_PX + _MARGIN_PX
    width = sum(image.width for _, image in panels) + _MARGIN_PX * (len(panels) + 1)
    page = Image.new("RGB", (width, height), _PAPER)
    draw = ImageDraw.Draw(page)
    font = ImageFont.load_default(size=18)
    left = _MARGIN_PX
    for title, image in panels:
        draw.text((left, _TITLE_PX / 2), title, fill=_INK, font=font, anchor="lm")
        page.paste(image, (left, _TITLE_PX))
        left += image.width + _MARGIN_PX
    return page
