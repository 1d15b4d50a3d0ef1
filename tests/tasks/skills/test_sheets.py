"""Specs, prompts and pictures of the sub-skills."""

import numpy as np
import pytest
from PIL import Image

from tasks import TASKS, Invalid
from tasks.jigshape.geometry import geometry
from tasks.jigshape.spec import Spec as JigshapeSpec
from tasks.photo import ImagePhoto

NAMES = ("piece_edges", "piece_kind", "piece_cell", "pieces_fit", "piece_right")
GREEN, RED = (20, 150, 60), (230, 25, 40)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("answer_format", "by_cell"), ("wording", "brief"), ("input", "pieces"), ("clues", 2), ("clue_layout", "block"),
        ("repeat_clues", False), ("hints", "color"),
    ],
)  # fmt: skip
def test_fields_of_the_jigsaw_that_say_what_is_asked_are_refused(field, value):
    for name in NAMES:
        with pytest.raises(ValueError, match=rf"got puzzle\.{field} {value}; allowed: its default.* remove puzzle"):
            TASKS[name].Spec(puzzle={"grid": 3, field: value})


def test_fields_of_the_jigsaw_may_be_named_at_their_defaults():
    assert TASKS["piece_cell"].Spec(puzzle={"grid": 3, "clues": 0}) == TASKS["piece_cell"].Spec(puzzle={"grid": 3})


@pytest.mark.parametrize("name", ["piece_edges", "piece_kind"])
def test_questions_about_edges_need_edges(name):
    with pytest.raises(ValueError, match=r"got puzzle.shape false; allowed: true"):
        TASKS[name].Spec(puzzle={"grid": 3, "shape": False})


def test_kinds_need_a_grid_that_has_all():
    with pytest.raises(ValueError, match=r"got puzzle.grid 2; allowed: 3 or more"):
        TASKS["piece_kind"].Spec(puzzle={"grid": 2})


@pytest.mark.parametrize("name", NAMES)
def test_posing_and_rendering_need_a_photo(name, make_photo):
    task = TASKS[name]
    spec = task.Spec(puzzle={"grid": 3})
    with pytest.raises(ValueError, match="is posed with"):
        task.pose(spec, None, 0)
    with pytest.raises(ValueError, match="is posed with"):
        task.render(task.pose(spec, make_photo(8, 8), 0), None)


def prompt(name, photo, seed=0, wording="full", **fields):
    task = TASKS[name]
    puzzle = task.pose(task.Spec(puzzle={"grid": 3, **fields}, wording=wording), photo, seed)
    image, text = puzzle.messages[0]["content"]
    assert image == {"type": "image"}
    return text["text"], puzzle.target["asked"]


@pytest.mark.parametrize("wording", ["full", "brief"])
@pytest.mark.parametrize("name", NAMES)
def test_prompts_name_the_pieces_in_question_in_order(name, wording, make_photo):
    for seed in range(10):
        text, asked = prompt(name, make_photo(8, 8), seed, wording)
        places = [text.index(f"iece {piece}") for piece in asked["pieces"]]
        assert places == sorted(places)
        assert asked.get("relation", "") in text
        assert "{" not in text


def test_prompts_tell_how_ids_are_found_and_what_edges_mean(make_photo):
    photo = make_photo(8, 8)
    assert "id above it, from 0 to 8" in prompt("piece_cell", photo)[0]
    assert "row by row over the sheet" in prompt("piece_cell", photo, label="none")[0]
    assert "half-round bump" in prompt("piece_right", photo)[0]
    assert "plain rectangles" in prompt("piece_right", photo, shape=False)[0]
    assert "tab" not in prompt("piece_right", photo, shape=False)[0]


@pytest.mark.parametrize("name", NAMES)
def test_brief_prompts_are_one_short_line(name, make_photo):
    text, _ = prompt(name, make_photo(8, 8), wording="brief")
    assert "\n" not in text
    assert len(text) < 100


@pytest.mark.parametrize("sheet_scale", [1.0, 2.5])
@pytest.mark.parametrize("name", NAMES)
def test_pictures_frame_the_pieces_in_question_and_say_the_answer(name, sheet_scale, make_photo):
    task, photo = TASKS[name], make_photo(90, 70)
    spec = task.Spec(puzzle={"grid": 3, "piece_px": 40, "brightness": 0.5, "sheet_scale": sheet_scale})
    puzzle = task.pose(spec, photo, 1)
    wrong = next(
        a for seed in range(9) if (a := task.pose(spec, photo, seed).target["answer"]) != puzzle.target["answer"]
    )
    shown = [
        np.asarray(task.picture(puzzle, given, photo))
        for given in (puzzle.target["answer"], wrong, Invalid("truncated"))
    ]
    for picture, color in zip(shown, (GREEN, RED, RED), strict=True):
        sheet = geometry(spec.puzzle)
        scale = (picture.shape[0] - 32) / sheet.height
        for piece in range(9):
            y, x = (round(scale * (at - sheet.reach)) + 1 for at in sheet.body(piece, 3))
            framed = tuple(picture[32 + y, x]) == color
            assert framed == (piece in puzzle.target["asked"]["pieces"])
    titles = {picture[:32].tobytes() for picture in shown}
    assert len(titles) == 3


@pytest.mark.parametrize("grid", [2, 16])
def test_pictures_are_of_a_size_for_people(grid, make_photo):
    task, photo = TASKS["piece_cell"], make_photo(90, 70)
    puzzle = task.pose(task.Spec(puzzle={"grid": grid, "piece_px": 100 if grid == 16 else 24}), photo, 1)
    assert 384 < task.picture(puzzle, [0, 0], photo).height <= 800


@pytest.mark.parametrize("name", NAMES)
def test_a_question_is_in_doubt_where_its_pieces_or_its_answer_have_twins(name, make_photo):
    task = TASKS[name]
    shape = name in ("piece_edges", "piece_kind")
    spec = task.Spec(puzzle={"grid": 4, "piece_px": 20, "tab_ratio": 0.3, "shape": shape})
    width, height, *_ = task.board(spec)
    pixels = np.asarray(make_photo(width, height).image).copy()
    pixels[: height // 2] = (10, 20, 30)  # without shape the upper eight pieces are the same
    photo = ImagePhoto(Image.fromarray(pixels))
    seen = set()
    for seed in range(30):
        example = task.make(spec, photo, seed)
        target = example.puzzle.target
        concerned = [*target["asked"]["pieces"], *([target["answer"]] if isinstance(target["answer"], int) else [])]
        upper = any(target["jigsaw"]["cells"][index][0] < 2 for index in concerned)
        assert example.ambiguous == (upper and not shape)
        seen.add(example.ambiguous)
    assert seen == ({False} if shape else {False, True})


def test_users_are_cautioned_as_for_jigshape_itself():
    task = TASKS["piece_right"]
    assert "several right answers" in task.caution(task.Spec(puzzle={"grid": 8, "shape": False}))
    assert task.caution(task.Spec(puzzle={"grid": 8})) is None


def test_the_jigsaw_is_described_as_for_jigshape_itself():
    spec = TASKS["piece_cell"].Spec(puzzle={"grid": 4, "ground": [0, 0, 0], "label_color": [9, 9, 9]})
    assert spec.puzzle == JigshapeSpec(grid=4, ground=(0, 0, 0), label_color=(9, 9, 9))
    assert TASKS["piece_cell"].board(spec) == TASKS["jigshape"].board(spec.puzzle)
