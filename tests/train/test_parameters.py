"""What trains, as optimizer groups and as a table, and what memory it needs."""

import re

import pytest
import torch

from models.load import load_model
from models.towers import load_dtype, train_towers
from recipes.loader import load_recipe
from train.parameters import describe_parameters, group_by_tower, learning_rates, training_state


def prepared(*overrides):
    recipe = load_recipe(["recipe=mixed_grid", "wandb.mode=disabled", *overrides])
    loaded = load_model(recipe.model, seed=0, dtype=load_dtype(recipe.train))
    return train_towers(loaded, recipe.train), learning_rates(recipe.train, 1e-3)


def table_of(*overrides):
    """(tower, how) -> the other cells of its row."""
    loaded, rates = prepared(*overrides)
    lines = describe_parameters(loaded.model, loaded.family, rates).splitlines()
    cells = [re.split(r"\s{2,}", line) for line in lines[1:-1]]
    return loaded, {(tower, how): rest for tower, how, *rest in cells}, lines[-1].split()


def test_the_table_has_a_row_for_each_tower_and_way():
    loaded, rows, total = table_of(
        "model=tiny_qwen3_vl", "train.method=lora", "train.lora.rank=4", "train.towers.projector.method=full",
        "train.towers.vision={method: lora, targets: [qkv], learning_rate: 5e-5}",
    )  # fmt: skip
    assert list(rows) == [
        ("language", "lora"), ("language", "frozen"), ("vision", "lora"), ("vision", "frozen"),
        ("projector", "full"), ("projector", "start"),
    ]  # fmt: skip
    assert rows["language", "lora"][0] == "2 x 7 linear layers, rank 4"
    num = 2 * 4 * (32 + 96)
    mib = f"{4 * num / 2**20:.2f} MiB"
    assert rows["vision", "lora"] == [
        "2 x 1 linear layers, rank 4", f"{num:,}", f"{num:,}", "float32", "5e-05", mib, mib,
        f"{8 * num / 2**20:.2f} MiB",
    ]  # fmt: skip
    assert rows["projector", "full"][1:5] == ["74,880", "74,880", "float32", "0.001"]
    assert rows["projector", "start"][1:5] == ["74,880", "0", "bfloat16", "-"]
    trained = sum(parameter.numel() for parameter in loaded.model.parameters() if parameter.requires_grad)
    assert total[:3] == ["all", f"{sum(p.numel() for p in loaded.model.parameters()):,}", f"{trained:,}"]


def test_the_table_of_full_towers_counts_each_parameter_once():
    loaded, rows, total = table_of("model=tiny_gemma3", "train.towers.vision.method=frozen")
    assert list(rows) == [("language", "full"), ("vision", "frozen"), ("projector", "full")]
    assert total[1] == f"{sum(parameter.numel() for parameter in loaded.model.parameters()):,}"
    assert rows["vision", "frozen"][-2:] == ["0", "0"]


@pytest.mark.parametrize("model", ["tiny_qwen3_vl", "tiny_gemma3"])
def test_every_trained_parameter_is_in_one_group_of_its_tower_with_its_rate_and_decay(model):
    loaded, rates = prepared(f"model={model}", "train.towers.vision.learning_rate=1e-4")
    named = dict(loaded.model.named_parameters())
    decay = [p for name, p in named.items() if p.dim() > 1]
    plain = [p for name, p in named.items() if p.dim() <= 1]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3)
    group_by_tower(optimizer, loaded.model, loaded.family, rates)
    found = {parameter: group for group in optimizer.param_groups for parameter in group["params"]}
    assert len(found) == sum(len(group["params"]) for group in optimizer.param_groups) == len(named)
    for name, parameter in named.items():
        group = found[parameter]
        assert group["lr"] == (1e-4 if loaded.family.tower_of(name) == "vision" else 1e-3)
        assert group["weight_decay"] == (0.1 if parameter.dim() > 1 else 0.0)
    assert [group["lr"] for group in optimizer.param_groups] == [1e-3, 1e-3, 1e-4, 1e-4, 1e-3, 1e-3]


def test_a_tower_without_a_rate_of_its_own_takes_the_trainers_and_a_frozen_one_has_none():
    recipe = load_recipe(["recipe=mixed_grid_lora", "train.towers.projector={method: full, learning_rate: 3e-5}"])
    assert learning_rates(recipe.train, 1e-4) == {"language": 1e-4, "projector": 3e-5}


def test_a_frozen_tower_needs_memory_for_its_weights_alone():
    loaded, _ = prepared("model=tiny_qwen3_vl", "train.towers.language.method=frozen")
    needed = sum(
        parameter.numel() * (2 if loaded.family.tower_of(name) == "language" else 16)
        for name, parameter in loaded.model.named_parameters()
    )
    assert training_state(loaded.model).total == needed
