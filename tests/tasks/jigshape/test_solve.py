from importlib.resources import files

import numpy as np
import pytest
from PIL import Image

from tasks.jigshape import TASK, solve
from tasks.jigshape.geometry import geometry
from tasks.jigshape.sheet import cut_photo, draw_sheet, piece_mask
from tasks.jigshape.signatures import count_solutions
from tasks.jigshape.solve import assembly_cost, certificate, solve_pieces
from tasks.jigshape.spec import Spec
from tasks.photo import ImagePhoto


def bundled(name):
    """A photo that scikit-image bundles."""
    with Image.open(str(files("skimage") / "data" / name)) as image:
        return ImagePhoto(image.convert("RGB"))


def one_color(*rgb):
    return ImagePhoto(Image.new("RGB", (64, 64), rgb))


def cut(photo, grid, seed=0, **fields):
    """(spec, target, pixels that the pieces are cut from)."""
    spec = Spec(**{"grid": grid, "piece_px": 32, "tab_ratio": 0.3} | fields)
    return spec, TASK.pose(spec, photo, seed).target, cut_photo(spec, photo)


def puzzle(photo, grid, seed=0, **fields):
    """(spec, target, sheet)."""
    spec, target, pixels = cut(photo, grid, seed, **fields)
    return spec, target, draw_sheet(spec, target, pixels)


