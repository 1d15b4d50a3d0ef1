"""Each tower trains in full, by adapters on its linear layers, or not at all; also in the real models."""

from __future__ import annotations

import re
from collections import Counter

import pytest
import torch

from models import FAMILIES
from models.architecture import stated_config
from models.load import Loaded
from models.tokens import encode_prompt
from models.towers import check_towers, load_dtype, train_towers
from recipes.loader import load_recipe
from recipes.schema import Lora, Tower, Towers, Train

REAL = {"qwen3_vl": "qwen3_vl_8b", "gemma3": "gemma3_12b"}
"""Family -> model file."""


def train(precision="fp32", lora=None, **towers):
    """A train section without anything trained but what `towers` says: a method, or a Tower."""
    given = {name: Tower(method=how) if isinstance(how, str) else how for name, how in towers.items()}
    rest = {name: Tower(method="frozen") for name in ("language", "vision", "projector") if name not in given}
    return Train(precision=precision, lora=lora or Lora(), towers=Towers(**given, **rest))


def real_model(family):
    """As its model file states it, without values."""
    config = stated_config(load_recipe(["recipe=mixed_grid", f"model={REAL[family]}"]).model)
    with torch.device("meta"):
        return FAMILIES[family].model_class(config)


def trained_parameters(model):
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


@pytest.mark.parametrize(("family", "parameters"), [("qwen3_vl", 8_767_123_696), ("gemma3", 12_187_325_040)])
def test_the_towers_of_the_real_models_have_the_known_sizes(family, parameters):
    sizes = Counter()
    for name, parameter in real_model(family).named_parameters():
        sizes[FAMILIES[family].tower_of(name)] += parameter.numel()
    assert sizes.total() == parameters
    assert sizes["projector"] == {"qwen3_vl": 160_496_896, "gemma3": 4_424_832}[family]
    assert sizes["vision"] == {"qwen3_vl": 415_891_440, "gemma3": 416_866_032}[family]


@pytest.mark.parametrize(
    ("family", "tower", "targets", "adapters", "layers"),
    [
        ("qwen3_vl", "language", None, 43_646_976, 36 * 7),
        ("qwen3_vl", "language", ["q_proj", "v_proj"], 36 * 16 * (4096 + 4096 + 4096 + 1024), 36 * 2),
        ("qwen3_vl", "vision", None, 7_699_968, 27 * 4),
        ("qwen3_vl", "vision", ["qkv"], 27 * 16 * (1152 + 3456), 27),
        ("qwen3_vl", "projector", None, 1_146_880, 4 * 2),
        ("gemma3", "language", None, 65_470_464, 48 * 7),
        ("gemma3", "vision", None, 8_695_296, 27 * 6),
        ("gemma3", "vision", ["fc1", "fc2"], 27 * 16 * 2 * (1152 + 4304), 27 * 2),
    ],
)
def test_adapters_of_the_real_models_have_the_known_size_and_are_in_their_tower(
    family, tower, targets, adapters, layers
):
    wanted = train(**{tower: Tower(method="lora", targets=targets)})
    with torch.device("meta"):
        adapted = train_towers(Loaded(None, FAMILIES[family], 1, real_model(family)), wanted)
    trained = trained_parameters(adapted.model)
    assert sum(parameter.numel() for parameter in trained.values()) == adapters
    assert len(trained) == 2 * layers
    assert {adapted.family.tower_of(name) for name in trained} == {tower}
    assert all(".lora_" in name for name in trained)


def test_the_named_linear_layers_are_all_that_a_tower_has_and_never_the_head(loaded):
    linear = {name for name, module in loaded.model.named_modules() if isinstance(module, torch.nn.Linear)}
    found = set()
    for tower, linears in loaded.family.linears.items():
        of_tower = {name for name in linear if re.fullmatch(rf"{linears.inside}\.({'|'.join(linears.names)})", name)}
        assert {loaded.family.tower_of(f"{name}.weight") for name in of_tower} == {tower}
        found |= of_tower
    assert found == linear - {"lm_head"}


def test_what_trains_is_fp32_and_what_is_frozen_has_the_compute_precision(model, build):
    wanted = train("bf16", vision="lora", projector="full")
    adapted = train_towers(build(model, dtype=torch.bfloat16), wanted).model
    kinds = {(value.dtype, value.requires_grad) for value in adapted.parameters()}
    assert kinds == {(torch.float32, True), (torch.bfloat16, False)}


def test_a_full_tower_is_not_rounded_beside_one_that_is_frozen(model, build, loaded):
    wanted = train("bf16", language="full")
    assert load_dtype(wanted) == torch.float32
    prepared = train_towers(build(model), wanted)
    for name, parameter in prepared.model.named_parameters():
        before, language = loaded.model.get_parameter(name), prepared.family.tower_of(name) == "language"
        assert parameter.requires_grad == language
        assert torch.equal(parameter, before if language else before.bfloat16())


def test_a_projector_trains_whole_beside_adapters_and_its_start_is_kept(model, build):
    adapted = train_towers(build(model), train(language="lora", projector="full"))
    whole = {name for name in trained_parameters(adapted.model) if ".lora_" not in name}
    before = {name for name, _ in build(model).model.named_parameters() if adapted.family.tower_of(name) == "projector"}
    assert {name.removeprefix("base_model.model.").replace("modules_to_save.default.", "") for name in whole} == before
    for name in whole:
        start = adapted.model.get_parameter(name.replace("modules_to_save.default", "original_module"))
        assert torch.equal(start, adapted.model.get_parameter(name))
        assert not start.requires_grad


def test_fresh_adapters_change_no_output(model, build, loaded, conversation, picture):
    encoded = encode_prompt(loaded, conversation("a", None, "b"), [picture(40, 40)])
    encoded = loaded.family.model_inputs(loaded.processor, encoded)
    adapted = train_towers(build(model), train(language="lora", vision="lora", projector="full")).model
    with torch.no_grad():
        assert torch.equal(adapted(**encoded).logits, loaded.model(**encoded).logits)


def test_rank_alpha_and_dropout_are_the_recipes(model, build):
    wanted = train(language="lora", lora=Lora(rank=3, alpha=7, dropout=0.25))
    config = train_towers(build(model), wanted).model.peft_config["default"]
    assert (config.r, config.lora_alpha, config.lora_dropout) == (3, 7, 0.25)


def test_adapters_on_a_projector_without_linear_layers_are_refused():
    check_towers(FAMILIES["qwen3_vl"], train(projector="lora"))
    with pytest.raises(ValueError, match=r"projector\.method: got lora; allowed: full \| frozen .* gemma3.*; do set"):
        check_towers(FAMILIES["gemma3"], train(language="lora", projector="lora"))


def test_unknown_targets_are_refused_with_the_known_ones_and_all_at_once():
    wanted = train(
        language=Tower(method="lora", targets=["q_proj", "lm_head"]), vision=Tower(method="lora", targets=["qkw"])
    )
    with pytest.raises(ValueError) as refused:
        check_towers(FAMILIES["qwen3_vl"], wanted)
    assert str(refused.value).splitlines() == [
        'train.towers.language.targets: got "lm_head"; allowed: q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, '
        "down_proj; do use one of these",
        'train.towers.vision.targets: got "qkw"; allowed: qkv, proj, linear_fc1, linear_fc2; did you mean qkv?',
    ]
