import re

import numpy as np
from PIL import Image

from tasks.jigshape import TASK
from tasks.jigshape.geometry import board
from tasks.jigshape.spec import Spec
from tasks.photo import ImagePhoto


def striped(spec, colors):
    """A photo of one band of noise around each colour."""
    width, height, *_ = board(spec)
    rng = np.random.default_rng(0)
    pixels = rng.normal(0, 6, (height, width, 3)) + np.repeat(np.array(colors), height // len(colors), axis=0)[:, None]
    return ImagePhoto(Image.fromarray(pixels.clip(0, 255).astype(np.uint8)))


def groups_in(puzzle):
    line = re.search(r"lie near each other: ([^.\n]*)\.", puzzle.messages[-1]["content"][-1]["text"]).group(1)
    return [[int(number) for number in group.split(", ")] for group in line.split("; ")]


def test_pieces_are_grouped_by_their_colours():
    spec = Spec(grid=4, piece_px=24, tab_ratio=0.3, hints="color")
    photo = striped(spec, [(200, 40, 40), (40, 180, 60), (50, 60, 200), (220, 220, 90)])
    puzzle = TASK.pose(spec, photo, 3)
    groups = groups_in(puzzle)
    assert sorted(index for group in groups for index in group) == list(range(16))
    rows = [{puzzle.target["cells"][index][0] for index in group} for group in groups]
    assert sorted(rows, key=min) == [{0}, {1}, {2}, {3}]
    assert groups == sorted(groups)


def test_hints_change_the_prompt_alone(make_photo):
    spec = Spec(grid=3, piece_px=24, tab_ratio=0.3)
    photo = make_photo(80, 80)
    plain, hinted = (TASK.make(spec.model_copy(update={"hints": hints}), photo, 5) for hints in ("none", "color"))
    asked = hinted.puzzle.target["asked"]
    assert hinted.puzzle.target == plain.puzzle.target | {"asked": asked}
    assert groups_in(hinted.puzzle) == asked["alike"]
    assert np.array_equal(plain.images[0], hinted.images[0])
    assert plain.puzzle.messages != hinted.puzzle.messages
    assert len(groups_in(hinted.puzzle)) <= 3


def test_a_photo_of_one_colour_is_one_group():
    spec = Spec(grid=2, piece_px=24, tab_ratio=0.3, hints="color", wording="brief")
    photo = ImagePhoto(Image.new("RGB", board(spec)[:2], (9, 90, 200)))
    puzzle = TASK.pose(spec, photo, 0)
    assert "lie near each other: 0, 1, 2, 3." in puzzle.messages[-1]["content"][-1]["text"]
