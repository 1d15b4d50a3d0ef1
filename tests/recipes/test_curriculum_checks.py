"""Curricula and loss weights that could not be followed are told, each in one line."""

import re

import pytest

from recipes.loader import RecipeError, load_recipe

GRPO = ("reward={}", "train.batching=plain")
SHAPE = re.compile(r"[^:]+: got .+; allowed: .+; (do|did) .+")


def problems(*overrides):
    with pytest.raises(RecipeError) as refused:
        load_recipe(["recipe=mixed_grid", *overrides])
    return refused.value.problems


def stages(text):
    return f"data.curriculum={{stages: {{{text}}}}}"


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["data.curriculum={stages: {}}"], "data.curriculum.stages: got {}; allowed: a mapping with at least 1 entry"),
        ([stages("a: {shares: {}}")], "data.curriculum.stages.a.shares: got {}; allowed: a mapping with at least 1"),
        ([stages("a: {shares: {4x4: 0}}")], "data.curriculum.stages.a.shares.4x4: got 0; allowed: a number > 0"),
        (
            [stages("a: {shares: {4x5: 1}}")],
            "data.curriculum.stages.a.shares.4x5: got an unknown part; allowed: 4x4, 8x8, 12x12, 16x16; do ",
        ),
        (
            [stages("a: {shares: {4x4: 1}, until: {5x5: 1}}, b: {shares: {4x4: 1}}"),
             "eval.parts={2x2: {task: jigshape, spec: {grid: 2}, count: 1}}"],
            "data.curriculum.stages.a.until.5x5: got an unknown part; allowed: 2x2; do remove it, ",
        ),
        ([stages("a: {shares: {4x4: 1}, steps: 3}")], "data.curriculum.stages.a: got an end; allowed: neither"),
        (
            [stages("a: {shares: {4x4: 1}}, b: {shares: {8x8: 1}}")],
            "data.curriculum.stages.a: got no end; allowed: steps, until or both; do say when",
        ),
        (
            [stages("a: {shares: {4x4: 1}, until: {4x4: 0.5}}, b: {shares: {8x8: 1}}"), "eval.count=0"],
            'data.curriculum.stages.a.until: got {"4x4": 0.5}; allowed: null where eval.count is 0',
        ),
        (["data.curriculum={}"], "data.curriculum: got neither of them; allowed: exactly one of stages, ladder and"),
        (
            [*GRPO, "data.curriculum={adaptive: {}, ladder: {parts: [4x4, 8x8]}}"],
            "data.curriculum: got ladder and adaptive; allowed: exactly one of stages, ladder and adaptive",
        ),
        (
            ["data.curriculum={adaptive: {}}"],
            "data.curriculum.adaptive: got a value; allowed: null in a recipe without reward",
        ),
        (
            ["data.curriculum={ladder: {parts: [4x4, 8x8]}}"],
            "data.curriculum.ladder: got a value; allowed: null in a recipe without reward",
        ),
        (
            [stages("a: {shares: {4x4: 1}}"), "data.curriculum.groups.every=3"],
            "data.curriculum.groups: got a value; allowed: null in a recipe without reward",
        ),
        (["data.refill_tries=2"], "data.refill_tries: got 2; allowed: 0 in a recipe without reward"),
        (
            [*GRPO, "data.curriculum={ladder: {parts: [4x4]}}"],
            'data.curriculum.ladder.parts: got ["4x4"]; allowed: a list of at least 2, each text; do',
        ),
        (
            [*GRPO, "data.curriculum={ladder: {parts: [4x4, 8x9]}}"],
            'data.curriculum.ladder.parts: got an unknown part "8x9"; allowed: 4x4, 8x8, 12x12, 16x16; did',
        ),
        (
            [*GRPO, "data.curriculum={ladder: {parts: [4x4, 8x8, 4x4]}}"],
            'data.curriculum.ladder.parts: got "4x4" twice; allowed: each part once',
        ),
        (
            [*GRPO, "data.curriculum={ladder: {parts: [4x4, 8x8], up: 0.5, down: 0.5}}"],
            "data.curriculum.ladder.down: got 0.5; allowed: less than up, 0.5",
        ),
        (
            [*GRPO, "data.curriculum={ladder: {parts: [4x4, 8x8], replay: 1}}"],
            "data.curriculum.ladder.replay: got 1; allowed: a number",
        ),
        (
            [*GRPO, "data.curriculum={adaptive: {floor: 0}}"],
            "data.curriculum.adaptive.floor: got 0; allowed: a number",
        ),
        (
            [*GRPO, "data.curriculum={adaptive: {}}", *(f"data.parts.{n}x{n}=null" for n in (8, 12, 16))],
            "data.curriculum.adaptive: got a value; allowed: null where there is one part",
        ),
        (
            [*GRPO, stages("a: {shares: {4x4: 1}, until: {8x8: 0.5}}, b: {shares: {8x8: 1}}")],
            "data.curriculum.stages.a.until.8x8: got a part without a share; allowed: 4x4: a stage that never asks",
        ),
        (
            ["train.inverse_accuracy.adaptive=true"],
            "train.inverse_accuracy.adaptive: got a value; allowed: nothing where train.weighting=equal",
        ),
        (
            ["train.weighting=inverse_accuracy"],
            "train.inverse_accuracy: got nothing; allowed: accuracy, records or adaptive: true",
        ),
        (
            ["train.weighting=inverse_accuracy", "train.inverse_accuracy={accuracy: {4x4: 1}, records: x}"],
            "train.inverse_accuracy: got accuracy and records; allowed: one of them",
        ),
        (
            ["train.weighting=inverse_accuracy", "train.inverse_accuracy.accuracy={4x4: 0.5, 8x8: 0, 12x12: 0}"],
            "train.inverse_accuracy.accuracy: got nothing for 16x16; allowed: a number from 0 to 1",
        ),
        (
            ["recipe=weighted_sft", "data.parts.16x16=null"],
            "train.inverse_accuracy.accuracy.16x16: got an unknown part; allowed: 4x4, 8x8, 12x12; do remove it,",
        ),
        (
            ["recipe=weighted_sft", "train.inverse_accuracy.accuracy={4x4: 1, 8x8: 1, 12x12: 1, 16x16: 1}"],
            'train.inverse_accuracy.accuracy: got {"4x4": 1.0, "8x8": 1.0',
        ),
        (
            ["recipe=weighted_sft", "train.inverse_accuracy.adaptive=true", "eval.count=0"],
            "train.inverse_accuracy.adaptive: got true; allowed: false where eval.count is 0",
        ),
        (
            ["recipe=weighted_sft", "train.inverse_accuracy.adaptive=true",
             "eval.parts={4x4: {task: jigshape, spec: {grid: 4}, count: 1}}"],
            "train.inverse_accuracy.adaptive: got true; allowed: false unless every training part is",
        ),
    ],
)  # fmt: skip
def test_what_could_not_be_followed_is_told(overrides, said):
    found = problems(*overrides)
    assert [line for line in found if line.startswith(said)] == found != []
    assert all(SHAPE.fullmatch(line) for line in found)


