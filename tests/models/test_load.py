"""Checkpoints come back bit by bit, or not at all."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from models.load import CheckpointError, load_checkpoint, load_encoder, load_model, load_weights_into
from models.towers import train_towers
from recipes.schema import ImageSize, Lora, Model, Tower, Towers, Train


def _equal(first, second) -> bool:
    one, other = first.model.state_dict(), second.model.state_dict()
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


ADAPTERS = [Towers(), Towers(vision=Tower(method="lora"), projector=Tower(method="full"))]
"""Of one tower, and of two beside a projector that trains as a whole."""


def _adapted(loaded, towers: Towers = ADAPTERS[0], seed: int = 1):
    precision = "bf16" if loaded.model.dtype == torch.bfloat16 else "fp32"
    adapted = train_towers(loaded, Train(method="lora", lora=Lora(rank=4), towers=towers, precision=precision))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in adapted.model.parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return adapted


def _save(loaded, folder, **options) -> None:
    loaded.model.save_pretrained(folder, **options)
    loaded.processor.save_pretrained(folder)


STYLES = [{}, {"save_original_format": False}, {"max_shard_size": "100KB"}]


@pytest.mark.parametrize("style", STYLES, ids=["hub_keys", "own_keys", "sharded"])
def test_full_weights_come_back_bit_by_bit(model, build, tmp_path, style):
    written = build(model, seed=3)
    _save(written, tmp_path, **style)
    read = load_checkpoint(tmp_path, model, seed=0, dtype=torch.float32)
    assert _equal(read, written)
    assert read.processor.tokenizer.get_vocab() == written.processor.tokenizer.get_vocab()
    assert read.processor.chat_template == written.processor.chat_template
    assert not read.model.training


def test_an_empty_model_differs_in_its_values_alone(model, build, tmp_path):
    _save(build(model, seed=3), tmp_path)
    stored = model.model_copy(update={"scratch": None, "pretrained": str(tmp_path)})
    empty, full = (load_model(stored, seed=0, dtype=torch.bfloat16, empty=empty).model for empty in (True, False))
    names = [name for name, _ in full.named_parameters()]  # a tied one has one name
    assert [name for name, _ in empty.named_parameters()] == names
    for name in names:
        one, other = empty.get_parameter(name), full.get_parameter(name)
        assert (one.device.type, one.shape, one.dtype) == ("meta", other.shape, other.dtype)
    buffers = dict(full.named_buffers())
    assert buffers.keys() == dict(empty.named_buffers()).keys()
    assert all(torch.equal(buffer, buffers[name]) for name, buffer in empty.named_buffers())
    assert {**empty.config.to_dict(), "_name_or_path": str(tmp_path)} == full.config.to_dict()


@pytest.mark.parametrize("style", STYLES, ids=["hub_keys", "own_keys", "sharded"])
def test_full_weights_are_loaded_in_place(model, build, tmp_path, style):
    written, target = build(model, seed=3), build(model, seed=4)
    _save(written, tmp_path, **style)
    before = [parameter.data_ptr() for parameter in target.model.parameters()]
    load_weights_into(target.model, tmp_path)
    assert _equal(target, written)
    assert [parameter.data_ptr() for parameter in target.model.parameters()] == before


def test_weights_written_after_a_reload_are_loaded_in_place_too(model, build, tmp_path):
    _save(build(model, seed=3), tmp_path / "first")
    reloaded = load_checkpoint(tmp_path / "first", model, seed=0, dtype=torch.float32)
    _save(reloaded, tmp_path / "second")
    target = load_checkpoint(tmp_path / "first", model, seed=0, dtype=torch.float32)
    with torch.no_grad():
        next(target.model.parameters()).zero_()
    load_weights_into(target.model, tmp_path / "second")
    assert _equal(target, reloaded)


@pytest.mark.parametrize("towers", ADAPTERS, ids=["language", "all"])
def test_an_adapter_comes_back_on_its_base_built_anew(model, build, tmp_path, towers):
    written = _adapted(build(model, seed=3, dtype=torch.bfloat16), towers)
    _save(written, tmp_path)
    read = load_checkpoint(tmp_path, model, seed=3, dtype=torch.bfloat16)
    assert _equal(read, written)
    assert [p.dtype for p in read.model.parameters()] == [p.dtype for p in written.model.parameters()]


@pytest.mark.parametrize("towers", ADAPTERS, ids=["language", "all"])
def test_an_adapter_is_loaded_in_place(model, build, tmp_path, towers):
    written, target = _adapted(build(model), towers), _adapted(build(model), towers, seed=2)
    _save(written, tmp_path)
    load_weights_into(target.model, tmp_path)
    assert _equal(target, written)
    assert any(parameter.requires_grad for parameter in target.model.parameters())


def _spoil(file, how: str) -> None:
    weights = load_file(file)
    name = sorted(name for name in weights if "layers.0" in name and weights[name].dim() == 2)[0]
    if how == "missing":
        del weights[name]
    elif how == "unexpected":
        weights["stranger.weight"] = torch.zeros(1)
    else:
        weights[name] = weights[name][1:].clone()
    save_file(weights, file, metadata={"format": "pt"})


SPOILED = [("missing", "1 missing"), ("unexpected", "1 unexpected"), ("cut", "1 of another shape")]


@pytest.mark.parametrize(("how", "said"), SPOILED)
def test_full_weights_that_do_not_match_are_refused_and_change_nothing(model, build, tmp_path, how, said):
    target = build(model)
    _save(build(model, seed=3), tmp_path)
    _spoil(tmp_path / "model.safetensors", how)
    with pytest.raises(CheckpointError, match=said):
        load_checkpoint(tmp_path, model, seed=0, dtype=torch.float32)
    with pytest.raises(CheckpointError, match=said):
        load_weights_into(target.model, tmp_path)
    assert _equal(target, build(model))


@pytest.mark.parametrize("towers", ADAPTERS, ids=["language", "all"])
@pytest.mark.parametrize(("how", "said"), SPOILED)
def test_an_adapter_that_does_not_match_is_refused(model, build, tmp_path, how, said, towers):
    written = _adapted(build(model), towers)
    _save(written, tmp_path)
    _spoil(tmp_path / "adapter_model.safetensors", how)
    with pytest.raises(CheckpointError, match=said):
        load_checkpoint(tmp_path, model, seed=0, dtype=torch.float32)
    with pytest.raises(CheckpointError, match=said):
        load_weights_into(written.model, tmp_path)


def test_an_adapter_of_another_vocabulary_is_refused(model, build, tmp_path):
    written = _adapted(build(model))
    written.processor.tokenizer.add_tokens(["newcomer"])
    _save(written, tmp_path)
    with pytest.raises(CheckpointError, match="another vocabulary"):
        load_checkpoint(tmp_path, model, seed=0, dtype=torch.float32)


def test_a_checkpoint_of_the_other_family_is_refused(qwen, gemma, tmp_path):
    _save(qwen, tmp_path)
    other = Model(name="g", family="gemma3", pretrained=str(tmp_path), image=ImageSize(side_px=112), max_tokens=64)
    with pytest.raises(CheckpointError, match=r"got a qwen3_vl model.*needs gemma3"):
        load_checkpoint(tmp_path, other, seed=0, dtype=torch.float32)


def test_a_folder_without_weights_says_what_it_lacks(model, tmp_path):
    with pytest.raises(CheckpointError, match=r"a folder that holds model\.safetensors.*adapter_config\.json"):
        load_checkpoint(tmp_path, model, seed=0, dtype=torch.float32)


def test_a_sharded_checkpoint_that_lacks_a_shard_is_refused(model, build, tmp_path):
    _save(build(model), tmp_path, max_shard_size="100KB")
    shards = json.loads((tmp_path / "model.safetensors.index.json").read_text())["weight_map"]
    name = sorted(shards.values())[0]
    (tmp_path / name).unlink()
    with pytest.raises(CheckpointError, match=name):
        load_checkpoint(tmp_path, model, seed=0, dtype=torch.float32)


def test_a_pretrained_folder_takes_the_recipes_dtype_and_image_limits(qwen, tmp_path):
    _save(qwen, tmp_path)
    image = ImageSize(min_px=4096, max_px=8192)
    model = Model(name="q", family="qwen3_vl", pretrained=str(tmp_path), image=image, max_tokens=64)
    lines = []
    loaded = load_model(model, seed=0, dtype=torch.bfloat16, log=lines.append)
    assert {parameter.dtype for parameter in loaded.model.parameters()} == {torch.bfloat16}
    assert dict(loaded.processor.image_processor.size) == {"shortest_edge": 4096, "longest_edge": 8192}
    assert [line.split(":")[0] for line in lines] == ["attention, language tower", "attention, vision tower"]


def test_pickled_weights_are_not_read(qwen, tmp_path):
    _save(qwen, tmp_path)
    torch.save(load_file(tmp_path / "model.safetensors"), tmp_path / "pytorch_model.bin")
    (tmp_path / "model.safetensors").unlink()
    image = ImageSize(min_px=1024, max_px=8192)
    model = Model(name="q", family="qwen3_vl", pretrained=str(tmp_path), image=image, max_tokens=64)
    with pytest.raises(CheckpointError, match=r"\*\.safetensors"):
        load_model(model, seed=0, dtype=torch.float32)


def test_a_model_that_cannot_be_had_says_what_to_do(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    image = ImageSize(min_px=1024, max_px=8192)
    model = Model(name="q", family="qwen3_vl", pretrained="nobody/nothing", image=image, max_tokens=64)
    with pytest.raises(CheckpointError, match=r"got model 'nobody/nothing'.*hf download nobody/nothing.*a folder"):
        load_model(model, seed=0, dtype=torch.float32)


def test_a_model_section_with_no_source_is_refused():
    model = Model(name="q", family="qwen3_vl", image=ImageSize(min_px=1024, max_px=8192), max_tokens=64)
    with pytest.raises(ValueError, match="exactly one"):
        load_model(model, seed=0, dtype=torch.float32)


def test_the_encoder_of_a_model_from_scratch_is_the_models_own(model, loaded):
    encoder = load_encoder(model)
    assert encoder.processor.tokenizer.get_vocab() == loaded.processor.tokenizer.get_vocab()
    assert encoder.processor.chat_template == loaded.processor.chat_template
    assert dict(encoder.processor.image_processor.size) == dict(loaded.processor.image_processor.size)
    assert (encoder.family, encoder.max_tokens) == (loaded.family, loaded.max_tokens)


def test_the_encoder_of_a_pretrained_model_needs_no_weights_and_takes_the_recipes_image_limits(qwen, tmp_path):
    qwen.model.config.save_pretrained(tmp_path)
    qwen.processor.save_pretrained(tmp_path)
    image = ImageSize(min_px=4096, max_px=8192)
    model = Model(name="q", family="qwen3_vl", pretrained=str(tmp_path), image=image, max_tokens=64)
    encoder = load_encoder(model)
    assert dict(encoder.processor.image_processor.size) == {"shortest_edge": 4096, "longest_edge": 8192}
    assert encoder.max_tokens == 64
