import hashlib

import numpy as np
import pytest
from PIL import Image

from tasks.jigshape import TASK
from tasks.jigshape.geometry import board, geometry, image_sizes
from tasks.jigshape.sheet import cut_photo, draw_sheet, label_ink, piece_mask
from tasks.jigshape.spec import Spec

SMALL = {"piece_px": 12, "tab_ratio": 0.3, "gap_px": 4, "band_px": 7}


def plain_sheet(spec, target, pixels):
    """The sheet piece by piece and pixel by pixel: the rule of the geometry and nothing else."""
    shape = geometry(spec)
    sheet = np.zeros((shape.height, shape.width, 3), np.uint8)
    sheet[:] = spec.ground
    for index, (cell, signature) in enumerate(zip(target["cells"], target["signatures"], strict=True)):
        mask = piece_mask(spec, tuple(signature))
        y, x = (start - shape.reach for start in shape.body(index, spec.grid))
        from_y, from_x = (place * shape.piece - shape.reach for place in cell)
        for i, j in np.argwhere(mask):
            sheet[y + i, x + j] = pixels[from_y + i, from_x + j]
    return sheet


@pytest.mark.parametrize("layout", ["published", "aligned"])
@pytest.mark.parametrize("shape", [True, False])
@pytest.mark.parametrize(("grid", "piece_px"), [(2, 13), (3, 12), (5, 17), (8, 12)])
def test_sheets_are_what_the_plain_way_draws(make_photo, grid, piece_px, shape, layout):
    spec = Spec(grid=grid, shape=shape, layout=layout, label="none", **SMALL | {"piece_px": piece_px})
    photo = make_photo(*board(spec)[:2])
    target = TASK.pose(spec, photo, grid).target
    pixels = cut_photo(spec, photo)
    assert np.array_equal(draw_sheet(spec, target, pixels), plain_sheet(spec, target, pixels))


@pytest.mark.parametrize("layout", ["published", "aligned"])
@pytest.mark.parametrize("label", ["band", "none"])
def test_single_pieces_are_the_pieces_of_the_sheet(make_photo, layout, label):
    spec = Spec(grid=3, layout=layout, label=label, token_px=16, **SMALL)
    photo = make_photo(90, 70)
    sheet = TASK.make(spec, photo, 5).images[0]
    example = TASK.make(spec.model_copy(update={"input": "pieces"}), photo, 5)
    shape = geometry(spec)
    assert len(example.images) == 9
    assert len({image.tobytes() for image in example.images}) == 9
    for index, image in enumerate(example.images):
        y, x = shape.body(index, 3)
        row, column = divmod(index, 3)
        top, left = row * shape.row_pitch, column * shape.column_pitch
        height, width, _ = image.shape
        assert np.array_equal(image, sheet[top : top + height, left : left + width])
        assert top + height >= y + shape.piece + shape.reach
        assert left + width >= x + shape.piece + shape.reach
        if layout == "aligned":
            assert height % 16 == width % 16 == 0


def test_each_single_piece_follows_its_id_in_the_prompt(make_photo):
    puzzle = TASK.pose(Spec(grid=2, input="pieces"), make_photo(8, 8), 0)
    parts = puzzle.messages[-1]["content"]
    assert [part.get("text") for part in parts[:8]] == ["0:", None, "1:", None, "2:", None, "3:", None]
    assert "an image for each" in parts[8]["text"]
    assert "sheet" not in str(puzzle.messages)


@pytest.mark.parametrize("input_", ["sheet", "pieces"])
@pytest.mark.parametrize("scale", [0.5, 1.7])
def test_a_scaled_sheet_is_the_sheet_resized(make_photo, input_, scale):
    spec = Spec(grid=2, **SMALL, input=input_)
    photo = make_photo(60, 60)
    scaled = spec.model_copy(update={"sheet_scale": scale})
    for plain, image in zip(TASK.make(spec, photo, 1).images, TASK.make(scaled, photo, 1).images, strict=True):
        size = tuple(round(side * scale) for side in plain.shape[1::-1])
        assert np.array_equal(image, np.asarray(Image.fromarray(plain).resize(size, Image.Resampling.LANCZOS)))
    assert image_sizes(scaled) == TASK.pose(scaled, photo, 1).image_sizes