def test_a_grpo_recipe_without_evaluations_may_have_stages_that_its_groups_end():
    text = "a: {shares: {4x4: 1}, until: {4x4: 0.5}}, b: {shares: {8x8: 1}}"
    loaded = load_recipe(["recipe=mixed_grid", *GRPO, "eval.count=0", "data.refill_tries=2", stages(text)])
    assert loaded.data.curriculum.stages["a"].until == {"4x4": 0.5}


@pytest.mark.parametrize("kind", ["adaptive: {}", "ladder: {parts: [4x4, 8x8], down: 0.3}"])
def test_a_grpo_recipe_may_have_the_kinds_that_groups_decide(kind):
    loaded = load_recipe(["recipe=mixed_grid", *GRPO, f"data.curriculum={{{kind}}}"])
    assert loaded.data.curriculum.stages is None


@pytest.mark.parametrize("recipe", ["weighted_sft", "mixed_grid_curriculum"])
def test_the_recipes_are_sound_and_keep_the_published_values(recipe):
    loaded = load_recipe([f"recipe={recipe}"])
    assert loaded.train.effective_batch == 64
    assert loaded.trainer["learning_rate"] == 1e-5
    if recipe == "weighted_sft":
        assert sum(part.count for part in loaded.data.parts.values()) == 20_000
        assert loaded.trainer["num_train_epochs"] == 3
