import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.contract import Invalid
from tasks.probes import TASK, Spec

NINE = Spec(grid=3)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5", 5),
        (" 5.\n", 5),
        ("**5**", 5),
        ("the answer is 5", 5),
        ("The answer: 5", 5),
        ("Answer: **5**", 5),
        ("The final answer is $\\boxed{5}$.", 5),
        ("The answer is cell number 5.", 5),
        ("No. 5", 5),
        ("#5", 5),
        ("Cell 5 is grey.", 5),
        ("The grid has 9 cells in 3 rows. Counting 1, 2, 3, 4: the answer is 5.", 5),
        ("The answer is 4. No, wait: the answer is 5.", 5),
        ("The answer is 5, in row 2 of 3.", 5),
        ("It is number 5, row 2, column 2.", 5),
        ("Row 2 of 3, so it must be 5", 5),
        ("The cells are numbered 1 to 9; the grey one is 5", 5),
        ("<think>maybe 3, the answer is 4</think>5", 5),
        ("maybe 3, the answer is 4</think> No. 5", 5),
        ("<think>3</think>5<think>7</think>", 5),
        ("05", 5),
    ],
)
def test_the_stated_number_is_found(text, number):
    assert TASK.parse(text, NINE) == number


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no_number"),
        ("I see no grey cell.", "no_number"),
        ("five", "no_number"),
        ("５", "no_number"),
        ("0.5", "no_number"),
        ("x5", "no_number"),
        ("9" * 5000, "no_number"),
        ("<think>the answer is 5</think>", "no_number"),
        ("<think>the answer is 5", "truncated"),
        ("5 <think>", "truncated"),
        ("0", "out_of_range"),
        ("10", "out_of_range"),
        ("The answer is 12, not 5", "out_of_range"),
    ],
)
def test_other_texts_are_invalid_for_a_reason(text, reason):
    assert TASK.parse(text, NINE) == Invalid(reason)


def test_every_reason_is_a_known_one():
    reasons = {TASK.parse(text, NINE).reason for text in ("", "<think>", "0")}
    assert reasons == set(TASK.invalid_reasons)


@settings(max_examples=300, deadline=None)
@given(st.text() | st.text("0159.#answer no<think>/ ", max_size=60))
def test_no_text_is_too_odd_to_be_read(text):
    answer = TASK.parse(text, NINE)
    assert answer in range(1, 10) or answer.reason in TASK.invalid_reasons


@pytest.mark.parametrize(
    "text",
    [
        "answer " * 140_000, "answer is no the cell number " * 30_000, "1" * 10**6, "#" * 10**6, "answer" + " " * 10**6,
        "no. " * 250_000, "<think>" * 140_000, "number:::: is" * 80_000, "1." * 500_000,
    ],
)  # fmt: skip
def test_long_texts_are_read_in_one_go(text):
    assert isinstance(TASK.parse(text, NINE), Invalid)


def test_the_hidden_cell_is_plain_and_its_number_counts_in_reading_order(make_photo):
    photo = make_photo(90, 60)
    spec = Spec(grid=3, cell_px=20, line_px=2)
    seen = set()
    for seed in range(60):
        puzzle, images = (example := TASK.make(spec, photo, seed)).puzzle, example.images
        pixels = np.asarray(images[0])
        plain = [
            number
            for number in range(1, 10)
            for row, column in [divmod(number - 1, 3)]
            if (pixels[row * 20 + 2 : row * 20 + 18, column * 20 + 2 : column * 20 + 18] == spec.missing_color).all()
        ]
        assert plain == [puzzle.target["number"]]
        assert (pixels[:, 19:21] == 255).all()
        assert (pixels[39:41] == 255).all()
        seen |= {*plain}
    assert seen == set(range(1, 10))


def test_diagnose_tells_how_far_off_an_answer_is():
    target = {"kind": "grid_missing", "grid": 3, "number": 2}
    assert TASK.diagnose(4, target) == {"displacement": [1, -1], "transposed": True, "reason": None}
    assert TASK.diagnose(2, target) == {"displacement": [0, 0], "transposed": False, "reason": None}
    assert TASK.diagnose(Invalid("no_number"), target)["displacement"] is None


def test_pictures_frame_the_answered_cell(make_photo):
    photo = make_photo(90, 60)
    puzzle = TASK.pose(Spec(grid=3, cell_px=32), photo, 1)
    true = puzzle.target["number"]
    shown = {
        name: set(map(tuple, np.asarray(TASK.picture(puzzle, answer, photo)).reshape(-1, 3)))
        for name, answer in {"right": true, "wrong": true % 9 + 1, "invalid": Invalid("no_number")}.items()
    }
    green, red = (20, 150, 60), (230, 25, 40)
    assert green in shown["right"]
    assert red in shown["wrong"]
    assert green not in shown["wrong"]
    assert red in shown["invalid"]


def test_lines_wider_than_half_a_cell_are_refused():
    with pytest.raises(ValueError, match="at most half a cell"):
        Spec(cell_px=8, line_px=5)


def test_posing_and_rendering_need_a_photo(make_photo):
    with pytest.raises(ValueError, match="is posed with"):
        TASK.pose(NINE, None, 0)
    with pytest.raises(ValueError, match="is posed with"):
        TASK.render(TASK.pose(NINE, make_photo(8, 8), 0), None)
