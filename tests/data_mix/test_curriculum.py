"""Curricula: shares are kept, stages end when they should, and nothing depends on who asks or how far ahead."""

from collections import Counter
from itertools import chain, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_mix.curriculum import CurriculumOrder, draws, training_order
from data_mix.mixture import training_mixture
from data_mix.phases import stage_starts
from data_mix.photos import find_photos
from data_mix.scores import Scores
from recipes.loader import load_recipe
from recipes.schema import Curriculum

POSITIONS = {"a": [0, 2, 4, 6, 8], "b": [1, 3, 5], "c": [7, 9, 10, 11]}
PART = {position: part for part, positions in POSITIONS.items() for position in positions}


def curriculum(**stages):
    return Curriculum.model_validate({"stages": stages, "lag": 3})


def scores(*measured):
    found = Scores()
    for step, said in measured:
        found.add(step, said)
    return found


def order_of(asked, found=None, batch=4, seed=0):
    return CurriculumOrder(asked, POSITIONS, batch, seed, found or Scores())


FIXED = curriculum(
    easy={"shares": {"a": 1}, "steps": 3},
    more={"shares": {"a": 1, "b": 3}, "steps": 5},
    all={"shares": {"c": 2, "a": 2}},
)
BY_SCORE = curriculum(
    easy={"shares": {"a": 1}, "until": {"a": 0.9}},
    more={"shares": {"a": 1, "b": 1}, "until": {"a": 0.8, "b": 0.5}, "steps": 20},
    all={"shares": {"a": 1, "b": 1, "c": 2}},
)


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.floats(0.01, 100), min_size=1), st.integers(1, 20), st.integers(1, 40)
)
def test_every_stretch_of_a_stage_has_each_parts_share_to_within_one_example(shares, batch, steps):
    drawn = Counter()
    for number, step in enumerate(islice(draws(shares, batch), steps), start=1):
        assert len(step) == batch
        drawn.update(step)
        for part, share in shares.items():
            # the largest credit goes first, so no part runs ahead by one, nor behind by as many as there are others
            assert -len(shares) < drawn[part] - share / sum(shares.values()) * batch * number < 1 + 1e-6


def test_stages_by_step_begin_where_they_say_and_draw_from_their_parts():
    order = order_of(FIXED)
    counts = [Counter(PART[position] for position in order.step(step)) for step in range(12)]
    assert counts == [Counter(a=4)] * 3 + [Counter(a=1, b=3)] * 5 + [Counter(a=2, c=2)] * 4
    assert order.shares(2) == {"a": 1, "b": 0, "c": 0}
    assert order.shares(3) == {"a": 0.25, "b": 0.75, "c": 0}
    assert order.decided


def test_a_parts_puzzles_all_come_before_one_comes_again_and_each_pass_has_its_own_order():
    order = order_of(curriculum(all={"shares": {"b": 1}}), batch=3)
    passes = [list(order.step(step)) for step in range(8)]
    assert all(sorted(one) == POSITIONS["b"] for one in passes)
    assert len(set(map(tuple, passes))) > 1


def test_an_order_is_a_function_of_its_seed_and_the_step():
    forth = [order_of(FIXED).step(step) for step in range(15)]
    assert list(order_of(FIXED).possible_steps(15)) == forth
    assert [order_of(FIXED, seed=1).step(step) for step in range(15)] != forth


@pytest.mark.parametrize(
    ("measured", "starts"),
    [
        ([], [0]),
        ([(5, {"a": 0.89})], [0]),
        ([(5, {"a": 0.9})], [0, 8, 28]),
        ([(5, {"b": 1.0})], [0]),  # the part that is asked for was not evaluated
        ([(5, {"a": 0.95}), (10, {"a": 0.7, "b": 1.0}), (15, {"a": 0.8, "b": 0.5})], [0, 8, 18]),
        ([(5, {"a": 0.95}), (8, {"a": 1.0, "b": 1.0})], [0, 8, 28]),  # measured as the stage began: not yet of it
        ([(5, {"a": 0.95}), (27, {"a": 1.0, "b": 1.0})], [0, 8, 28]),  # its steps end before the lag does
    ],
)
def test_a_stage_ends_a_lag_after_the_evaluation_that_found_enough_or_after_its_steps(measured, starts):
    assert stage_starts(BY_SCORE, scores(*measured)) == starts


