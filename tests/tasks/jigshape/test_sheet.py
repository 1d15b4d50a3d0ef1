import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tasks.jigshape import TASK
from tasks.jigshape.geometry import geometry
from tasks.jigshape.sheet import cut_photo, draw_sheet, piece_mask, recompose
from tasks.jigshape.spec import Spec

SMALL = {"piece_px": 12, "tab_ratio": 0.3, "gap_px": 4, "band_px": 7}


def drawn(make_photo, spec, seed=0, size=None):
    """(puzzle, sheet pixels, board pixels) of a photo that needs no resizing unless a size is given."""
    photo = make_photo(*(size or TASK.board(spec)[:2]))
    example = TASK.make(spec, photo, seed)
    return example.puzzle, example.images[0], cut_photo(spec, photo)


@pytest.mark.parametrize(("grid", "size"), [(4, (724, 744)), (8, (1532, 1552)), (12, (2416, 2436)), (16, (3292, 3312))])
def test_default_sheets_have_the_published_sizes(grid, size):
    for shape in (True, False):
        sheet = geometry(Spec(grid=grid, shape=shape))
        assert (sheet.width, sheet.height) == size


@pytest.mark.parametrize("shape", [True, False])
@pytest.mark.parametrize("piece_px", [12, 13])
@pytest.mark.parametrize("grid", range(2, 33))
def test_pieces_recompose_to_the_photo_byte_for_byte(make_photo, grid, piece_px, shape):
    spec = Spec(grid=grid, shape=shape, **SMALL | {"piece_px": piece_px})
    puzzle, sheet, pixels = drawn(make_photo, spec, grid)
    assert recompose(sheet, puzzle.target, spec).tobytes() == pixels.tobytes()


@pytest.mark.parametrize("size", [(701, 500), (500, 701), (613, 613)])
def test_default_pieces_recompose_byte_for_byte_after_resizing(make_photo, size):
    spec = Spec(grid=4, brightness=0.7)
    puzzle, sheet, pixels = drawn(make_photo, spec, size=size)
    assert recompose(sheet, puzzle.target, spec).tobytes() == pixels.tobytes()
    assert pixels.max() <= round(255 * 0.7)


specs = st.fixed_dictionaries(
    {
        "grid": st.integers(2, 6),
        "shape": st.booleans(),
        "piece_px": st.integers(11, 40),
        "tab_ratio": st.floats(0.2, 0.6),
        "gap_px": st.integers(0, 9),
        "band_px": st.integers(5, 24),
        "layout": st.sampled_from(["published", "aligned"]),
        "token_px": st.integers(1, 40),
    }
).map(lambda fields: Spec(**fields))


@settings(max_examples=150, deadline=None)
@given(spec=specs, seed=st.integers(0, 2**63 - 1))
def test_any_geometry_recomposes_and_shows_every_label_clear_of_the_pieces(make_photo, spec, seed):
    photo = make_photo(*TASK.board(spec)[:2])
    puzzle = TASK.pose(spec, photo, seed)
    pixels = np.full((*TASK.board(spec)[1::-1], 3), 128, np.uint8)
    pixels[::3, ::2] = 90
    sheet = draw_sheet(spec, puzzle.target, pixels)
    assert recompose(sheet, puzzle.target, spec).tobytes() == pixels.tobytes()
    shape = geometry(spec)
    assert sheet.shape == (shape.height, shape.width, 3)
    ink = (sheet == spec.label_color).all(axis=-1)
    labels = set()
    num_label_pixels = 0
    for index in range(spec.grid**2):
        y, x = shape.body(index, spec.grid)
        top, left = y - shape.reach, x - shape.reach
        assert left >= 0
        assert left + shape.canvas <= shape.width
        assert top - spec.band_px >= 0
        assert top + shape.canvas <= shape.height
        assert not ink[top : top + shape.canvas, left : left + shape.canvas].any()
        column = index % spec.grid
        slot = ink[top - spec.band_px : top, column * shape.column_pitch : (column + 1) * shape.column_pitch]
        rows, columns = np.nonzero(slot)
        assert rows.size
        labels.add(slot[:, columns.min() : columns.max() + 1].tobytes())
        num_label_pixels += rows.size
    assert len(labels) == spec.grid**2
    assert num_label_pixels == ink.sum()
    # Tabs take what blanks give, so the pieces keep the photo's area whatever their shape.
    ground = (sheet == spec.ground).all(axis=-1).sum()
    assert ground + num_label_pixels + TASK.board(spec).width ** 2 == ink.size


