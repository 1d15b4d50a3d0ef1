import numpy as np
import pytest
from PIL import Image

from tasks.jigshape import TASK
from tasks.jigshape.digits import choose_face, draw_number
from tasks.jigshape.geometry import geometry
from tasks.jigshape.sheet import draw_sheet, piece_mask
from tasks.jigshape.spec import Spec

TINY = {"grid": 2, "gap_px": 0, "band_px": 0, "label": "none", "layout": "aligned", "piece_px": 22, "tab_ratio": 0.34}


@pytest.mark.parametrize("gap", [0, 1, 2])
@pytest.mark.parametrize("band", [0, 1, 2])
def test_a_tiny_aligned_sheet_has_one_token_per_piece(gap, band):
    sheet = geometry(Spec(**TINY | {"gap_px": gap, "band_px": band}))
    assert (sheet.width, sheet.height) == (64, 64)


def test_a_tiny_aligned_sheet_has_room_for_small_labels():
    sheet = geometry(Spec(**TINY | {"piece_px": 19, "tab_ratio": 0.31, "band_px": 7, "label": "band"}))
    assert (sheet.width, sheet.height) == (64, 64)
    assert draw_number(0, sheet.face).shape[0] == 5


@pytest.mark.parametrize("grid", range(2, 33))
def test_labels_are_fourteen_pixels_high_by_default(grid):
    assert draw_number(grid**2 - 1, geometry(Spec(grid=grid)).face).shape[0] == 14


@pytest.mark.parametrize("height", [5, 9])
def test_no_two_digits_look_alike(height):
    face = choose_face(40, height, 1)
    assert len({draw_number(digit, face).tobytes() for digit in range(10)}) == 10


@pytest.mark.parametrize("piece", [20, 21, 144, 145])
def test_a_tab_is_a_half_disc_of_the_stated_radius_in_the_middle_of_its_edge(piece):
    spec = Spec(grid=2, piece_px=piece, tab_ratio=0.5)
    sheet = geometry(spec)
    tab = piece_mask(spec, (0, 1, 0, 0)) & ~piece_mask(spec, (0, 0, 0, 0))
    assert np.array_equal(tab, tab[::-1])
    y, x = np.nonzero(tab)
    distance = np.hypot(y + 0.5 - sheet.canvas / 2, x + 0.5 - sheet.reach - piece)
    assert distance.max() <= sheet.radius
    assert abs(tab.sum() - np.pi * sheet.radius**2 / 2) < 2 * sheet.radius
    blank = piece_mask(spec, (0, 0, 0, 0)) & ~piece_mask(spec, (0, 0, 0, -1))
    assert np.array_equal(tab[:, sheet.reach + piece :], blank[:, sheet.reach : 2 * sheet.reach])


def test_the_largest_centred_square_of_a_photo_is_cut():
    spec = Spec(grid=3, piece_px=20, tab_ratio=0.3)
    photo = np.random.default_rng(0).integers(0, 256, (60, 60, 3), dtype=np.uint8)
    square = TASK.make(spec, Image.fromarray(photo), 7)
    for shape, inner in (((60, 200), np.s_[:, 70:130]), ((111, 60), np.s_[25:85])):
        pixels = np.zeros((*shape, 3), np.uint8)
        pixels[inner] = photo
        assert TASK.make(spec, Image.fromarray(pixels), 7).images[0].tobytes() == square.images[0].tobytes()


def test_drawing_leaves_the_photo_and_earlier_sheets_as_they_were(pose):
    spec = Spec(grid=3, piece_px=20, tab_ratio=0.4)
    pixels = np.random.default_rng(0).integers(0, 256, (60, 60, 3), dtype=np.uint8)
    pixels.flags.writeable = False
    first = draw_sheet(spec, pose(3, 0).target, pixels)
    kept = first.copy()
    draw_sheet(spec, pose(3, 1).target, pixels)
    assert np.array_equal(first, kept)
    assert np.array_equal(draw_sheet(spec, pose(3, 0).target, pixels), kept)
