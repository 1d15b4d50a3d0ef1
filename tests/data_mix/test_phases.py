"""Ladders and adaptive shares follow from the scores as said, a lag after them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_mix.phases import phases, prompt_curriculum, teaching_shares
from data_mix.scores import Scores
from recipes.schema import Adaptive, Curriculum, Data

CLUES = ["clues60", "clues48", "clues0"]


def scores(*measured):
    found = Scores()
    for step, said in measured:
        found.add(step, said)
    return found


def climbed(*measured, **ladder):
    asked = Curriculum.model_validate({"ladder": {"parts": CLUES, "up": 0.8, **ladder}, "lag": 3})
    return [(phase.start, phase.name.removeprefix("part ")) for phase in phases(asked, CLUES, scores(*measured))]


@pytest.mark.parametrize(
    ("measured", "then"),
    [
        ([], []),
        ([(10, {"clues60": 0.79})], []),
        ([(10, {"clues60": 0.8})], [(13, "clues48")]),
        ([(10, {"clues48": 1.0})], []),  # not the active part
        ([(10, {"clues60": 0.9}), (13, {"clues48": 0.9})], [(13, "clues48")]),  # measured before it was active
        ([(10, {"clues60": 0.9}), (15, {"clues48": 0.8})], [(13, "clues48"), (18, "clues0")]),
        ([(10, {"clues60": 0.9}), (15, {"clues48": 0.8}), (30, {"clues0": 1.0})], [(13, "clues48"), (18, "clues0")]),
        ([(10, {"clues60": 0.9}), (15, {"clues48": 0.1})], [(13, "clues48")]),  # never back, unless `down` is given
    ],
)
def test_a_ladder_goes_up_when_its_active_part_has_the_score_and_a_lag_later(measured, then):
    assert climbed(*measured) == [(0, "clues60"), *then]


def test_a_ladder_with_down_goes_back_below_it_and_up_again_but_not_below_its_first_part():
    told = climbed(
        (5, {"clues60": 0.9}), (10, {"clues48": 0.4}), (15, {"clues48": 0.39}), (20, {"clues60": 0.2}),
        (25, {"clues60": 0.8}), down=0.4,
    )  # fmt: skip
    assert told == [(0, "clues60"), (8, "clues48"), (18, "clues60"), (28, "clues48")]


@pytest.mark.parametrize(
    ("replay", "shares"),
    [(0.3, {"clues60": 0.15, "clues48": 0.15, "clues0": 0.7}), (0.0, {"clues0": 1.0})],
)
def test_the_parts_before_the_active_one_share_the_replay(replay, shares):
    asked = Curriculum.model_validate({"ladder": {"parts": CLUES, "replay": replay}, "lag": 1})
    told = phases(asked, CLUES, scores((1, {"clues60": 1.0}), (3, {"clues48": 1.0})))
    assert told[0].shares == {"clues60": 1.0}
    assert told[-1].shares == pytest.approx(shares)


@given(st.dictionaries(st.sampled_from("abcd"), st.floats(0, 1)), st.floats(0.01, 1))
def test_adaptive_shares_add_up_to_one_and_keep_the_floor(spreads, floor):
    shares = teaching_shares(spreads, "abcd", Adaptive(floor=floor))
    assert sum(shares.values()) == pytest.approx(1)
    assert min(shares.values()) >= floor / 4 - 1e-12


@pytest.mark.parametrize(
    ("spreads", "shares"),
    [
        ({}, [0.25] * 4),
        ({"a": 0.0, "b": 0.0, "c": 0.0, "d": 0.0}, [0.25] * 4),
        ({"a": 0.3, "b": 0.1, "c": 0.0, "d": 0.0}, [0.65, 0.25, 0.05, 0.05]),
        ({"a": 0.1, "b": 0.2, "c": 0.0}, [0.21, 0.37, 0.05, 0.37]),  # what is not known may teach as much as any
    ],
)
def test_adaptive_shares_follow_the_spreads(spreads, shares):
    found = teaching_shares(spreads, "abcd", Adaptive(floor=0.2))
    assert list(found.values()) == pytest.approx(shares)


def test_every_decision_of_an_adaptive_curriculum_holds_from_its_lag_on():
    asked = Curriculum.model_validate({"adaptive": {"floor": 0.5}, "lag": 3})
    told = phases(asked, ["a", "b"], scores((5, {"a": 0.1, "b": 0.3}), (10, {"a": 0.2, "b": 0.0})))
    assert [phase.start for phase in told] == [0, 8, 13]
    assert [list(phase.shares.values()) for phase in told] == [[0.5, 0.5], [0.375, 0.625], [0.75, 0.25]]


def test_without_a_curriculum_a_run_draws_by_the_parts_counts():
    parts = {"a": {"task": "jigshape", "count": 30}, "b": {"task": "jigshape", "count": 10}}
    (only,) = phases(prompt_curriculum(Data.model_validate({"parts": parts})), ["a", "b"], Scores())
    assert (only.start, only.shares) == (0, {"a": 30, "b": 10})
