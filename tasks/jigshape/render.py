"""From a posed puzzle to the images that the model sees."""

from __future__ import annotations

import numpy as np

from tasks.contract import Example, Photo, Puzzle
from tasks.jigshape.geometry import geometry, image_sizes
from tasks.jigshape.perturb import perturb_image, perturb_sheet
from tasks.jigshape.sheet import cut_photo, draw_sheet, label_ink
from tasks.jigshape.spec import Spec
from tasks.jigshape.twins import twins
from tasks.photo import needed

_NOISE_STREAM = 1


def render(puzzle: Puzzle, photo: Photo | None) -> Example:
    """The puzzle with its images: the sheet, or one image for each piece, in id order.

    It is ambiguous if two pieces to be found are the same in shape and in every pixel.
    """
    spec = puzzle.spec
    assert isinstance(spec, Spec)
    pixels = cut_photo(spec, needed(photo, "jigshape"))
    sheet = draw_sheet(spec, puzzle.target, pixels)
    if spec.noise or spec.bars:
        sheet = perturb_sheet(spec, np.random.default_rng([puzzle.seed, _NOISE_STREAM]), sheet, label_ink(spec))
    images = [sheet] if spec.input == "sheet" else _pieces(spec, sheet)
    images = [perturb_image(spec, image, size) for image, size in zip(images, image_sizes(spec), strict=True)]
    return Example(puzzle, images, ambiguous=bool(twins(spec, puzzle.target, pixels)))


def _pieces(spec: Spec, sheet: np.ndarray) -> list[np.ndarray]:
    """Each piece with its label, cut out of the sheet."""
    shape = geometry(spec)
    width = shape.column_pitch if spec.layout == "aligned" else shape.canvas
    starts = [divmod(index, spec.grid) for index in range(spec.num_pieces)]
    return [
        np.ascontiguousarray(sheet[row * shape.row_pitch :, column * shape.column_pitch :][: shape.row_pitch, :width])
        for row, column in starts
    ]
