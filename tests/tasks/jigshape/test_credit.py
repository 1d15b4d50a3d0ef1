"""What an answer by cells has decided, character by character."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tasks import TASKS
from tasks.photo import ImagePhoto

TASK = TASKS["jigshape"]
PHOTO = ImagePhoto(Image.new("RGB", (8, 8)))


def posed(**fields):
    return TASK.pose(TASK.Spec(answer_format="by_cell", **fields), PHOTO, 5)


def credit(puzzle, text, per="piece"):
    return TASK.credit(text, puzzle.spec, puzzle.target, per)


def rows_of(puzzle):
    return json.loads(TASK.gold(puzzle.target))


def test_each_piece_decides_its_share_once_it_can_go_on_no_longer():
    puzzle = posed(grid=2)
    (a, b), (c, d) = rows_of(puzzle)
    assert credit(puzzle, f"[[{a},{b}],[{c},{d}]]") == [(0, 0), (4, 0.25), (6, 0.5), (10, 0.75), (12, 1.0)]
    assert credit(puzzle, f"[[{b},{a}],[{c},{d}]]") == [(0, 0), (4, 0), (6, 0), (10, 0.25), (12, 0.5)]
    assert credit(puzzle, f"[[{a},{b}],[{c},{d}]]", "row") == [(0, 0), (6, 0.5), (12, 1.0)]


def test_a_text_that_can_be_no_valid_answer_any_more_has_decided_that_it_earns_nothing():
    puzzle = posed(grid=2)
    (a, b), (c, _) = rows_of(puzzle)
    assert credit(puzzle, f"[[{a},{b}],[{c},{c}]]") == [(0, 0), (4, 0.25), (6, 0.5), (10, 0.75), (12, 0.0)]
    assert credit(puzzle, f"[[{a},x") == [(0, 0), (4, 0.25), (5, 0.0)]
    assert credit(puzzle, f"[[{a},{b}],[{c}") == [(0, 0), (4, 0.25), (6, 0.5)]  # cut: what comes is not decided
    assert credit(puzzle, "no answer at all") == [(0, 0)]


def test_thoughts_and_prose_decide_nothing():
    puzzle = posed(grid=2)
    gold = TASK.gold(puzzle.target)
    before = f"<think>{gold}</think>Here: "
    assert credit(puzzle, before + gold) == [
        (0, 0),
        *((len(before) + at, share) for at, share in credit(puzzle, gold)[1:]),
    ]


def test_given_pieces_do_not_count():
    puzzle = posed(grid=3, clues=7)
    told = credit(puzzle, TASK.gold(puzzle.target))
    assert sorted({share for _, share in told}) == [0.0, 0.5, 1.0]


def test_answers_by_id_have_none():
    spec = TASK.Spec(grid=2)
    puzzle = TASK.pose(spec, PHOTO, 5)
    assert TASK.credit(TASK.gold(puzzle.target), spec, puzzle.target, "piece") is None


@pytest.mark.parametrize("per", ["row", "piece"])
@settings(max_examples=200, deadline=None)
@given(data=st.data(), seed=st.integers(0, 20))
def test_what_is_decided_follows_from_the_text_before_and_ends_at_the_score(data, seed, per):
    spec = TASK.Spec(grid=3, answer_format="by_cell")
    puzzle = TASK.pose(spec, PHOTO, seed)
    order = data.draw(st.permutations(range(9)))
    text = json.dumps(
        [list(order[at : at + 3]) for at in (0, 3, 6)], separators=(",", data.draw(st.sampled_from([",", ", "])))
    )
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(text)))
        text = (
            text[:at]
            + data.draw(st.sampled_from(["7", ",", "x", "]", " "]))
            + text[at + data.draw(st.integers(0, 1)) :]
        )
    told = credit(puzzle, text, per)
    cut = data.draw(st.integers(0, len(text)))
    assert credit(puzzle, text[:cut], per) == [(at, share) for at, share in told if at <= cut]
    assert [at for at, _ in told] == sorted({at for at, _ in told})
    scores = TASK.score(TASK.parse(text, spec), puzzle.target)
    if scores["valid"]:
        assert told[-1][1] == pytest.approx(scores["pa"])