@pytest.mark.parametrize("shape", [True, False])
@pytest.mark.parametrize("grid", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("name", ["chelsea.png", "coffee.png", "astronaut.png"])
def test_photos_with_texture_are_solved_from_the_sheet(name, grid, shape):
    spec, target, sheet = puzzle(bundled(name), grid, seed=grid, shape=shape)
    assert solve_pieces(spec, sheet).cells == target["cells"]


@pytest.mark.parametrize("fields", [{"ground": (255, 255, 255)}, {"layout": "aligned"}, {"brightness": 0.5}])
def test_how_the_sheet_is_laid_out_does_not_matter(fields):
    spec, target, sheet = puzzle(bundled("coffee.png"), 4, **fields)
    assert solve_pieces(spec, sheet).cells == target["cells"]


def test_other_ids_give_the_same_picture():
    spec, target, _ = puzzle(bundled("astronaut.png"), 6)
    order = np.random.default_rng(3).permutation(36)
    other = {**target, **{name: [target[name][i] for i in order] for name in ("cells", "signatures")}}
    pixels = cut_photo(spec, bundled("astronaut.png"))
    cells, other_cells = (solve_pieces(spec, draw_sheet(spec, each, pixels)).cells for each in (target, other))
    assert other_cells == [cells[i] for i in order]


def test_equal_sheets_and_seeds_give_equal_solutions():
    spec, _, sheet = puzzle(one_color(90, 120, 60), 5)
    assert solve_pieces(spec, sheet, seed=4) == solve_pieces(spec, sheet, seed=4)


def test_signatures_that_are_given_are_used_instead_of_read():
    spec, target, sheet = puzzle(bundled("coffee.png"), 4)
    true = np.array(target["signatures"], np.int8)
    assert solve_pieces(spec, sheet, true) == solve_pieces(spec, sheet)
    assert solve_pieces(spec, sheet, np.roll(true, 1, axis=0)).cells != target["cells"]


@pytest.mark.parametrize("shape", [True, False])
def test_a_solution_costs_what_its_answer_costs(shape):
    spec, target, sheet = puzzle(bundled("chelsea.png"), 4, shape=shape)
    solution = solve_pieces(spec, sheet)
    assert assembly_cost(spec, sheet, solution.cells) == pytest.approx(solution.cost)
    assert assembly_cost(spec, sheet, target["cells"][::-1]) > solution.cost


@pytest.mark.parametrize("seed", range(4))
def test_a_puzzle_of_texture_is_certified_and_told_whether_edges_decide_it(seed):
    spec, target, pixels = cut(bundled("coffee.png"), 4, seed)
    found = certificate(spec, target, pixels)
    assert (found.solved, found.wrong, found.cause, found.content) == (True, (), None, None)
    assert found.geometrically_unique == (count_solutions(np.array(target["signatures"]), 4, limit=10) == 1)


def test_edges_decide_nothing_without_shape():
    spec, target, pixels = cut(bundled("coffee.png"), 3, shape=False)
    assert certificate(spec, target, pixels).geometrically_unique is False


def test_two_pieces_that_are_equal_pixel_for_pixel_are_ambiguous():
    spec, target, pixels = cut(bundled("gravel.png"), 6)
    signatures, shape, pixels = target["signatures"], geometry(spec), pixels.copy()
    inside = [i for i in range(36) if 0 not in signatures[i]]
    one, other = next((i, j) for j in inside for i in inside if i < j and signatures[i] == signatures[j])
    (y, x), (to_y, to_x) = (np.array(target["cells"][i]) * shape.piece - shape.reach for i in (one, other))
    mask = piece_mask(spec, tuple(signatures[one]))
    copied = pixels[y : y + shape.canvas, x : x + shape.canvas][mask]
    pixels[to_y : to_y + shape.canvas, to_x : to_x + shape.canvas][mask] = copied
    found = certificate(spec, target, pixels)
    assert not found.solved
    assert {one, other} <= set(found.wrong)
    assert found.cause == "ambiguous"
    assert found.content == "other"


@pytest.mark.parametrize(("rgb", "content"), [((0, 0, 0), "clipped"), ((90, 120, 60), "flat")])
@pytest.mark.parametrize("shape", [True, False])
def test_a_photo_of_one_color_is_ambiguous(rgb, content, shape):
    spec, target, pixels = cut(one_color(*rgb), 5, shape=shape)
    found = certificate(spec, target, pixels)
    assert found.cause == "ambiguous"
    assert found.content == content


def test_a_worse_answer_than_the_truth_is_a_failure_of_the_search(monkeypatch):
    spec, target, pixels = cut(bundled("coffee.png"), 4)
    monkeypatch.setattr(solve, "assemble_board", lambda judge, seed: np.arange(16).reshape(4, 4))
    found = certificate(spec, target, pixels)
    assert (found.cause, found.content) == ("search", None)


def test_edges_that_the_ground_swallows_still_give_an_answer():
    spec, target, sheet = puzzle(one_color(255, 255, 255), 4, ground=(255, 255, 255))
    cells = solve_pieces(spec, sheet).cells
    assert sorted(cells) == sorted(target["cells"])


def test_a_fully_certified_puzzle_is_one_that_the_joint_solver_solves(monkeypatch):
    photo = bundled("coffee.png")
    spec = Spec(grid=4, piece_px=32, tab_ratio=0.3, certify="full")
    target = TASK.pose(spec, photo, 5).target
    assert (target["certified"], target["draws"]) == (True, 1)
    own = TASK.pose(spec.model_copy(update={"certify": "count"}), photo, 5).target
    assert target["signatures"] == own["signatures"]
    monkeypatch.setattr(solve, "assemble_board", lambda judge, seed: np.arange(16).reshape(4, 4))
    failed = TASK.pose(spec, photo, 5).target
    assert (failed["certified"], failed["draws"]) == (False, 8)
    assert failed["signatures"] == own["signatures"]


def blobs(grid, piece_px):
    """Grey all over but for a small square of a colour of its own in the middle of each cell: no rim tells anything."""
    pixels = np.full((grid * piece_px, grid * piece_px, 3), 128, np.uint8)
    rng = np.random.default_rng(0)
    for row in range(grid):
        for column in range(grid):
            y, x = row * piece_px + piece_px // 2 - 3, column * piece_px + piece_px // 2 - 3
            pixels[y : y + 6, x : x + 6] = rng.integers(0, 256, 3)
    return ImagePhoto(Image.fromarray(pixels))


def test_an_answer_that_is_right_by_luck_certifies_nothing():
    lucky = 0
    for seed in range(30):
        spec, target, pixels = cut(blobs(4, 32), 4, seed)
        found = certificate(spec, target, pixels)
        if found.solved:
            assert found.geometrically_unique
        elif solve_pieces(spec, draw_sheet(spec, target, pixels)).cells == target["cells"]:
            lucky += 1
            assert found.cause == "ambiguous"
    assert lucky
    for seed in range(24):
        spec, target, pixels = cut(blobs(2, 32), 2, seed, shape=False)
        assert not certificate(spec, target, pixels).solved


def test_twins_make_a_puzzle_ambiguous_even_where_the_search_failed(monkeypatch):
    spec, target, pixels = cut(one_color(0, 0, 0), 5)
    monkeypatch.setattr(solve, "assemble_board", lambda judge, seed: np.arange(25).reshape(5, 5))
    found = certificate(spec, target, pixels)
    assert found.twins
    assert (found.cause, found.content) == ("ambiguous", "clipped")
