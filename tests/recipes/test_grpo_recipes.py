"""The shipped GRPO recipes: what each is, and that runs which follow each other fit together."""

import pytest

from recipes.loader import load_recipe, recipe_names

NAMES = ("grpo_curriculum", "grpo_from_sft", "grpo_pa_sc", "quickstart_grpo")


def test_those_with_grpo_in_their_name_have_a_reward_and_no_others():
    assert tuple(name for name in recipe_names() if load_recipe([f"recipe={name}"]).reward is not None) == NAMES
    assert {name for name in recipe_names() if "grpo" in name} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_one_has_the_safe_reward_whole_groups_and_an_end(name):
    recipe = load_recipe([f"recipe={name}"])
    assert recipe.reward.weights == {"pa": 1.0, "sc": 0.125, "correct": 1.0, "valid": 0.05}
    assert not recipe.reward.accept_unsafe_weights
    assert recipe.train.effective_batch % recipe.trainer["num_generations"] == 0
    assert recipe.trainer["max_steps"] >= 2 * recipe.train.checkpoint_every
    assert recipe.train.batching == "plain"


@pytest.mark.parametrize("name", NAMES[:3])
@pytest.mark.parametrize("model", ["gemma3_12b", "tiny_qwen3_vl", "tiny_gemma3"])
def test_both_families_take_the_recipes_for_the_published_grids(name, model):
    assert load_recipe([f"recipe={name}", f"model={model}"]).model.name == model


def test_the_mixture_of_pa_and_sc_is_of_4x4_and_8x8_trained_in_full_or_as_an_adapter():
    recipe = load_recipe(["recipe=grpo_pa_sc"])
    assert {name: part.spec for name, part in recipe.data.parts.items()} == {"4x4": {"grid": 4}, "8x8": {"grid": 8}}
    assert recipe.train.method == "full"
    assert recipe.trainer["learning_rate"] == 1e-6
    assert load_recipe(["recipe=grpo_pa_sc", "train.method=lora"]).train.methods()["language"] == "lora"


def test_the_curriculum_follows_what_groups_of_all_four_grids_can_teach():
    recipe = load_recipe(["recipe=grpo_curriculum"])
    assert list(recipe.data.parts) == ["4x4", "8x8", "12x12", "16x16"]
    assert recipe.data.curriculum.adaptive.floor == 0.2


def test_grpo_goes_on_with_the_last_adapter_of_mixed_grid_lora():
    recipe, earlier = load_recipe(["recipe=grpo_from_sft"]), load_recipe(["recipe=mixed_grid_lora"])
    examples = sum(part.count for part in earlier.data.parts.values())
    last = -(-examples // earlier.train.effective_batch)
    assert recipe.train.start == f"{earlier.output_dir}/checkpoint-{last}"
    assert (recipe.train.method, recipe.train.lora, recipe.train.towers) == (
        "lora", earlier.train.lora, earlier.train.towers,
    )  # fmt: skip
    assert recipe.model == earlier.model
    assert recipe.data.photos == earlier.data.photos


def test_the_tiny_one_goes_on_with_the_quickstart_on_the_same_puzzles():
    recipe, earlier = load_recipe(["recipe=quickstart_grpo"]), load_recipe(["recipe=quickstart"])
    assert (recipe.model, recipe.data) == (earlier.model, earlier.data)
    assert recipe.trainer["num_generations"] * 16 == recipe.train.effective_batch
    assert recipe.eval == earlier.eval
