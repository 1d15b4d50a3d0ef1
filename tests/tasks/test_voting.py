"""The plain majority of answers that are right or wrong as a whole."""

from hypothesis import given
from hypothesis import strategies as st

from tasks.voting import majority

ANSWERS = st.sampled_from(["yes", "no", 3, [0, 1], [1, 0], ["tab", "flat"], {"a": 1}])


@given(st.lists(ANSWERS, min_size=1, max_size=9))
def test_no_answer_is_given_more_often_than_the_majoritys_and_ties_go_to_the_earliest(answers):
    voted = majority(answers, None)
    times = answers.count(voted)
    assert times == max(map(answers.count, answers))
    assert answers.index(voted) == min(answers.index(each) for each in answers if answers.count(each) == times)


@given(ANSWERS, st.integers(1, 5))
def test_equal_answers_are_their_own_majority(answer, times):
    assert majority([answer] * times, None) == answer