def test_a_run_by_score_is_the_same_however_far_ahead_its_batches_are_made():
    """Asked as late as possible, and as early as the lag allows."""
    measured = {4: {"a": 0.95}, 8: {"a": 0.9, "b": 0.1}, 12: {"a": 0.9, "b": 0.6}}
    runs = []
    for ahead in (0, 1, 2):
        found = Scores()
        order, made = order_of(BY_SCORE, found), []
        for step in range(20):
            if step in measured:
                found.add(step, measured[step])
            made.append(order.step(step + ahead))
        runs.append([order.step(step) for step in range(20)])
    assert runs[0] == runs[1] == runs[2]
    assert [order.shares(step)["c"] for step in (14, 15)] == [0, 0.5]


def test_an_order_made_again_from_the_scores_of_a_checkpoint_goes_on_as_before():
    measured = [(4, {"a": 0.95}), (12, {"a": 0.9, "b": 0.6})]
    order = order_of(BY_SCORE, scores(*measured))
    assert [order_of(BY_SCORE, scores(*measured)).step(step) for step in (17, 3)] == [order.step(17), order.step(3)]


def test_a_score_that_would_change_batches_that_are_made_stops_the_run():
    found = Scores()
    order = order_of(BY_SCORE, found)
    order.step(10)
    found.add(5, {"a": 1.0})
    with pytest.raises(
        RuntimeError, match=r"begins at step 8, but batches up to step 10 .* raise data\.curriculum\.lag"
    ):
        order.step(11)


def test_the_possible_steps_of_a_run_by_score_draw_from_parts_as_its_own_do():
    order = order_of(BY_SCORE, scores((4, {"a": 0.95}), (8, {"a": 1.0, "b": 1.0})))

    def parts(step):
        return tuple(PART[position] for position in step)

    assert not order.decided
    assert {parts(order.step(step)) for step in range(20)} <= {parts(step) for step in order.possible_steps(20)}
    assert order.positions(20) == list(chain(*POSITIONS.values()))


def test_a_recipes_parts_are_drawn_from_where_they_are_in_the_mixture(in_tmp_path):
    recipe = load_recipe(
        [
            "recipe=quickstart", "data.parts.2x2.count=5", "data.parts.3x3={task: jigshape, spec: {grid: 3}, count: 7}",
            "data.curriculum={stages: {one: {shares: {3x3: 1}, steps: 2}, two: {shares: {2x2: 1, 3x3: 1}}}}",
            "train.effective_batch=4", "train.micro_batch=1",
        ]
    )  # fmt: skip
    mixture = training_mixture(recipe, find_photos(recipe.data.photos))
    order = training_order(recipe, mixture, Scores())
    drawn = [Counter(mixture[position].part for position in order.step(step)) for step in range(4)]
    assert drawn == [Counter({"3x3": 4})] * 2 + [Counter({"3x3": 2, "2x2": 2})] * 2
    assert order.steps_per_epoch == 3
    assert {part: [mixture[at].index for at in places] for part, places in mixture.positions().items()} == {
        "2x2": list(range(5)),
        "3x3": list(range(7)),
    }


def test_reverse_clues_give_fewer_cells_as_the_score_rises_and_more_when_it_falls(in_tmp_path):
    clued = (f"data.parts.clues{n}={{task: jigshape, spec: {{grid: 3, clues: {n}}}, count: 9}}" for n in (6, 3, 0))
    ladder = "{parts: [clues6, clues3, clues0], up: 0.8, down: 0.2, replay: 0}"
    recipe = load_recipe(
        ["recipe=quickstart", *clued, "reward={}", "train.predictable_weight=1",
         f"data.curriculum={{ladder: {ladder}, lag: 1}}"]
    )  # fmt: skip
    mixture, found = training_mixture(recipe, find_photos(recipe.data.photos)), Scores()
    order = CurriculumOrder(recipe.data.curriculum, mixture.positions(), 4, recipe.seed, found)
    given = []
    for score in (0.9, 0.9, 0.1, 0.5):
        step = 2 * len(given)
        (clues,) = {mixture[position].puzzle.spec.clues for position in order.step(step)}
        given.append(clues)
        found.add(step + 1, {f"clues{clues}": score})
    assert given == [6, 3, 0, 3]