@settings(max_examples=100, deadline=None)
@given(spec=specs, seed=st.integers(0, 2**32))
def test_the_pieces_of_a_puzzle_tile_the_board(pose, spec, seed):
    target = TASK.pose(spec, _AnyPhoto(), seed).target
    shape = geometry(spec)
    side = spec.grid * shape.piece + 2 * shape.reach
    times = np.zeros((side, side), int)
    for (row, column), signature in zip(target["cells"], target["signatures"], strict=True):
        y, x = row * shape.piece, column * shape.piece
        times[y : y + shape.canvas, x : x + shape.canvas] += piece_mask(spec, tuple(signature))
    inside = slice(shape.reach, shape.reach + spec.grid * shape.piece)
    assert (times[inside, inside] == 1).all()
    assert times.sum() == (spec.grid * shape.piece) ** 2


class _AnyPhoto:
    id, size = "any", (8, 8)


@settings(max_examples=200, deadline=None)
@given(
    grid=st.integers(2, 32), token_px=st.integers(1, 64), piece_px=st.integers(15, 80), band_px=st.integers(5, 30),
    gap_px=st.integers(0, 30),
)  # fmt: skip
def test_in_the_aligned_layout_no_token_sees_two_pieces(grid, token_px, piece_px, band_px, gap_px):
    spec = Spec(
        grid=grid, layout="aligned", token_px=token_px, piece_px=piece_px, band_px=band_px, gap_px=gap_px, tab_ratio=0.3
    )
    shape = geometry(spec)
    for length in (shape.width, shape.height, shape.column_pitch, shape.row_pitch):
        assert length % token_px == 0
    for index in {0, 1, grid - 1, grid, grid**2 - 1}:
        row, column = divmod(index, grid)
        y, x = shape.body(index, grid)
        assert row * shape.row_pitch + band_px <= y - shape.reach
        assert y - shape.reach + shape.canvas <= (row + 1) * shape.row_pitch
        assert column * shape.column_pitch <= x - shape.reach
        assert x - shape.reach + shape.canvas <= (column + 1) * shape.column_pitch


def test_a_label_as_wide_as_its_column_stays_in_it(make_photo):
    spec = Spec(grid=2, piece_px=4, tab_ratio=0.5, gap_px=5, band_px=23, layout="aligned", token_px=5)
    puzzle, sheet, pixels = drawn(make_photo, spec)
    assert recompose(sheet, puzzle.target, spec).tobytes() == pixels.tobytes()
    ink = (sheet == spec.label_color).all(axis=-1)
    assert ink[1:22, :15].any(axis=0)[[0, 14]].all()


def test_without_labels_nothing_but_pieces_lies_on_the_ground(make_photo):
    spec = Spec(grid=3, label="none", **SMALL)
    _, sheet, pixels = drawn(make_photo, spec)
    assert (sheet != spec.ground).any(axis=-1).sum() == (pixels != spec.ground).any(axis=-1).sum()


def test_the_no_shape_twin_shows_the_same_pieces_in_the_same_places(make_photo):
    spec = Spec(grid=4, **SMALL)
    twin = spec.model_copy(update={"shape": False})
    (puzzle, sheet, _), (plain, straight, _) = drawn(make_photo, spec, 7), drawn(make_photo, twin, 7)
    assert puzzle.target["cells"] == plain.target["cells"]
    assert puzzle.image_sizes == plain.image_sizes
    shape = geometry(spec)
    for index in range(16):
        y, x = shape.body(index, 4)
        centre = np.s_[y + 4 : y + 8, x + 4 : x + 8]
        assert (sheet[centre] == straight[centre]).all()


