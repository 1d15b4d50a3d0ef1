"""What a person fills in, as a text that is scored."""

import numpy as np
import pytest

from tasks.contract import Invalid
from tasks.jigshape import TASK
from tasks.jigshape.spec import Spec

SPECS = [
    Spec(grid=3, answer_format=answer_format, clues=clues, repeat_clues=repeat)
    for answer_format in ("by_id", "by_cell", "cells_then_ids")
    for clues, repeat in ((0, True), (4, True), (4, False))
    if repeat or answer_format == "by_id"
]


def posed(spec, make_photo):
    puzzle = TASK.make(spec, make_photo(600, 600), 3).puzzle
    return puzzle, TASK.boxes(spec, puzzle.target.get("asked", {}))


def solved(puzzle):
    rows = [[""] * 3 for _ in range(3)]
    for index, (row, column) in enumerate(puzzle.target["cells"]):
        rows[row][column] = str(index)
    return rows


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{spec.answer_format}-{spec.clues}-{spec.repeat_clues}")
def test_boxes_filled_in_rightly_are_the_right_answer(spec, make_photo):
    puzzle, boxes = posed(spec, make_photo)
    answer = TASK.parse(boxes.write(solved(puzzle)), spec)
    assert TASK.score(answer, puzzle.target)["em"] == 1
    assert boxes.choices == [str(index) for index in range(9)]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{spec.answer_format}-{spec.clues}-{spec.repeat_clues}")
def test_given_pieces_stand_in_their_cells_and_no_other_does(spec, make_photo):
    puzzle, boxes = posed(spec, make_photo)
    given = {(r, c) for r, row in enumerate(boxes.given) for c, box in enumerate(row) if box}
    assert len(given) == spec.clues
    assert all(boxes.given[row][column] == solved(puzzle)[row][column] for row, column in given)


@pytest.mark.parametrize("spec", SPECS[::3], ids=lambda spec: spec.answer_format)
@pytest.mark.parametrize("box", ["", "9", "x", '"', "1"])
def test_a_box_left_empty_or_filled_in_wrongly_makes_no_valid_answer(spec, box, make_photo):
    puzzle, boxes = posed(spec, make_photo)
    rows = solved(puzzle)
    row, column = next((r, c) for r in range(3) for c in range(3) if rows[r][c] != "1")
    rows[row][column] = box
    assert isinstance(TASK.parse(boxes.write(rows), spec), Invalid)


def test_any_bijection_is_read_back_as_it_was_filled_in(make_photo):
    spec = Spec(grid=3)
    _, boxes = posed(spec, make_photo)
    order = np.random.default_rng(0).permutation(9)
    rows = [[str(index) for index in line] for line in order.reshape(3, 3)]
    answer = TASK.parse(boxes.write(rows), spec)
    assert [tuple(cell) for cell in answer] == [divmod(int(np.argmax(order == index)), 3) for index in range(9)]
