"""Groups that teach nothing are replaced by others of their part, as often as is allowed and no oftener."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from data_mix.groups import Group
from data_mix.refill import Refill

POSITIONS = {"a": list(range(0, 40, 2)), "b": list(range(1, 40, 2)), "few": [40, 41]}
PART = {position: part for part, positions in POSITIONS.items() for position in positions}


def group(position, teaches):
    return Group(position, PART[position], [0.0, 0.5], [0.0, 0.5 if teaches else 0.0])


def answering(teaching, calls=None):
    """An `ask` whose groups teach where their position is in `teaching`."""

    def ask(positions):
        if calls is not None:
            calls.append(positions)
        return [group(position, position in teaching) for position in positions]

    return ask


def fill(prompts, teaching, tries, step=0, calls=None):
    ask = answering(teaching, calls)
    return Refill(POSITIONS, 3, tries).fill(step, [group(at, at in teaching) for at in prompts], ask)


@given(
    st.lists(st.sampled_from(sorted(PART)), min_size=1, max_size=12, unique=True),
    st.sets(st.sampled_from(sorted(PART))),
    st.integers(0, 4),
)
def test_every_place_keeps_its_part_and_its_group_if_that_teaches(prompts, teaching, tries):
    filled = fill(prompts, teaching, tries)
    assert [group.position for group in filled.asked[: len(prompts)]] == prompts
    for place, which in enumerate(filled.chosen):
        assert filled.asked[which].part == PART[prompts[place]]
        assert which == place or (filled.asked[which].teaches and not filled.asked[place].teaches)
    assert len(set(filled.chosen)) == len(prompts)
    assert filled.tries <= tries
    if filled.tries < tries:
        assert all(filled.asked[which].teaches for which in filled.chosen)


@given(st.lists(st.sampled_from(POSITIONS["a"]), min_size=1, max_size=4, unique=True), st.integers(1, 4))
def test_no_puzzle_is_asked_twice_in_a_step_while_its_part_has_others(prompts, tries):
    asked = [group.position for group in fill(prompts, set(), tries).asked]
    assert len(asked) == len(prompts) * (1 + tries)
    assert len(set(asked)) == min(len(asked), len(POSITIONS["a"]))


def test_a_part_without_further_puzzles_is_asked_again():
    asked = Counter(group.position for group in fill([40, 41], set(), tries=3).asked)
    assert asked == {40: 4, 41: 4}


def test_a_step_whose_groups_all_teach_asks_nothing_more():
    calls = []
    filled = fill([0, 1], {0, 1}, tries=3, calls=calls)
    assert (calls, filled.chosen, filled.tries) == ([], [0, 1], 0)


def test_only_the_places_that_are_empty_are_asked_for_and_all_is_counted():
    calls = []
    odd_teach = set(POSITIONS["b"]) - {1, 3}
    filled = fill([0, 1, 5, 3], odd_teach, tries=2, calls=calls)
    assert [[PART[at] for at in call] for call in calls] == [["a", "b", "b"], ["a"]]
    assert filled.chosen == [0, 5, 2, 6]
    assert filled.metrics() == {"refill/asked": 4, "refill/replaced": 2, "refill/left": 1, "refill/tries": 2}


def test_what_is_asked_further_is_a_function_of_seed_and_step():
    def further(step, seed=3):
        return Refill(POSITIONS, seed, 1).further(step, "a", [0, 2], 8)

    assert further(5) == further(5)
    assert further(5) != further(6)
    assert further(5) != further(5, seed=4)
    assert not {0, 2} & set(further(5))
