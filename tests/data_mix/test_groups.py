"""What a run's groups decide is the same on any processes, however far ahead it prepares, and after a kill."""

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_mix.curriculum import CurriculumOrder
from data_mix.groups import Group, GroupScores, group_metrics
from data_mix.phases import stage_starts
from data_mix.streams import stream
from recipes.schema import Curriculum

POSITIONS = {"a": list(range(0, 60, 3)), "b": list(range(1, 60, 3)), "c": list(range(2, 60, 3))}
PARTS = list(POSITIONS)
PART = {position: part for part, positions in POSITIONS.items() for position in positions}
LAG = 3
STEPS = 40


def curriculum(every=4, window=16, **kind):
    return Curriculum.model_validate({**kind, "groups": {"every": every, "window": window}, "lag": LAG})


KINDS = {
    "fixed": curriculum(stages={"one": {"shares": {"a": 1}, "steps": 7}, "all": {"shares": {"a": 1, "b": 1, "c": 2}}}),
    "staged": curriculum(
        stages={"one": {"shares": {"a": 3, "b": 1}, "until": {"a": 0.6}}, "all": {"shares": {"b": 1, "c": 1}}}
    ),
    "ladder": curriculum(ladder={"parts": ["a", "b", "c"], "up": 0.6, "down": 0.35, "replay": 0.25}),
    "adaptive": curriculum(adaptive={"floor": 0.3}),
}


def learner(step, part):
    """A model that gets better at all parts, and worse for a while."""
    return min(1.0, {"a": 0.4, "b": 0.2, "c": 0.0}[part] + step / 50) * (0.4 if 20 <= step < 28 else 1)


def answered(step, position, able):
    part = PART[position]
    right = stream("answers", step, position).random((4, 9)) < able(step, part)
    primary = right.mean(axis=1).tolist()
    return Group(position, part, primary, [0.1 + 0.7 * score for score in primary])


def run(asked, *, able=learner, batch=8, steps=STEPS, processes=1, ahead=0, killed_after=(), gathered=None):
    """([positions of each step], [phases]) of a simulated run."""
    found = GroupScores(asked, PARTS)
    order = CurriculumOrder(asked, POSITIONS, batch, 7, found.scores)
    made = []
    for step in range(steps):
        order.step(step + ahead)
        made.append(list(order.step(step)))
        each = [[answered(step, at, able) for at in made[-1][rank::processes]] for rank in range(processes)]
        groups = [group for own in each for group in own]
        found.add(step, gathered(groups) if gathered else groups)
        if step in killed_after:
            held = json.dumps(found.state())
            found = GroupScores(asked, PARTS)
            found.restore(json.loads(held))
            order = CurriculumOrder(asked, POSITIONS, batch, 7, found.scores)
    return made, order.phases()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("processes", "ahead"), [(4, 0), (1, LAG), (4, 2)])
def test_a_run_is_the_same_on_any_processes_and_however_far_ahead_it_is_prepared(kind, processes, ahead):
    assert run(KINDS[kind], processes=processes, ahead=ahead) == run(KINDS[kind])


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), killed_after=st.sets(st.integers(0, STEPS - 1), max_size=3))
def test_a_run_is_the_same_in_any_order_of_gathering_and_after_a_kill_at_any_step(kind, seed, killed_after):
    rng = np.random.default_rng(seed)

    def shuffled(groups):
        mixed = [groups[at] for at in rng.permutation(len(groups))]
        return [one._replace(primary=one.primary[::-1], rewards=one.rewards[::-1]) for one in mixed]

    assert run(KINDS[kind], gathered=shuffled, killed_after=killed_after) == run(KINDS[kind])


def test_the_simulated_runs_do_change_their_shares():
    names = {kind: [phase.name for phase in run(asked)[1]] for kind, asked in KINDS.items()}
    assert names["staged"] == ["stage one", "stage all"]
    assert names["ladder"][:4] == ["part a", "part b", "part a", "part b"]  # back while the model is worse
    assert len(set(names["adaptive"])) > 5


def scored(part, *each):
    return [Group(position, part, [score], [score]) for position, score in enumerate(each)]


@pytest.mark.parametrize(("last", "phases"), [(0.75, [0, 4 + LAG]), (0.74, [0])])
def test_the_mean_of_the_window_decides_at_the_threshold_itself(last, phases):
    asked = curriculum(every=2, window=4, ladder={"parts": ["a", "b"], "up": 0.75})
    found = GroupScores(asked, PARTS)
    order = CurriculumOrder(asked, POSITIONS, 2, 0, found.scores)
    for step, each in enumerate([(0.0, 0.0), (0.75, 0.75), (0.75, 0.75)]):
        found.add(step, scored("a", *each))
    assert [phase.start for phase in order.phases()] == [0]  # enough, but not a step to decide at
    found.add(3, scored("a", 0.75, last))
    assert [phase.start for phase in order.phases()] == phases


def test_fewer_groups_than_the_window_decide_nothing():
    asked = curriculum(every=1, window=5, ladder={"parts": ["a", "b"]})
    found = GroupScores(asked, PARTS)
    found.add(0, scored("a", 1, 1, 1, 1))
    assert list(found.scores) == [(1, {})]
    found.add(1, scored("a", 1))
    assert list(found.scores) == [(1, {}), (2, {"a": 1})]


