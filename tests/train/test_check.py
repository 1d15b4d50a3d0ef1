"""What is refused or told before the first step."""

import re

import pytest
import torch

from data_mix.mixture import training_mixture
from data_mix.photos import find_photos
from models.load import load_model
from recipes.loader import load_recipe
from recipes.schema import Curriculum
from train.arguments import accumulation_steps
from train.check import check_lag, check_lengths, idle_decisions, measure_examples, num_steps

GRPO = ("reward={}", "train.batching=plain")


def quickstart(*overrides):
    return load_recipe(["recipe=quickstart", "wandb.mode=disabled", *overrides])


def test_the_mixed_grid_takes_102_steps():
    recipe = load_recipe(["recipe=mixed_grid"])
    examples = sum(part.count for part in recipe.data.parts.values())
    assert examples == 6500
    assert num_steps(examples, recipe.train.effective_batch, 1, max_steps=-1) == 102


@pytest.mark.parametrize(("micro", "processes", "steps"), [(1, 1, 64), (2, 8, 4), (8, 8, 1)])
def test_the_effective_batch_is_kept_by_accumulation(micro, processes, steps):
    recipe = load_recipe(["recipe=mixed_grid", "train.batching=plain", f"train.micro_batch={micro}"])
    assert accumulation_steps(recipe, processes) == steps


@pytest.mark.parametrize(
    ("micro", "processes", "advice"),
    [
        (4, 3, "= 12; set train.effective_batch=60"),
        (64, 2, "= 128; set train.micro_batch=32"),
        (64, 8, "micro_batch=8"),
    ],
)
def test_an_effective_batch_that_cannot_be_kept_is_refused_with_what_can(micro, processes, advice):
    recipe = load_recipe(["recipe=mixed_grid", "train.batching=plain", f"train.micro_batch={micro}"])
    with pytest.raises(ValueError, match=re.escape(advice)):
        accumulation_steps(recipe, processes)


def test_a_run_without_steps_is_refused():
    with pytest.raises(ValueError, match="num_train_epochs: got 0"):
        num_steps(100, 10, 0.0, max_steps=-1)


@pytest.mark.parametrize(
    ("lag", "micro_steps", "workers", "needed"),
    [(5, 1, 2, None), (4, 1, 2, 5), (2, 4, 2, None), (1, 4, 2, 2), (1, 1, 0, None)],
)
def test_a_lag_that_the_data_loader_would_outrun_is_refused(lag, micro_steps, workers, needed):
    stages = {"a": {"shares": {"x": 1}, "until": {"x": 1}}, "b": {"shares": {"x": 1}}}
    curriculum = Curriculum.model_validate({"stages": stages, "lag": lag})
    if needed is None:
        check_lag(curriculum, micro_steps, workers, prefetch=2)
        return
    with pytest.raises(ValueError, match=f"got {lag}, but {workers} workers .* set data.curriculum.lag={needed} or"):
        check_lag(curriculum, micro_steps, workers, prefetch=2)


def test_a_curriculum_by_step_needs_no_lag():
    check_lag(None, 1, 2, prefetch=2)
    stages = {"a": {"shares": {"x": 1}, "steps": 1}, "b": {"shares": {"x": 1}}}
    check_lag(Curriculum.model_validate({"stages": stages, "lag": 1}), 1, 2, prefetch=2)


@pytest.mark.parametrize(
    ("overrides", "steps", "told"),
    [
        ([], 1, []),
        (["train.weighting=inverse_accuracy", "train.inverse_accuracy.adaptive=true"], 26, []),
        (
            ["train.weighting=inverse_accuracy", "train.inverse_accuracy.adaptive=true"],
            25,
            ["evaluation is after step"],
        ),
        (["recipe=mixed_grid_curriculum"], 102, []),
        ([*GRPO, "data.curriculum={adaptive: {}}"], 14, []),
        ([*GRPO, "data.curriculum={adaptive: {}}"], 13, ["its first decision holds from step 13 on, of 13"]),
        (  # its groups decide, every 5 steps
            ["recipe=mixed_grid_curriculum", *GRPO],
            14,
            ["stage middle lasts to the end: the next begins at step 23, of 14"],
        ),
        (["recipe=mixed_grid_curriculum"], 27, ["stage middle lasts to the end: the next begins at step 28, of 27"]),
        (["recipe=mixed_grid_curriculum"], 18, ["stage small lasts to the end: the next begins at step 18, of 18"]),
    ],
)
def test_a_choice_by_score_that_comes_too_late_is_told(overrides, steps, told):
    lines = idle_decisions(load_recipe(["recipe=mixed_grid", *overrides]), steps)
    assert len(lines) == len(told)
    assert all(said in line for said, line in zip(told, lines, strict=True))


def test_an_example_that_does_not_fit_is_named_with_the_length_it_needs(in_tmp_path):
    recipe = quickstart("model.max_tokens=60")
    mixture = training_mixture(recipe, find_photos(recipe.data.photos))
    loaded = load_model(recipe.model, seed=0, dtype=torch.float32)
    with pytest.raises(
        ValueError, match=r"model\.max_tokens: got 60, but 5 of 5 .* of part 2x2 \(jigshape-\w+\)"
    ) as told:
        check_lengths(loaded, mixture, measure_examples(loaded, mixture, range(5), rank=0, processes=1))
    needed = int(str(told.value).rpartition("set model.max_tokens=")[2].split()[0])
    loaded = load_model(quickstart(f"model.max_tokens={needed}").model, seed=0, dtype=torch.float32)
    check_lengths(loaded, mixture, measure_examples(loaded, mixture, range(5), rank=0, processes=1))
