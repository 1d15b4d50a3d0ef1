"""Pictures of displacements and of edges."""

import numpy as np
import pytest

from eval_hooks.heat_map import displacement_map, fits_map


def colors(image):
    """Number of pixels by colour."""
    return {color: n for n, color in image.getcolors(image.width * image.height)}


def board(image, side):
    """Colour near a corner of each cell of the board, where no number and no frame is."""
    cell = min(100, 672 // side)
    pixels = np.asarray(image)
    corners = range(5, side * cell, cell)
    return [[tuple(map(int, pixels[76 + y, 72 + x])) for x in corners] for y in corners]


def test_right_pieces_do_not_drown_the_others_and_white_is_never():
    counts = [[0, 0, 0], [1, 10**6, 4], [0, 0, 2]]
    cells = board(displacement_map(counts, "t"), 3)
    never = [[color == (255, 255, 255) for color in row] for row in cells]
    assert never == [[True, True, True], [False, True, False], [True, True, False]]
    rare, some, often = (sum(color) for color in (cells[1][0], cells[2][2], cells[1][2]))
    assert rare > some > often  # darker


def test_mirrored_counts_are_a_mirrored_map():
    counts = np.zeros((5, 5), int)
    counts[2, 2], counts[0, 3], counts[4, 2] = 5, 2, 1
    cells = board(displacement_map(counts.tolist(), "t"), 5)
    mirrored = board(displacement_map(counts.T.tolist(), "t"), 5)
    assert mirrored == [list(row) for row in zip(*cells, strict=True)]


@pytest.mark.parametrize("grid", [2, 4, 8, 16, 32])
def test_maps_of_every_grid_can_be_drawn(grid):
    side = 2 * grid - 1
    only_right = np.zeros((side, side), int)
    only_right[grid - 1, grid - 1] = 1
    for counts in (only_right, np.arange(side * side).reshape(side, side)):
        assert min(displacement_map(counts.tolist(), "title").size) > 300
    shares = np.linspace(0, 1, grid * (grid - 1))
    image = fits_map(shares.reshape(grid, grid - 1).tolist(), shares.reshape(grid - 1, grid).tolist(), "title")
    assert min(image.size) > 300


def test_an_edge_that_never_fits_is_told_from_one_that_always_does():
    never, always = fits_map([[0.0], [0.0]], [[0.0, 0.0]], "t"), fits_map([[1.0], [1.0]], [[1.0, 1.0]], "t")
    light, dark = (237, 248, 177), (8, 29, 88)
    assert colors(never)[light] > 10 * colors(always).get(light, 0)
    assert colors(always)[dark] > 10 * colors(never).get(dark, 0)


def test_a_long_title_widens_the_page():
    counts = [[0, 0, 0], [0, 1, 0], [0, 0, 0]]
    assert displacement_map(counts, "w" * 200).width > 2 * displacement_map(counts, "w").width
