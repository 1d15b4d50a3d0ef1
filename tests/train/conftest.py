"""Recipes and trainers of the real mixed grid, made small: tiny models, small pieces, few examples."""

from collections.abc import Callable
from pathlib import Path

import pytest
from transformers import set_seed

from data_mix.curriculum import training_order
from data_mix.mixture import training_mixture
from data_mix.photos import find_photos
from data_mix.scores import Scores
from models.load import load_model
from models.towers import load_dtype, train_towers
from recipes.loader import load_recipe
from recipes.schema import Recipe
from train.arguments import sft_arguments
from train.balance import step_batches
from train.check import example_costs, measure_examples, num_steps
from train.packing import packs
from train.trainer import PuzzleTrainer
from train.weighting import PartWeights

GRIDS = (4, 8, 12, 16)


@pytest.fixture
def mixed_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Recipe]:
    """`mixed_recipe(model, *overrides)`: the mixed_grid recipe with two small puzzles of each grid."""
    monkeypatch.chdir(tmp_path)

    def build(model: str, *overrides: str) -> Recipe:
        small = [
            f"data.parts.{n}x{n}.{key}" for n in GRIDS for key in ("spec.piece_px=8", "spec.tab_ratio=0.3", "count=2")
        ]
        return load_recipe(
            [
                "recipe=mixed_grid", f"model={model}", *small,
                "data.photos.use=reuse", "train.effective_batch=8", "train.workers=0", "train.precision=fp32",
                "train.batching=plain",
                "trainer.max_steps=1", "wandb.mode=disabled", f"output_dir={tmp_path / 'run'}", *overrides,
            ]
        )  # fmt: skip

    return build


@pytest.fixture
def trainer_of() -> Callable[[Recipe], PuzzleTrainer]:
    """`trainer_of(recipe)`: the trainer that train/sft.py would build for it, on one process."""

    def build(recipe: Recipe) -> PuzzleTrainer:
        mixture = training_mixture(recipe, find_photos(recipe.data.photos))
        loaded = load_model(recipe.model, seed=0, dtype=load_dtype(recipe.train))
        set_seed(0)
        loaded = train_towers(loaded, recipe.train)
        args, scores = sft_arguments(recipe, processes=1), Scores()
        order = training_order(recipe, mixture, scores)
        steps = num_steps(len(mixture), recipe.train.effective_batch, args.num_train_epochs, args.max_steps)
        measured = measure_examples(loaded, mixture, range(len(mixture)), rank=0, processes=1)
        batches = step_batches(recipe, order, steps, 1, example_costs(measured, order), packed=packs(recipe, loaded))
        return PuzzleTrainer(recipe, loaded, mixture, batches, PartWeights(recipe, scores), args)

    return build
