"""The vote of several JigShape answers: a bijection, the majority wherever that is one, ties to the earliest."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.jigshape import TASK
from tasks.jigshape.spec import Spec


def cells_of(order, grid):
    """The answer that lays piece i on the order[i]-th cell."""
    return [list(divmod(cell, grid)) for cell in order]


@st.composite
def ballots(draw, grids=(2, 3, 4), most=7):
    """(grid, some answers), nearly alike or anything."""
    grid = draw(st.sampled_from(grids))
    base = draw(st.permutations(range(grid**2)))
    answers = []
    for _ in range(draw(st.integers(1, most))):
        order = list(draw(st.permutations(range(grid**2)))) if draw(st.booleans()) else list(base)
        one, other = draw(st.tuples(*[st.integers(0, grid**2 - 1)] * 2))
        order[one], order[other] = order[other], order[one]
        answers.append(cells_of(order, grid))
    return grid, answers


def votes_for(cells, answers):
    return sum(answer[index] == cell for answer in answers for index, cell in enumerate(cells))


@given(ballots())
def test_the_vote_lays_every_piece_on_a_cell_of_its_own(ballot):
    grid, answers = ballot
    voted = TASK.vote(answers, Spec(grid=grid))
    assert sorted(voted) == cells_of(range(grid**2), grid)
    assert TASK.parse(TASK.write(voted, Spec(grid=grid)), Spec(grid=grid)) == voted


@given(ballots())
def test_each_piece_lies_where_most_lay_it_wherever_that_is_possible_for_all(ballot):
    grid, answers = ballot
    by_piece = [Counter(tuple(answer[index]) for answer in answers) for index in range(grid**2)]
    majority = [list(counted.most_common(1)[0][0]) for counted in by_piece]  # ties to the earliest
    if len({tuple(cell) for cell in majority}) == grid**2:
        assert TASK.vote(answers, Spec(grid=grid)) == majority


@given(ballots(grids=(2,)))
def test_no_other_bijection_has_more_votes(ballot):
    grid, answers = ballot
    most = max(votes_for(cells_of(order, grid), answers) for order in permutations(range(grid**2)))
    assert votes_for(TASK.vote(answers, Spec(grid=grid)), answers) == most


@given(ballots(), st.randoms(use_true_random=False))
def test_in_another_order_the_vote_has_as_many_votes(ballot, random):
    grid, answers = ballot
    shuffled = random.sample(answers, len(answers))
    one, other = (TASK.vote(each, Spec(grid=grid)) for each in (answers, shuffled))
    assert votes_for(one, answers) == votes_for(other, answers)


@given(st.permutations(range(9)), st.permutations(range(9)), st.integers(1, 4))
def test_more_than_half_of_equal_answers_decide_in_any_order(order, other, few):
    winner, loser = cells_of(order, 3), cells_of(other, 3)
    answers = [winner] * (few + 1) + [loser] * few
    assert TASK.vote(answers, Spec(grid=3)) == winner
    assert TASK.vote(answers[::-1], Spec(grid=3)) == winner


@given(st.permutations(range(16)), st.integers(1, 5))
def test_equal_answers_vote_for_themselves(order, times):
    answer = cells_of(order, 4)
    assert TASK.vote([answer] * times, Spec(grid=4)) == answer


@given(st.permutations(range(9)), st.permutations(range(9)))
def test_of_two_answers_the_first_decides(order, other):
    first, second = cells_of(order, 3), cells_of(other, 3)
    assert TASK.vote([first, second], Spec(grid=3)) == first
    assert TASK.vote([second, first], Spec(grid=3)) == second


def test_where_two_pieces_want_one_cell_the_one_with_fewer_votes_gives_way():
    answers = [cells_of(order, 2) for order in ([0, 1, 2, 3], [0, 1, 2, 3], [0, 2, 1, 3], [1, 0, 2, 3], [3, 0, 2, 1])]
    # piece 0: cell 0 three times; piece 1: cells 1 and 0 twice each; piece 2: cell 2 four times; piece 3: cell 3
    assert TASK.vote(answers, Spec(grid=2)) == cells_of([0, 1, 2, 3], 2)
    answers = [cells_of(order, 2) for order in ([0, 1, 2, 3], [0, 2, 1, 3], [2, 0, 1, 3], [2, 0, 3, 1], [1, 0, 2, 3])]
    # piece 0: cells 0 and 2 twice; piece 1: cell 0 three times, so piece 0 takes cell 2 and piece 2 cell 1
    assert TASK.vote(answers, Spec(grid=2)) == cells_of([2, 0, 1, 3], 2)


def test_the_largest_grid_is_voted_on_exactly():
    rng = np.random.default_rng(0)
    truth = rng.permutation(32**2)
    answers = []
    for _ in range(5):
        order = truth.copy()
        wrong = rng.choice(32**2, 200, replace=False)
        order[wrong] = order[rng.permutation(wrong)]
        answers.append(cells_of(order.tolist(), 32))
    voted = TASK.vote(answers, Spec(grid=32, piece_px=24))
    assert sorted(voted) == cells_of(range(32**2), 32)
    singles = [
        np.mean([a == b for a, b in zip(answer, cells_of(truth.tolist(), 32), strict=True)]) for answer in answers
    ]
    assert np.mean([a == b for a, b in zip(voted, cells_of(truth.tolist(), 32), strict=True)]) > max(singles)


LEFT_OUT = Spec(grid=3, clues=5, repeat_clues=False)


@pytest.mark.parametrize("misled_first", [True, False])
def test_which_pieces_are_left_out_is_voted_on_first(pose, misled_first):
    target = pose(grid=3, seed=2, clues=5, repeat_clues=False).target
    first = min(set(range(9)) - set(target["clues"]))
    misled, right = (
        TASK.parse(TASK.gold(target | {"clues": left_out}), LEFT_OUT)
        for left_out in ([first, *target["clues"][1:]], target["clues"])
    )
    assert misled[first] is None
    answers = [misled, right, right] if misled_first else [right, right, misled]
    assert TASK.vote(answers, LEFT_OUT) == right
    assert TASK.score(right, target)["em"] == 1
    assert TASK.parse(TASK.write(right, LEFT_OUT), LEFT_OUT) == right