def test_a_stage_that_any_score_ends_waits_for_a_score():
    stages = {"one": {"shares": {"a": 1}, "until": {"a": 0}}, "two": {"shares": {"b": 1}}}
    asked = curriculum(every=1, window=5, stages=stages)
    found = GroupScores(asked, PARTS)
    found.add(0, scored("a", 0, 0, 0, 0))
    found.add(1, scored("a", 0))
    assert stage_starts(asked, found.scores) == [0, 2 + LAG]


def test_groups_of_an_earlier_phase_do_not_count_for_the_next_decision():
    asked = curriculum(every=1, window=2, ladder={"parts": ["a", "b"], "down": 0.1})
    found = GroupScores(asked, PARTS)
    for step in range(LAG + 1):
        found.add(step, scored("a", 1, 1))
    found.add(LAG + 1, scored("a", 1) + scored("b", 0))
    assert list(found.scores)[-1] == (LAG + 2, {})
    found.add(LAG + 2, scored("a", 1) + scored("b", 0))
    assert list(found.scores)[-1] == (LAG + 3, {"a": 1, "b": 0})


def test_a_stage_by_groups_begins_a_lag_after_the_decision_that_ends_the_one_before():
    made, (_, then) = run(KINDS["staged"])
    assert then.start % 4 == LAG % 4
    assert [{PART[at] for at in made[step]} for step in (then.start - 1, then.start)] == [{"a", "b"}, {"b", "c"}]


def test_replayed_parts_get_their_share_to_within_one_example():
    asked = curriculum(ladder={"parts": ["a", "b", "c"], "up": 0, "replay": 0.3})
    made, told = run(asked, batch=10, steps=200)
    since = told[-1].start
    drawn = Counter(PART[at] for step in made[since:] for at in step)
    total = 10 * (200 - since)
    assert drawn == pytest.approx({"a": 0.15 * total, "b": 0.15 * total, "c": 0.7 * total}, abs=2)


def test_a_part_at_the_floor_is_asked_even_where_phases_are_too_short_for_it():
    """One prompt a step and a decision after each: b, which teaches nothing, is due once in ten steps."""
    asked = curriculum(every=1, adaptive={"floor": 0.3})
    made, _ = run(asked, able=lambda step, part: 0.5 if part == "a" else 0.0, batch=1, steps=200)
    drawn = Counter(PART[at] for (at,) in made[50:])
    assert drawn == pytest.approx({"a": 120, "b": 15, "c": 15}, abs=3)


def test_parts_that_are_solved_or_hopeless_give_way_to_the_one_that_teaches():
    _, told = run(KINDS["adaptive"], able=lambda step, part: {"a": 1.0, "b": 0.5, "c": 0.0}[part])
    assert told[-1].shares == pytest.approx({"a": 0.1, "b": 0.8, "c": 0.1})


def test_a_decision_that_comes_after_its_batches_stops_the_run():
    with pytest.raises(RuntimeError, match=r"part b begins at step \d+, but .* raise data\.curriculum\.lag"):
        run(KINDS["ladder"], ahead=LAG + 1)


def test_a_step_is_added_once_and_in_its_turn():
    found = GroupScores(KINDS["ladder"], PARTS)
    found.add(0, [])
    for step in (0, 2):
        with pytest.raises(RuntimeError, match=f"groups of step {step} were added when those of step 1 were due"):
            found.add(step, [])


def test_a_checkpoint_of_another_kind_of_curriculum_is_refused():
    state = GroupScores(KINDS["ladder"], PARTS).state()
    GroupScores(KINDS["staged"], PARTS).restore(state)
    with pytest.raises(ValueError, match=r"got adaptive; allowed: stages or ladder, .*; set it as it was, or"):
        GroupScores(KINDS["adaptive"], PARTS).restore(state)


def test_a_group_teaches_if_its_rewards_differ_by_more_than_rounding():
    assert not Group(0, "a", [1, 1], [0.1 + 0.2, 0.3]).teaches
    assert Group(0, "a", [1, 0.9], [0.3, 0.31]).teaches


def test_the_log_tells_of_each_part_what_its_groups_teach():
    groups = [
        Group(0, "b", [1.0, 0.0], [2.0, 1.0]), Group(1, "b", [0.5, 0.5], [0.5, 0.5]), Group(2, "a", [1, 1], [1, 1])
    ]  # fmt: skip
    assert dict(group_metrics(groups)) == {
        "teaching/a": 0.0, "primary/a": 1.0, "reward/a": 1.0, "spread/a": 0.0,
        "teaching/b": 0.5, "primary/b": 0.5, "reward/b": 1.0, "spread/b": 0.25,
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["staged", "ladder", "adaptive"])
def test_every_puzzle_of_a_run_is_among_those_that_it_may_ask(kind):
    order = CurriculumOrder(KINDS[kind], POSITIONS, 8, 7, GroupScores(KINDS[kind], PARTS).scores)
    made, _ = run(KINDS[kind], steps=60)
    assert not order.decided
    assert {at for step in made for at in step} <= set(order.positions(60))
    assert {PART[at] for step in made for at in step} <= {PART[at] for step in order.possible_steps(60) for at in step}
