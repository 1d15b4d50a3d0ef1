import numpy as np
import pytest
from PIL import Image

from tasks.jigshape import TASK
from tasks.jigshape.geometry import board
from tasks.jigshape.sheet import cut_photo, draw_piece
from tasks.jigshape.spec import Spec
from tasks.jigshape.twins import twins
from tasks.photo import ImagePhoto

SMALL = {"piece_px": 20, "tab_ratio": 0.3, "gap_px": 4, "band_px": 7}


def photo_with_plain_rows(make_photo, spec, rows):
    """A photo that needs no resizing, its lowest `rows` rows of pieces in one colour."""
    width, height, *_ = board(spec)
    pixels = np.asarray(make_photo(width, height).image).copy()
    pixels[height - rows * height // spec.grid :] = (10, 20, 30)
    return ImagePhoto(Image.fromarray(pixels))


def by_comparing_all(spec, target, pixels):
    pairs = zip(target["cells"], target["signatures"], strict=True)
    drawn = [draw_piece(spec, signature, pixels, cell).tobytes() for cell, signature in pairs]
    groups = {picture: [i for i, other in enumerate(drawn) if other == picture] for picture in drawn}
    return sorted(ids for ids in groups.values() if len(ids) > 1)


@pytest.mark.parametrize("shape", [True, False])
@pytest.mark.parametrize("rows", [0, 2, 4, 8])
def test_twins_are_the_pieces_that_are_equal_in_every_pixel(make_photo, rows, shape):
    spec = Spec(grid=8, shape=shape, **SMALL)
    photo = photo_with_plain_rows(make_photo, spec, rows)
    for seed in range(5):
        target = TASK.pose(spec, photo, seed).target
        pixels = cut_photo(spec, photo)
        found = twins(spec, target, pixels)
        assert found == by_comparing_all(spec, target, pixels)
        if rows == 0:
            assert not found
        if rows >= 4 or (rows == 2 and not shape):  # more plain interior pieces than there are signatures
            assert found
        assert TASK.make(spec, photo, seed).ambiguous == bool(found)


def test_one_pixel_makes_the_difference(make_photo):
    spec = Spec(grid=3, shape=False, **SMALL)
    pixels = np.zeros((60, 60, 3), np.uint8)
    pixels[:20, :20] = np.asarray(make_photo(20, 20).image)
    target = TASK.pose(spec, make_photo(60, 60), 0).target
    assert len(twins(spec, target, pixels)) == 1
    assert len(twins(spec, target, pixels)[0]) == 8
    pixels[47, 31, 2] = 1
    odd = target["cells"].index([2, 1])
    assert [odd not in group and len(group) == 7 for group in twins(spec, target, pixels)] == [True]


def test_puzzles_with_twins_are_drawn_anew_until_none_is_left(make_photo):
    spec = Spec(grid=4, **SMALL)
    photo = photo_with_plain_rows(make_photo, spec, 2)
    redrawn = spec.model_copy(update={"certify": "redraw"})
    draws = []
    for seed in range(40):
        plain, target = TASK.pose(spec, photo, seed).target, TASK.pose(redrawn, photo, seed).target
        assert target["cells"] == plain["cells"]
        assert target["certified"]
        assert not TASK.render(TASK.pose(redrawn, photo, seed), photo).ambiguous
        assert (target["draws"] == 1) == (target["signatures"] == plain["signatures"])
        assert (target["draws"] == 1) == (not TASK.make(spec, photo, seed).ambiguous)
        draws.append(target["draws"])
    assert max(draws) > 1


@pytest.mark.parametrize("shape", [True, False])
def test_a_photo_that_leaves_no_puzzle_is_said_to_be_uncertified(make_photo, shape):
    spec = Spec(grid=8, shape=shape, certify="redraw", **SMALL)
    photo = photo_with_plain_rows(make_photo, spec, 8)
    puzzle = TASK.pose(spec, photo, 0)
    assert puzzle.target["certified"] is False
    assert TASK.render(puzzle, photo).ambiguous
    own = TASK.pose(spec.model_copy(update={"certify": "count"}), photo, 0).target
    assert puzzle.target["signatures"] == own["signatures"]


def test_a_twin_whose_cell_is_given_leaves_no_doubt(make_photo):
    spec = Spec(grid=4, clues=10, **SMALL)
    photo = photo_with_plain_rows(make_photo, spec, 2)
    seen = set()
    for seed in range(40):
        example = TASK.make(spec, photo, seed)
        target = example.puzzle.target
        plain = {name: value for name, value in target.items() if name != "clues"}
        groups = by_comparing_all(spec, plain, cut_photo(spec, photo))
        still_open = [sum(index not in target["clues"] for index in group) for group in groups]
        assert example.ambiguous == any(count > 1 for count in still_open)
        seen.add((bool(groups), example.ambiguous))
    assert seen >= {(True, False), (False, False)}


@pytest.mark.parametrize(
    "fields", [{"mirrored": True}, {"greyscale": True}, {"brightness": 1.6}, {"noise": 9.0}], ids=str
)
def test_a_perturbed_puzzle_keeps_the_edges_of_its_pair(make_photo, fields):
    spec = Spec(grid=4, certify="redraw", **SMALL)
    pixels = np.asarray(photo_with_plain_rows(make_photo, spec, 2).image).copy()
    half = len(pixels) // 2
    pixels[:half] = 170 + pixels[:half] // 64  # nearly plain, and plain once it is clipped
    photo = ImagePhoto(Image.fromarray(pixels))
    own = [TASK.pose(spec, photo, seed).target for seed in range(40)]
    others = [TASK.pose(spec.model_copy(update=fields), photo, seed).target for seed in range(40)]
    assert [target["signatures"] for target in own] == [target["signatures"] for target in others]
    assert max(target["draws"] for target in own) > 1
    assert all(target["certified"] for target in own)
    for seed, target in enumerate(others):
        puzzle = TASK.pose(spec.model_copy(update=fields), photo, seed)
        assert target["certified"] == (not TASK.render(puzzle, photo).ambiguous)
