import numpy as np
import pytest

from tasks.contract import Invalid
from tasks.jigshape import TASK
from tasks.jigshape.spec import Spec

RED = (230, 25, 40)


@pytest.fixture(params=[2, 4, 16])
def solved(request, make_photo):
    spec = Spec(grid=request.param, **({} if request.param < 16 else {"piece_px": 32}))
    photo = make_photo(300, 200)
    return TASK.pose(spec, photo, 3), photo


def num_red(image):
    return int((np.asarray(image) == RED).all(axis=-1).sum())


def test_a_right_answer_has_no_mark(solved):
    puzzle, photo = solved
    image = TASK.picture(puzzle, puzzle.target["cells"], photo)
    assert image.mode == "RGB"
    assert num_red(image) == 0


def test_each_wrong_piece_is_outlined(solved):
    puzzle, photo = solved
    cells = [*puzzle.target["cells"]]
    cells[0], cells[1] = cells[1], cells[0]
    two = num_red(TASK.picture(puzzle, cells, photo))
    all_wrong = num_red(TASK.picture(puzzle, cells[1:] + cells[:1], photo))
    assert 0 < two <= all_wrong
    assert puzzle.spec.grid == 2 or two < all_wrong


def test_invalid_answers_are_drawn_as_far_as_they_go(solved):
    puzzle, photo = solved
    truth = puzzle.target["cells"]
    empty = TASK.picture(puzzle, Invalid("no_json"), photo)
    part = TASK.picture(puzzle, Invalid("wrong_keys", [truth[0], *[None] * (len(truth) - 1)]), photo)
    wrong = TASK.picture(puzzle, Invalid("wrong_keys", [truth[1], *[None] * (len(truth) - 1)]), photo)
    assert empty.mode == "RGB"
    assert empty.tobytes() != part.tobytes()
    assert num_red(empty) == num_red(part) == 0
    assert num_red(wrong) > 0
