"""Rules over a run's log: quiet on runs that learn, and on each thing that goes wrong exactly the alarm for it."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from train.alarm_rules import RULES, WINDOW, Watch

CHANCE = {"2x2": 0.25, "3x3": 1 / 9}
FORM, GAMED, FAR, COLLAPSED, NO_SPREAD, LENGTHS = RULES
STEPS = 200
SEEDS = range(8)


def run_log(seed=0, steps=STEPS, **given):
    """Log entries of a run that stays where it is, at 60 % on 2x2, but for what is given: a value, or one per step.

    The noise is that of 64 completions per step. `reward` follows from primary, sc and valid as by default.
    """
    rng = np.random.default_rng(seed)
    usual = {"primary": 0.6, "sc": 0.5, "valid": 0.99, "entropy": 0.2, "kl": 0.02, "length": 26.0, "cut": 0.01}
    noise = {"primary": 0.04, "sc": 0.03, "valid": 0.005, "entropy": 0.01, "kl": 0.004, "length": 0.2, "cut": 0.005}
    usual |= {"no_spread": 0.2}
    noise |= {"no_spread": 0.05}
    curves = {name: np.broadcast_to(given.get(name, value), steps) for name, value in usual.items()}
    noisy = {
        name: np.maximum(curve + noise[name] * rng.standard_normal(steps) * (curve > 0), 0)
        for name, curve in curves.items()
    }
    for name in ("primary", "sc", "valid", "cut", "no_spread"):
        noisy[name] = np.minimum(noisy[name], 1.0)
    part = np.broadcast_to(given.get("part", "2x2"), steps)
    entries = []
    for step in range(steps):
        of = {name: float(values[step]) for name, values in noisy.items()}
        primary, sc = of["primary"] * of["valid"], of["sc"] * of["valid"]
        entries.append(
            {
                "step": step + 1,
                "reward": primary + given.get("sc_weight", 0.125) * sc + 0.05 * of["valid"],
                "reward_std": 0.3,
                "frac_reward_zero_std": of["no_spread"],
                "entropy": of["entropy"],
                "kl": of["kl"],
                "completions/mean_length": of["length"],
                "completions/clipped_ratio": of["cut"],
                "invalid/truncated": (1 - of["valid"]) / 2,
                "invalid/ended": (1 - of["valid"]) / 2,
                f"primary/{part[step]}": primary,
                f"spread/{part[step]}": 0.2,
                f"teaching/{part[step]}": 1 - of["no_spread"],
                f"share/{part[step]}": 1.0,
            }
        )
    return entries


def told(entries, chance=CHANCE):
    """[(step, title)] of all alarms."""
    watch = Watch(chance)
    return [(entry["step"], alarm.title) for entry in entries for alarm in watch.add(entry)]


def rising(start, end, steps=STEPS):
    """From start to end along an S, half way there in the middle."""
    return start + (end - start) / (1 + np.exp(-np.linspace(-5, 5, steps)))


def learns(start=0.25, end=0.95, steps=STEPS):
    """What goes with a primary score that rises: edges fit, entropy and spread go, the policy leaves its start."""
    primary = rising(start, end, steps)
    return {
        "primary": primary,
        "sc": 0.25 + 0.75 * primary**0.5,
        "entropy": 0.25 * (1 - primary) + 0.005,
        "kl": 0.15 * (primary - start),
        "no_spread": primary**8,
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_that_learns_is_left_alone(seed):
    assert told(run_log(seed, **learns())) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_that_solves_everything_and_goes_on_is_left_alone(seed):
    curves = {name: np.append(curve, np.full(STEPS, curve[-1])) for name, curve in learns(end=1.0).items()}
    assert told(run_log(seed, 2 * STEPS, **curves)) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_that_neither_learns_nor_forgets_is_left_alone(seed):
    assert told(run_log(seed, 1000)) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_that_first_learns_the_form_is_left_alone(seed):
    learnt = rising(0.05, 0.98, 100)
    form = {
        "valid": np.append(learnt, np.full(100, 0.98)),
        "length": np.append(100 - 74 * learnt, np.full(100, 27.0)),
        "cut": np.append(0.7 * (1 - learnt), np.full(100, 0.01)),
    }
    primary = np.append(np.full(80, 0.25), rising(0.25, 0.9, 120))
    assert told(run_log(seed, primary=primary, **form)) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_curriculum_that_turns_to_a_harder_part_is_left_alone(seed):
    both = [learns(0.25, 0.85), learns(1 / 9, 0.6)]
    curves = {name: np.concatenate([each[name] for each in both]) for name in both[0]}
    part = np.repeat(["2x2", "3x3"], STEPS)
    length = np.repeat([26.0, 59.0], STEPS)
    assert told(run_log(seed, 2 * STEPS, part=part, length=length, **curves)) == []


def test_a_curriculum_that_turns_to_an_easier_part_is_not_gaming():
    log = run_log(part=np.repeat(["3x3", "2x2"], STEPS // 2), primary=0.5, sc=np.repeat([0.1, 0.9], STEPS // 2))
    assert told(log) == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("title", "curves"),
    [
        (FORM, {"primary": 0.25, "valid": 0.98}),
        (FORM, {"primary": 0.0, "sc": 0.0, "valid": 1.0}),
        (GAMED, {"primary": 0.3, "sc": rising(0.3, 0.95), "sc_weight": 1.0}),
        (GAMED, {"primary": 0.14, "sc": rising(0.3, 0.95)}),
        (GAMED, {"primary": rising(0.5, 0.3), "sc": rising(0.2, 0.9), "sc_weight": 1.0}),
        (FAR, {"kl": rising(0.02, 1.5)}),
        (COLLAPSED, {"entropy": rising(0.25, 0.0)}),
        (NO_SPREAD, {"no_spread": rising(0.2, 0.95)}),
        (LENGTHS, {"length": rising(26, 60)}),
        (LENGTHS, {"length": rising(26, 12)}),
        (LENGTHS, {"cut": rising(0.01, 0.3)}),
    ],
)
def test_each_thing_that_goes_wrong_is_told_once_and_nothing_else(title, curves, seed):
    chance = {"2x2": 0.0625} if title == GAMED else CHANCE
    assert [found for _, found in told(run_log(seed, **curves), chance)] == [title]


def test_gaming_that_begins_after_a_time_of_learning_is_found():
    learnt, gamed = rising(0.25, 0.7, 100), np.full(100, 0.7)
    sc = np.append(np.full(100, 0.3), rising(0.3, 0.95, 100))
    log = run_log(primary=np.append(learnt, gamed), sc=sc, sc_weight=1.0)
    ((step, title),) = told(log)
    assert title == GAMED
    assert step > 100


def test_a_part_above_chance_is_enough_that_more_than_the_form_is_learnt():
    part = np.tile(["2x2", "3x3"], STEPS // 2)
    assert told(run_log(part=part, primary=np.tile([0.5, 1 / 9], STEPS // 2))) == []
    assert [title for _, title in told(run_log(part=part, primary=np.tile([0.25, 1 / 9], STEPS // 2)))] == [FORM]


def test_a_part_without_chance_is_at_chance_when_it_scores_nothing():
    assert [title for _, title in told(run_log(primary=0.0, sc=0.0), {})] == [FORM]


def test_who_was_unsure_at_the_start_may_go_farther():
    assert told(run_log(entropy=1.5, kl=1.0)) == []
    assert [title for _, title in told(run_log(entropy=0.2, kl=1.0))] == [FAR]


def test_one_odd_step_is_no_alarm():
    odd = {"kl": 1e6, "entropy": 0.0, "completions/mean_length": 200.0, "frac_reward_zero_std": 1.0, "reward": 5.0}
    log = run_log()
    log[100] |= odd
    assert told(log) == []


def test_what_goes_on_is_told_once_and_again_after_it_has_ended():
    high = np.concatenate([np.full(n, kl) for n, kl in [(40, 0.0), (80, 2.0), (80, 0.0), (40, 2.0)]])
    first, second = [step for step, title in told(run_log(steps=240, kl=high)) if title == FAR]
    assert 40 < first <= 40 + WINDOW
    assert 200 < second <= 200 + WINDOW


def test_a_short_pause_is_no_end():
    high = np.full(STEPS, 2.0)
    high[100:112] = 0.0
    assert [title for _, title in told(run_log(kl=high))] == [FAR]


def test_an_alarm_tells_when_what_came_what_is_usual_and_what_to_do():
    watch = Watch(CHANCE)
    (alarm,) = [alarm for entry in run_log(primary=0.25) for alarm in watch.add(entry)]
    assert alarm.text.startswith(f"steps {4 * WINDOW + 1} to {5 * WINDOW}: 99% of the answers are valid")
    assert "2x2 0.2" in alarm.text
    assert "(0.25)" in alarm.text
    assert "Usually " in alarm.text
    assert "Do begin from more SFT" in alarm.text


def test_titles_are_as_short_as_wandb_wants_them():
    assert all(len(title) < 64 for title in RULES)


def test_entries_of_evaluations_and_of_the_end_change_nothing():
    log = run_log(kl=rising(0, 2))
    among = [each for entry in log for each in (entry, {"step": entry["step"], "eval_reward": 0.0, "eval_kl": 9.0})]
    assert told([*among, {"step": STEPS, "train_runtime": 1.0}]) == told(log)


def test_whatever_a_log_leaves_out_its_other_alarms_stay():
    for key in run_log(steps=1)[0]:
        if key not in ("reward", "kl"):
            log = [{k: v for k, v in entry.items() if k != key} for entry in run_log(kl=2.0)]
            watch = Watch(CHANCE)
            assert [alarm.title for entry in log for alarm in watch.add(entry)] == [FAR], key


VALUES = st.none() | st.floats() | st.integers(-2, 2) | st.just("text")


@settings(max_examples=50, deadline=None)
@given(st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(run_log(steps=1)[0], VALUES)), max_size=50))
def test_no_log_makes_it_fail(entries):
    watch = Watch(CHANCE)
    for entry in entries * 3:
        watch.add(entry)


@pytest.mark.parametrize("nothing", [None, math.nan])
def test_a_log_without_values_raises_no_alarm(nothing):
    assert told([dict.fromkeys(entry, nothing) | {"step": entry["step"]} for entry in run_log()]) == []