def test_photo_perturbations_are_made_before_the_photo_is_cut(make_photo):
    photo = make_photo(48, 48)
    plain = cut_photo(Spec(grid=2, **SMALL), photo)
    assert np.array_equal(cut_photo(Spec(grid=2, mirrored=True, **SMALL), photo), plain[:, ::-1])
    grey = cut_photo(Spec(grid=2, greyscale=True, **SMALL), photo)
    assert (grey == grey[..., :1]).all()
    luma = plain @ np.array([0.299, 0.587, 0.114])
    assert np.abs(grey[..., 0] - luma).max() <= 1
    bright = cut_photo(Spec(grid=2, brightness=2, **SMALL), photo)
    assert np.array_equal(bright, np.minimum(2 * plain.astype(int), 255))


def test_a_mirrored_photo_keeps_the_answer_and_the_cuts(make_photo):
    photo = make_photo(48, 48)
    one, two = (TASK.pose(Spec(grid=3, mirrored=mirrored, **SMALL), photo, 4) for mirrored in (False, True))
    assert one.target == two.target
    assert one.key != two.key


def test_noise_has_the_stated_spread_and_differs_between_puzzles(make_photo):
    spec = Spec(grid=4, brightness=0.3, ground=(90, 90, 90), label_color=(120, 120, 120))
    photo = make_photo(200, 200)
    noisy = spec.model_copy(update={"noise": 8.0})
    shifts = [
        TASK.make(noisy, photo, seed).images[0].astype(int) - TASK.make(spec, photo, seed).images[0] for seed in (0, 1)
    ]
    unclipped = TASK.make(spec, photo, 0).images[0] > 40
    assert shifts[0][unclipped].std() == pytest.approx(8, rel=0.02)
    assert abs(shifts[0][unclipped].mean()) < 0.05
    assert abs(np.corrcoef(shifts[0].ravel(), shifts[1].ravel())[0, 1]) < 0.01


def test_bars_cross_the_sheet_but_leave_the_labels_readable(make_photo):
    spec = Spec(grid=4, bars=6, bar_px=11)
    photo = make_photo(200, 200)
    plain = TASK.make(spec.model_copy(update={"bars": 0}), photo, 2).images[0]
    barred = TASK.make(spec, photo, 2).images[0]
    ink = label_ink(spec)
    assert np.array_equal(barred[ink], plain[ink])
    changed = (barred != plain).any(axis=-1) | ink | (plain == 128).all(axis=-1)
    assert 11 <= changed.all(axis=1).sum() <= 33
    assert 11 <= changed.all(axis=0).sum() <= 33
    assert (barred[(barred != plain).any(axis=-1)] == 128).all()


def test_jpeg_changes_what_it_must_and_no_more(make_photo):
    spec = Spec(grid=2)
    photo = make_photo(48, 48)
    plain = TASK.make(spec, photo, 2).images[0].astype(int)
    errors = [
        np.abs(TASK.make(spec.model_copy(update={"jpeg_quality": quality}), photo, 2).images[0] - plain).mean()
        for quality in (95, 60, 10)
    ]
    assert 0 < errors[0] < errors[1] < errors[2]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"layout": "aligned", "sheet_scale": 0.5}, "published"),
        ({"bars": 1, "bar_px": 250, "piece_px": 20, "tab_ratio": 0.5}, "allowed: up to 80"),
        ({"noise": -1}, "greater than or equal to 0"),
        ({"jpeg_quality": 96}, "less than or equal to 95"),
        ({"brightness": 0}, "greater than 0"),
        ({"answer_format": "by_row"}, "cells_then_ids"),
    ],
)
def test_perturbations_that_cannot_be_are_refused(fields, words):
    with pytest.raises(ValueError, match=words):
        Spec(grid=2, **fields)


GOLDEN = {
    "single pieces, aligned": (
        Spec(grid=3, input="pieces", layout="aligned", token_px=16, **SMALL),
        "6615e0abc67237cd",
    ),
    "bars and noise": (Spec(grid=4, bars=3, bar_px=5, noise=20.0, **SMALL), "9f586a25bdbace87"),
    "grey, mirrored, bright": (
        Spec(grid=4, greyscale=True, mirrored=True, brightness=1.5, **SMALL),
        "88f95b2485c2ba1f",
    ),
    "published, twelve": (Spec(grid=12), "65435ac580d54067"),
    "published, sixteen": (Spec(grid=16), "c509bdfd2d7b1b71"),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_images_are_the_same_bytes_as_ever(make_photo, name):
    spec, expected = GOLDEN[name]
    images = TASK.make(spec, make_photo(*board(spec)[:2]), 2026).images
    digest = hashlib.blake2b(b"".join(image.tobytes() for image in images), digest_size=8)
    assert digest.hexdigest() == expected
