"""The probe's picture, and the answer drawn into it."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

from tasks.contract import Example, Invalid, Photo, Puzzle
from tasks.photo import cut_board, needed
from tasks.probes.spec import Spec, board, messages

NAME = "probes"
VERSION = 1

_RIGHT = (20, 150, 60)
_WRONG = (230, 25, 40)


def pose(spec: Spec, photo: Photo | None, seed: int) -> Puzzle:
    """Choose the cell to hide, uniformly."""
    number = int(np.random.default_rng(seed).integers(1, spec.grid**2 + 1))
    area = board(spec)
    return Puzzle(
        task=NAME,
        version=VERSION,
        spec=spec,
        photo_id=needed(photo, NAME).id,
        seed=seed,
        messages=messages(spec),
        target={"kind": spec.kind, "grid": spec.grid, "number": number},
        image_sizes=((area.width, area.height),),
    )


def render(puzzle: Puzzle, photo: Photo | None) -> Example:
    """The photo's largest centred square with one cell covered, lines on top."""
    spec = puzzle.spec
    assert isinstance(spec, Spec)
    pixels = cut_board(needed(photo, NAME), board(spec)).copy()
    left, top, right, bottom = _cell(spec, puzzle.target["number"])
    pixels[top:bottom, left:right] = spec.missing_color
    for line in range(1, spec.grid):
        start = line * spec.cell_px - spec.line_px // 2
        pixels[start : start + spec.line_px] = spec.line_color
        pixels[:, start : start + spec.line_px] = spec.line_color
    return Example(puzzle, [pixels])


def picture(puzzle: Puzzle, answer: int | Invalid, photo: Photo | None) -> Image.Image:
    """The probe, the answered cell framed in green (right) or red (wrong); an invalid answer frames all in red."""
    spec = puzzle.spec
    assert isinstance(spec, Spec)
    image = Image.fromarray(render(puzzle, photo).images[0])
    box = (0, 0, *image.size) if isinstance(answer, Invalid) else _cell(spec, answer)
    color = _RIGHT if answer == puzzle.target["number"] else _WRONG
    frame = (box[0], box[1], box[2] - 1, box[3] - 1)
    ImageDraw.Draw(image).rectangle(frame, outline=color, width=max(1, spec.cell_px // 16))
    return image


def _cell(spec: Spec, number: int) -> tuple[int, int, int, int]:
    """(left, top, right, bottom) of a cell, px."""
    row, column = divmod(number - 1, spec.grid)
    return (
        column * spec.cell_px,
        row * spec.cell_px,
        (column + 1) * spec.cell_px,
        (row + 1) * spec.cell_px,
    )
