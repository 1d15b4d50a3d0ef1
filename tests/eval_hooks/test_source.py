"""Models told apart by what is in them."""

import shutil

import pytest
import torch
from safetensors.torch import save_file

from eval_hooks.source import digest, source_of


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model").mkdir()
    weights = torch.arange(500_000, dtype=torch.float32)
    save_file({"w": weights}, tmp_path / "model" / "model.safetensors")
    return tmp_path / "model"


def test_a_copy_is_the_same_and_other_weights_are_not(folder, tmp_path, recipe_of):
    shutil.copytree(folder, tmp_path / "copy" / "model")
    found = source_of(str(folder), recipe_of())
    assert source_of(str(tmp_path / "copy/model"), recipe_of()) == found
    save_file({"w": torch.arange(500_000, dtype=torch.float32) + 1}, folder / "model.safetensors")
    assert source_of(str(folder), recipe_of()) != found


@pytest.mark.parametrize("place", [0, 250_000, 499_999])
def test_a_step_that_moves_all_weights_a_little_is_seen(place, folder):
    before = digest(folder)
    moved = torch.arange(500_000, dtype=torch.float32)
    moved[max(0, place - 8_000) : place + 8_000] += 0.5
    save_file({"w": moved}, folder / "model.safetensors")
    assert digest(folder) != before


def test_an_adapter_is_told_with_its_base_and_a_hub_model_with_its_revision(folder, recipe_of):
    (folder / "adapter_config.json").write_text("{}")
    assert source_of(str(folder), recipe_of()) == {"weights": digest(folder), "base": "quickstart"}
    assert source_of("some/model", recipe_of()) == {"hub": "some/model@main"}
