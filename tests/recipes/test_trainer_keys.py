import ast
import re

import pytest

from recipes.trainer_keys import OWNED, trainer_fields, trainer_problems
from train.trainer_fields import sft_config_fields


def test_the_list_is_that_of_the_installed_trl():
    assert trainer_fields() == sft_config_fields(), "run: python -m train.trainer_fields"


def test_every_owned_key_is_one_of_trl_s():
    assert sorted(set(OWNED) - set(trainer_fields())) == []


@pytest.mark.parametrize(
    "prefix", ["eval_", "save_", "fsdp", "ddp_", "hub_", "trackio_", "packing", "dataset_", "per_device_"]
)
def test_families_of_keys_are_owned_whole(prefix):
    assert [name for name in trainer_fields() if name.startswith(prefix) and name not in OWNED] == []


def test_what_the_script_sets_over_the_recipe_is_owned(request):
    tree = ast.parse((request.config.rootpath / "train" / "arguments.py").read_text(encoding="utf-8"))
    dicts = {
        node.targets[0].id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Dict)
    }
    assert {key.value for key in dicts["owned"].keys if isinstance(key, ast.Constant)} - set(OWNED) == set()


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("lerning_rate", 1, "trainer.lerning_rate: got an unknown name; .*did you mean learning_rate"),
        ("warmup_ratio", 0.1, "did you mean warmup_steps"),
        ("zzz", 1, "do use one of .*learning_rate"),
        ("max_length", 5, "trainer.max_length: got 5; allowed: nothing, the recipe owns it; do set model.max_tokens"),
        ("output_dir", "x", "do set output_dir"),
        ("gradient_accumulation_steps", 2, "do set train.effective_batch"),
        ("seed", 1, "do set seed"),
        ("learning_rate", "fast", 'got "fast"; allowed: a number; do change its type'),
        ("learning_rate", True, "got true; allowed: a number"),
        ("max_steps", 1e2, "got 100.0; allowed: a whole number; do write 100"),
        ("max_steps", None, "got null; allowed: a whole number"),
        ("optim", "adamw_torsh", "did you mean adamw_torch"),
        ("lr_scheduler_type", "linaer", "got \"linaer\"; allowed: linear .*did you mean linear"),
        ("gradient_checkpointing", "true", "allowed: true or false"),
    ],
)  # fmt: skip
def test_a_wrong_key_or_value_is_told(key, value, said):
    (line,) = trainer_problems({key: value})
    assert re.search(said, line), line


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("learning_rate", 1),
        ("num_train_epochs", 0.5),
        ("tf32", None),
        ("optim", "sgd"),
        ("lr_scheduler_kwargs", {"a": 1}),
    ],
)
def test_right_values_pass(key, value):
    assert trainer_problems({key: value}) == []
