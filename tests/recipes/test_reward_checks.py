"""Rewards that can be gamed, or that leave a part with nothing to earn, are told, each in one line."""

import pytest

from recipes.loader import load_recipe, to_yaml, usage

SKILL = "data.parts.edges={task: piece_edges, spec: {puzzle: {grid: 4}}, count: 3}"
CLUED = "data.parts.clued={task: jigshape, spec: {grid: 4, clues: 4}, count: 3}"
NO_SHAPE = "data.parts.plain={task: jigshape, spec: {grid: 4, shape: false}, count: 3}"


def test_without_a_reward_nothing_is_rewarded(small):
    assert load_recipe([f"recipe={small}"]).reward is None


def test_the_default_weights_are_safe_for_every_grid_and_cover_what_ranks_the_tasks(small):
    parts = [f"data.parts.g{n}={{task: jigshape, spec: {{grid: {n}, piece_px: 48}}, count: 1}}" for n in range(2, 33)]
    reward = load_recipe([f"recipe={small}", "reward={}", *parts, SKILL, CLUED, NO_SHAPE]).reward
    assert reward.weights == {"pa": 1.0, "sc": 0.125, "correct": 1.0, "valid": 0.05}
    assert not reward.accept_unsafe_weights


def test_any_entry_of_the_parts_tasks_can_be_weighted_and_survives_the_resolved_recipe(small, in_tmp_path):
    recipe = load_recipe([f"recipe={small}", "reward.em=0.5", "reward.sc=0", SKILL, "reward.edges=1"])
    assert recipe.reward.weights == {"pa": 1.0, "sc": 0.0, "correct": 1.0, "valid": 0.05, "em": 0.5, "edges": 1.0}
    (in_tmp_path / "again.yaml").write_text(to_yaml(recipe), encoding="utf-8")
    assert load_recipe(["recipe=again.yaml"]) == recipe


UNSAFE = "do change the weights, or set reward.accept_unsafe_weights=true"


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (
            ["reward.ema=1"],
            ["reward.ema: got an unknown score entry; allowed: pa, em, aa, sc, aa_oriented, valid, pa_lenient, "
             "pa_corner, pa_border, pa_interior; did you mean em?"],
        ),
        (["reward.pa=-1"], ["reward.pa: got -1; allowed: a number >= 0; do change reward.pa"]),
        (["reward.em=yes"], ['reward.em: got "yes"; allowed: a number >= 0; do write em as a number, without quotes '
                             "or other characters"]),
        (
            ["reward.sc=0.15"],
            ['reward: got {"pa": 1.0, "sc": 0.15, "valid": 0.05} for part 2x2; allowed: pa at least 8 times sc, at '
             f"grid 2; {UNSAFE}"],
        ),
        (
            ["reward.sc=0.1", "reward.aa=0.1"],
            [f'reward: got {{"pa": 1.0, "sc": 0.1, "valid": 0.05, "aa": 0.1}} for part {n}x{n}; allowed: pa at least '
             f"{ratio} times sc + aa, at grid {n}; {UNSAFE}" for n, ratio in ((2, "8"), (4, "5.333"))],
        ),
        (
            ["data.parts.2x2=null", "reward.valid=0.2"],
            ['reward: got {"pa": 1.0, "sc": 0.125, "valid": 0.2} for part 4x4; allowed: valid at most 0.1 of what a '
             f"right answer earns besides, 0.1125; {UNSAFE}"],
        ),
        (
            [SKILL, "reward.correct=0"],
            ['reward: got {"valid": 0.05} for part edges; allowed: a weight for one of correct, edges there; do set '
             "reward.correct=1, or leave the part out"],
        ),
        (
            [CLUED, NO_SHAPE, "data.parts.2x2=null", "data.parts.4x4=null", "reward={pa: 0, aa: 1}",
             "reward.accept_unsafe_weights=true"],
            ['reward: got {"valid": 0.05} for part clued; allowed: a weight for one of pa, em, pa_lenient there; do '
             "set reward.pa=1, or leave the part out"],
        ),
    ],
)  # fmt: skip
def test_a_reward_that_cannot_be_trained_on_is_refused(problems, overrides, told):
    assert problems("reward={}", *overrides) == told


def test_unsafe_weights_can_be_accepted(small):
    words = [f"recipe={small}", "reward.sc=1", "reward.valid=1", "reward.accept_unsafe_weights=true"]
    assert load_recipe(words).reward.weights["sc"] == 1


def test_the_bound_is_that_of_the_smallest_grid_there_is(small):
    assert load_recipe([f"recipe={small}", "data.parts.2x2=null", "reward.sc=0.1875"]).reward.weights["sc"] == 0.1875


def test_a_part_that_is_refused_itself_is_passed_over(problems):
    found = problems("reward.sc=0.1", "data.parts.4x4.task=jigsaw", "data.parts.2x2.spec.grid=1")
    assert [line.partition(":")[0] for line in found] == ["data.parts.2x2.spec.grid", "data.parts.4x4.task"]


def test_help_lists_the_entries_with_weights_and_that_there_are_others():
    lines = usage().splitlines()
    assert "  reward.sc: a number >= 0 [0.125]" in lines
    assert "  reward.NAME: a number >= 0" in lines
