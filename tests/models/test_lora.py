"""LoRA reaches the language tower's linear layers and nothing else, also in the real models."""

from __future__ import annotations

import re

import pytest
import torch
from transformers import Gemma3Config, Qwen3VLConfig

from models import FAMILIES
from models.load import Loaded
from models.lora import add_lora
from models.tokens import encode_prompt
from recipes.schema import Lora

QWEN3_VL_8B = Qwen3VLConfig(
    text_config={
        "vocab_size": 151936,
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 5e6,
            "mrope_section": [24, 20, 20],
            "mrope_interleaved": True,
        },
    },
    vision_config={
        "depth": 27,
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_heads": 16,
        "out_hidden_size": 4096,
        "num_position_embeddings": 2304,
        "deepstack_visual_indexes": [8, 16, 24],
    },
)
GEMMA3_12B = Gemma3Config(
    text_config={
        "vocab_size": 262208,
        "hidden_size": 3840,
        "intermediate_size": 15360,
        "num_hidden_layers": 48,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 256,
        "sliding_window": 1024,
    },
    vision_config={
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_hidden_layers": 27,
        "num_attention_heads": 16,
        "image_size": 896,
        "patch_size": 14,
        "vision_use_head": False,
    },
)


@pytest.mark.parametrize(
    ("family", "config", "parameters", "adapters", "layers"),
    [
        ("qwen3_vl", QWEN3_VL_8B, 8_767_123_696, 43_646_976, 36),
        ("gemma3", GEMMA3_12B, 12_187_325_040, 65_470_464, 48),
    ],
)
def test_adapters_of_the_real_models_have_the_known_size(family, config, parameters, adapters, layers):
    with torch.device("meta"):
        real = FAMILIES[family].model_class(config)
        assert sum(parameter.numel() for parameter in real.parameters()) == parameters
        adapted = add_lora(Loaded(None, FAMILIES[family], 1, real), Lora(rank=16)).model
    trainable = {name: parameter for name, parameter in adapted.named_parameters() if parameter.requires_grad}
    assert sum(parameter.numel() for parameter in trainable.values()) == adapters
    assert len(trainable) == layers * 7 * 2
    assert all(".language_model.layers." in name for name in trainable)


def test_every_linear_layer_of_the_language_tower_is_a_target_and_no_other(loaded):
    linear = {name for name, module in loaded.model.named_modules() if isinstance(module, torch.nn.Linear)}
    targets = {name for name in linear if re.fullmatch(loaded.family.lora_targets, name)}
    assert targets == {name for name in linear if ".language_model." in name}


def test_adapters_are_fp32_on_a_frozen_base_of_its_own_dtype(model, build):
    adapted = add_lora(build(model, dtype=torch.bfloat16), Lora()).model
    kinds = {("lora" in name, value.dtype, value.requires_grad) for name, value in adapted.named_parameters()}
    assert kinds == {(True, torch.float32, True), (False, torch.bfloat16, False)}


def test_fresh_adapters_change_no_output(model, build, loaded, conversation, picture):
    encoded = encode_prompt(loaded, conversation("a", None, "b"), [picture(40, 40)])
    encoded = loaded.family.model_inputs(loaded.processor, encoded)
    adapted = add_lora(build(model), Lora()).model
    with torch.no_grad():
        assert torch.equal(adapted(**encoded).logits, loaded.model(**encoded).logits)


def test_rank_alpha_and_dropout_are_the_recipes(model, build):
    config = add_lora(build(model), Lora(rank=3, alpha=7, dropout=0.25)).model.peft_config["default"]
    assert (config.r, config.lora_alpha, config.lora_dropout) == (3, 7, 0.25)
