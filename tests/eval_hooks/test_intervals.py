"""Intervals: textbook values, coverage by simulation, and the cases in which formulas break."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval_hooks.intervals import (
    Estimate,
    beyond_chance,
    bootstrap,
    estimate,
    estimate_beyond_chance,
    mean_of,
    wilson,
)

SCORES = st.lists(st.tuples(st.sampled_from("abcdef"), st.floats(0, 1, allow_subnormal=False)), min_size=1, max_size=40)


def each_its_own(scores):
    return [(str(index), float(score)) for index, score in enumerate(scores)]


def jigsaws(rng, n):
    """PA of a model that solves most 4x4 puzzles and is lost in some."""
    return np.where(rng.random(n) < 0.7, 1.0, rng.binomial(16, 0.2, n) / 16)


def test_wilson_gives_the_textbook_values():
    # Newcombe 1998, table I, method 3
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(15, 148) == pytest.approx((0.0624, 0.1605), abs=5e-5)
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)
    assert wilson(29, 29) == pytest.approx((0.8830, 1.0), abs=5e-5)


@pytest.mark.parametrize(("successes", "n"), [(0, 0), (2, 1), (-1, 3)])
def test_wilson_refuses_what_is_no_count(successes, n):
    with pytest.raises(ValueError, match="do count again"):
        wilson(successes, n)


def test_wilson_of_nothing_and_of_all_ends_exactly_there():
    for n in range(1, 200):
        assert wilson(0, n).low == 0
        assert wilson(n, n).high == 1


def test_answers_of_0_and_1_get_wilsons_interval():
    assert estimate(each_its_own([1] * 81 + [0] * 182)) == Estimate(81 / 263, *wilson(81, 263), 263)


def test_one_puzzle_tells_next_to_nothing():
    assert estimate([("a", 1.0)]) == Estimate(1.0, *wilson(1, 1), 1)
    low, high = estimate([("a", 0.5)])[1:3]
    assert (low, high) == pytest.approx((0.0546, 0.9454), abs=1e-4)
    assert estimate([("a", 0.25)] * 100)[1:] == (*wilson(0.25, 1), 1)


@pytest.mark.parametrize("other", [0.3 + 1e-9, 0.3 + 1e-7, 0.3 - 1e-12])
def test_scores_that_differ_by_rounding_alone_are_alike(other):
    close, same = estimate([("a", 0.3), ("b", other)]), estimate([("a", 0.3), ("b", 0.3)])
    assert close == pytest.approx(same, abs=1e-6)


def test_a_score_next_to_nothing_is_nothing():
    assert estimate([("a", 0.0), ("b", 1e-170)]) == pytest.approx(estimate([("a", 0.0), ("b", 0.0)]), abs=1e-6)


def test_no_answer_is_refused():
    with pytest.raises(ValueError, match="got no answer"):
        estimate([])


@given(SCORES)
def test_an_interval_has_width_holds_the_mean_and_stays_in_range(answers):
    mean, low, high, n = estimate(answers)
    assert mean == pytest.approx(np.mean([score for _, score in answers]), abs=1e-12)
    assert n == len({key for key, _ in answers})
    assert -1e-6 <= low <= mean + 1e-6
    assert mean - 1e-6 <= high <= 1 + 1e-6
    assert high - low > 0


def test_the_same_answers_get_the_same_interval_in_any_order():
    answers = each_its_own(jigsaws(np.random.default_rng(0), 60))
    shuffled = [answers[i] for i in np.random.default_rng(1).permutation(60)]
    assert estimate(shuffled) == pytest.approx(estimate(answers), abs=1e-12)


@pytest.mark.parametrize("n", [50, 250])
def test_intervals_of_means_hold_the_truth_as_often_as_they_say(n):
    rng = np.random.default_rng(0)
    truth = 0.7 + 0.3 * 0.2
    found = [estimate(each_its_own(jigsaws(rng, n))) for _ in range(1000)]
    assert 0.93 <= np.mean([low <= truth <= high for _, low, high, _ in found]) <= 0.97


@pytest.mark.parametrize("n", [2, 3, 5, 10, 29])
@pytest.mark.parametrize("kind", ["jigsaws", "chance", "uniform"])
def test_intervals_of_few_puzzles_hold_the_truth_at_least_as_often_as_they_say(kind, n):
    rng = np.random.default_rng(4)
    draw, truth = {
        "jigsaws": (lambda: jigsaws(rng, n), 0.76),
        "chance": (lambda: rng.binomial(16, 1 / 16, n) / 16, 1 / 16),
        "uniform": (lambda: rng.random(n), 0.5),
    }[kind]
    found = [estimate(each_its_own(draw())) for _ in range(1000)]
    assert np.mean([low <= truth <= high for _, low, high, _ in found]) >= 0.93


@pytest.mark.parametrize("rate", [0.3, 0.9])
def test_intervals_of_0_and_1_hold_the_truth_as_often_as_they_say(rate):
    rng = np.random.default_rng(1)
    found = [wilson(int(rng.binomial(250, rate)), 250) for _ in range(4000)]
    assert 0.93 <= np.mean([low <= rate <= high for low, high in found]) <= 0.97


def test_samples_of_one_puzzle_stay_together():
    """Ten equal answers per puzzle are worth one: counted as ten, the interval would hold the truth far too rarely."""
    rng = np.random.default_rng(2)
    held, naive = [], []
    for _ in range(600):
        answers = [(str(key), score) for key, score in enumerate(jigsaws(rng, 60)) for _ in range(10)]
        _, low, high, n = estimate(answers)
        assert n == 60
        held.append(low <= 0.76 <= high)
        _, low, high, _ = estimate(each_its_own([score for _, score in answers]))
        naive.append(low <= 0.76 <= high)
    assert 0.93 <= np.mean(held) <= 0.97
    assert np.mean(naive) < 0.6


def test_a_puzzle_asked_more_often_weighs_more_as_in_the_mean_over_answers():
    answers = [("a", 1.0)] * 3 + [("b", 0.0)]
    assert estimate(answers).mean == 0.75
    low, high = bootstrap([3.0, 0.0], [3, 1])
    assert 0 <= low < 0.75 < high <= 1


def test_chance_is_0_and_all_right_is_1():
    assert beyond_chance(1 / 16, 1 / 16) == 0
    assert beyond_chance(1.0, 0.25) == 1
    assert beyond_chance(0.0, 0.25) == pytest.approx(-1 / 3)
    assert beyond_chance(0.4, 0.0) == 0.4


def test_a_guesser_that_is_always_right_tells_nothing():
    assert beyond_chance(0.9, 1.0) is None
    assert estimate_beyond_chance(Estimate(0.9, 0.8, 1.0, 5), 1.0) is None


def test_an_interval_moves_with_its_mean():
    assert estimate_beyond_chance(Estimate(0.5, 0.25, 1.0, 9), 0.25) == pytest.approx((1 / 3, 0.0, 1.0, 9))


def test_the_mean_of_one_is_itself_and_of_several_is_surer():
    one = Estimate(0.5, 0.4, 0.7, 10)
    assert mean_of([one]) == pytest.approx(one)
    assert mean_of([one] * 4) == pytest.approx((0.5, 0.45, 0.6, 40))


def test_the_mean_over_parts_holds_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(3)
    held = []
    for _ in range(600):
        parts = [jigsaws(rng, 60), rng.random(60) < 0.9, rng.binomial(64, 0.05, 60) / 64]
        _, low, high, _ = mean_of([estimate(each_its_own(part)) for part in parts])
        held.append(low <= (0.76 + 0.9 + 0.05) / 3 <= high)
    assert 0.93 <= np.mean(held) <= 0.97
