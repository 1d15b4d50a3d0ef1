"""Models without weights: the published ones have their true sizes, and other sizes than stated are refused."""

import numpy as np
import pytest
import torch

from models.architecture import check_architecture, stated_config
from models.family import token_id
from models.outline import outline
from recipes.loader import load_recipe
from recipes.schema import Architecture


def published(name):
    return load_recipe(["recipe=mixed_grid", f"model={name}"]).model


@pytest.mark.parametrize(("name", "parameters"), [("qwen3_vl_8b", 8_767_123_696), ("gemma3_12b", 12_187_325_040)])
def test_the_published_models_have_their_true_number_of_parameters(name, parameters):
    model = outline(published(name)).loaded.model
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters
    assert {parameter.device.type for parameter in model.parameters()} == {"meta"}


@pytest.mark.parametrize("name", ["qwen3_vl_8b", "gemma3_12b"])
def test_what_is_not_known_here_is_said(name):
    found = outline(published(name))
    assert found.estimated_text
    assert len(found.notes) == 2


def test_nothing_is_estimated_of_a_model_from_scratch(model):
    found = outline(model)
    assert not found.estimated_text
    assert found.notes == []


@pytest.mark.parametrize(
    ("name", "grid", "tokens"),
    [
        *(("qwen3_vl_8b", *known) for known in ((4, 529), (8, 2304), (12, 5776), (16, 10712))),
        *(("gemma3_12b", grid, 256) for grid in (4, 8, 12, 16)),
    ],
)
def test_image_tokens_of_published_sheets_are_those_that_the_processor_writes(name, grid, tokens):
    loaded = outline(published(name)).loaded
    width, height = {4: (724, 744), 8: (1532, 1552), 12: (2416, 2436), 16: (3292, 3312)}[grid]
    sheet = np.zeros((height, width, 3), np.uint8)
    text = loaded.family.placeholder
    ids = loaded.processor(text=[text], images=[[sheet]], return_tensors="pt")["input_ids"]
    written = int((ids == token_id(loaded.processor, loaded.family.image_token)).sum())
    assert written == tokens
    assert loaded.family.image_tokens(loaded.processor, width, height) == tokens


def test_sizes_that_config_json_does_not_have_are_refused_together():
    model = published("qwen3_vl_8b")
    config = stated_config(model)
    check_architecture(model, config)
    config.text_config.num_hidden_layers, config.vision_config.depth = 28, 24
    with pytest.raises(ValueError, match=r"text.num_hidden_layers: got 36; allowed: 28(.|\n)*vision.depth: got 27"):
        check_architecture(model, config)


def test_a_misspelt_size_and_an_unknown_model_are_refused():
    model = published("qwen3_vl_8b")
    assert model.architecture is not None
    misspelt = Architecture(text={**model.architecture.text, "hiden_size": 1}, vision=model.architecture.vision)
    with pytest.raises(ValueError, match="hiden_size: got an unknown name"):
        stated_config(model.model_copy(update={"architecture": misspelt}))
    with pytest.raises(ValueError, match=r"model.architecture: got nothing.*hf download"):
        outline(model.model_copy(update={"architecture": None, "pretrained": "nobody/has-this"}))


def test_an_outline_takes_the_attention_that_needs_no_gpu(model):
    config = outline(model).loaded.model.config
    assert {config.text_config._attn_implementation, config.vision_config._attn_implementation} == {"sdpa"}
    assert config.get_text_config().dtype in (None, torch.float32)