def test_signatures_fit_and_only_the_outer_border_is_flat(pose):
    for seed in range(50):
        target = pose(5, seed).target
        at = {tuple(cell): sides for cell, sides in zip(target["cells"], target["signatures"], strict=True)}
        for (row, column), (top, right, bottom, left) in at.items():
            assert [top == 0, right == 0, bottom == 0, left == 0] == [row == 0, column == 4, row == 4, column == 0]
            assert right == 0 or right == -at[row, column + 1][3]
            assert bottom == 0 or bottom == -at[row + 1, column][0]


def test_edges_are_fair_coins(pose):
    tabs = [side for seed in range(400) for sides in pose(4, seed).target["signatures"] for side in sides[1:3] if side]
    assert abs(np.mean(tabs)) < 4 / len(tabs) ** 0.5


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"grid": 1}, "greater than or equal to 2"),
        ({"grid": 33}, "less than or equal to 32"),
        ({"grid": 4, "tab_ratio": 0.61}, "less than or equal to 0.6"),
        ({"grid": 4, "piece_px": 8}, "tab radius of 0.6 px"),
        ({"grid": 4, "band_px": 4}, "at least 5 px, at least 7 px wide"),
        ({"grid": 4, "band_px": 0}, "set label: none"),
        ({"grid": 12, "piece_px": 6, "tab_ratio": 0.5, "gap_px": 0}, "at least 11 px wide"),
        ({"grid": 4, "label_color": (255, 0, 255)}, "two colours"),
        ({"grid": 4, "ground": (0, 0, 256)}, "less than or equal to 255"),
        ({"grid": 4, "rotated": True}, "Extra inputs"),
        ({"grid": 32, "piece_px": 512}, r"sheet of .* pixels; lower grid"),
        ({"grid": 32, "sheet_scale": 2.1}, r"shown at .* lower grid"),
    ],
)
def test_specs_that_cannot_be_drawn_are_refused_at_once(fields, words):
    with pytest.raises(ValidationError, match=words):
        Spec(**fields)


def test_a_band_that_is_not_used_may_be_missing():
    assert geometry(Spec(grid=4, band_px=0, label="none")).height == 4 * 166 + 0


def test_posing_and_rendering_need_a_photo(pose):
    with pytest.raises(ValueError, match="is posed with"):
        TASK.pose(Spec(grid=2), None, 0)
    with pytest.raises(ValueError, match="is posed with"):
        TASK.render(pose(2), None)
    with pytest.raises(ValueError, match="is posed with"):
        TASK.picture(pose(2), [[0, 0]] * 4, None)


GOLDEN = {
    "four": (Spec(grid=4), None),
    "four small, odd": (Spec(grid=4, **SMALL | {"piece_px": 13}), None),
    "five without shape": (Spec(grid=5, shape=False, **SMALL), None),
    "three aligned and dim": (
        Spec(grid=3, layout="aligned", piece_px=21, tab_ratio=0.34, gap_px=0, band_px=7, brightness=0.4), None
    ),
    "two, resized": (Spec(grid=2, piece_px=40, tab_ratio=0.25, label="none", ground=(255, 255, 255)), (230, 171)),
}  # fmt: skip
HASHES = {
    "four": "da9eb296fb4766f3",
    "four small, odd": "f097112bb8205e14",
    "five without shape": "d231e569ba660057",
    "three aligned and dim": "eb42005aa48ac870",
    "two, resized": "fcbe4b070f51a5cd",
}


@pytest.mark.parametrize("name", GOLDEN)
def test_sheets_are_the_same_bytes_as_ever(make_photo, name):
    spec, size = GOLDEN[name]
    _, sheet, _ = drawn(make_photo, spec, 2026, size)
    assert hashlib.blake2b(sheet.tobytes(), digest_size=8).hexdigest() == HASHES[name]
