import json

import pytest

from tasks.contract import Invalid
from tasks.jigshape import TASK
from tasks.jigshape.spec import Spec


def test_diagnose_tells_where_pieces_went(pose):
    puzzle = pose(4)
    truth = puzzle.target["cells"]
    report = TASK.diagnose([cell[::-1] for cell in truth], puzzle.target)
    assert report["transposed"] == 1
    assert report["reason"] is None
    assert report["wrong"] == [i for i, (row, column) in enumerate(truth) if row != column]
    assert report["displacement"][5] == [truth[5][1] - truth[5][0], truth[5][0] - truth[5][1]]
    report = TASK.diagnose(Invalid("wrong_keys", [truth[0], *[None] * 15]), puzzle.target)
    assert report["displacement"] == [[0, 0], *[None] * 15]
    assert report["wrong"] == [*range(1, 16)]
    assert report["reason"] == "wrong_keys"
    assert json.loads(json.dumps(report)) == report


def test_diagnose_copes_with_an_answer_of_which_nothing_is_left(pose):
    for grid in (2, 4):
        report = TASK.diagnose(TASK.parse("no idea", Spec(grid=grid)), pose(grid).target)
        assert report["displacement"] == [None] * grid**2


def test_pieces_that_only_look_wrong_are_told_from_those_that_do_not_fit(pose):
    puzzle = pose(8, 1)
    truth, sides = puzzle.target["cells"], puzzle.target["signatures"]
    one, two = next((i, j) for i in range(64) for j in range(i) if sides[i] == sides[j])
    odd, other = next((i, j) for i in range(64) for j in range(i) if sides[i] != sides[j] and not {i, j} & {one, two})
    answer = [*truth]
    answer[one], answer[two] = truth[two], truth[one]
    answer[odd], answer[other] = truth[other], truth[odd]
    report = TASK.diagnose(answer, puzzle.target)
    assert report["wrong"] == sorted([one, two, odd, other])
    assert report["wrong_look"] == sorted([one, two])
    assert report["wrong_shape"] == sorted([odd, other])
    assert report["swapped"] == sorted([sorted([one, two]), sorted([odd, other])])
    assert report["swapped_alike"] == [sorted([one, two])]
    fits = sum(sum(map(sum, report[name])) for name in ("fits_across", "fits_down"))
    assert fits / (2 * 8 * 7) == pytest.approx(TASK.score(answer, puzzle.target)["sc"])


def test_a_rotation_of_three_pieces_swaps_none(pose):
    puzzle = pose(3, 1)
    truth = puzzle.target["cells"]
    report = TASK.diagnose([truth[1], truth[2], truth[0], *truth[3:]], puzzle.target)
    assert report["wrong"] == [0, 1, 2]
    assert report["swapped"] == []


def test_given_pieces_are_not_diagnosed(pose):
    puzzle = pose(3, 1, clues=5)
    report = TASK.diagnose(puzzle.target["cells"][1:] + puzzle.target["cells"][:1], puzzle.target)
    assert len(report["wrong"]) == 4
    assert not set(report["wrong"]) & set(puzzle.target["clues"])
    assert sum(shift is not None for shift in report["displacement"]) == 4
    assert "fits_across" not in report


def test_without_shape_nothing_is_said_of_edges(pose):
    puzzle = pose(3, 1, shape=False)
    report = TASK.diagnose(puzzle.target["cells"], puzzle.target)
    assert not {"wrong_look", "wrong_shape", "swapped_alike", "fits_across", "fits_down"} & set(report)
