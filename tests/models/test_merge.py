"""A merged checkpoint is a model of its own that answers as the adapter did."""

from __future__ import annotations

import pytest
import torch
from huggingface_hub import ModelCard
from peft import PeftModel

from eval_hooks.records import Record, write_records
from eval_hooks.run_files import records_file, write_manifest
from models import FAMILIES
from models.load import load_checkpoint, load_model
from models.merge import main, merge
from models.tokens import encode_prompt
from models.towers import load_dtype, train_towers
from recipes.loader import load_recipe, to_yaml

ALL = ["train.towers.vision.method=lora", "train.towers.projector.method=full"]


@pytest.fixture
def run_of(tmp_path, monkeypatch):
    """`run_of(family, *overrides)`: (recipe, model) of a run folder "run" with one checkpoint, 7, in tmp_path."""
    monkeypatch.chdir(tmp_path)

    def build(family, *overrides):
        recipe = load_recipe(["recipe=mixed_grid_lora", f"model=tiny_{family}", "output_dir=run", *overrides])
        base = load_model(recipe.model, seed=recipe.seed, dtype=load_dtype(recipe.train))
        trained = train_towers(base, recipe.train)
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for parameter in trained.model.parameters():
                if parameter.requires_grad:
                    parameter.add_(torch.randn(parameter.shape, generator=generator) / 10)
        trained.model.save_pretrained("run/checkpoint-7")
        trained.processor.save_pretrained("run/checkpoint-7")
        write_manifest(tmp_path / "run/checkpoint-7")
        (tmp_path / "run/recipe.yaml").write_text(to_yaml(recipe))
        return recipe, trained

    return build


def logits(model, encoded):
    with torch.no_grad():
        return model.eval()(**encoded).logits


@pytest.fixture
def prompt(conversation, picture):
    """`prompt(loaded)`: the inputs of a question with a picture."""

    def build(loaded):
        encoded = encode_prompt(loaded, conversation("a", None, "b"), [picture(80, 60)])
        return loaded.family.model_inputs(loaded.processor, encoded)

    return build


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_merged_weights_give_the_adapters_logits_and_load_with_transformers_alone(family, run_of, prompt, tmp_path):
    recipe, trained = run_of(family, "train.precision=fp32", *ALL)
    encoded = prompt(trained)
    base = load_model(recipe.model, seed=recipe.seed, dtype=torch.float32)
    expected = logits(trained.model, encoded)
    assert (expected - logits(base.model, encoded)).abs().max() > 0.01

    assert main(["checkpoint=run/checkpoint-7", "out=a folder/merged"]) == 0

    out = tmp_path / "a folder" / "merged"
    assert [path.name for path in out.parent.iterdir()] == ["merged"]
    alone = trained.family.model_class.from_pretrained(out)
    torch.testing.assert_close(logits(alone, encoded), expected, atol=1e-5, rtol=0)
    ours = load_checkpoint(out, recipe.model, seed=99, dtype=torch.float32)
    torch.testing.assert_close(logits(ours.model, encoded), expected, atol=1e-5, rtol=0)
    processor = trained.family.processor_class.from_pretrained(out)
    assert processor.tokenizer.get_vocab() == trained.processor.tokenizer.get_vocab()


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_an_adapter_loads_with_peft_alone(family, run_of, prompt, tmp_path):
    recipe, trained = run_of(family, "train.precision=fp32", *ALL)
    encoded = prompt(trained)
    load_model(recipe.model, seed=recipe.seed, dtype=torch.float32).model.save_pretrained(tmp_path / "base")
    plain = trained.family.model_class.from_pretrained(tmp_path / "base")
    adapted = PeftModel.from_pretrained(plain, tmp_path / "run/checkpoint-7")
    assert torch.equal(logits(adapted, encoded), logits(trained.model, encoded))


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_a_merged_weight_is_the_fp32_sum_rounded_once_to_the_bases_dtype(family, run_of, tmp_path):
    _, trained = run_of(family, *ALL)
    name = "model.language_model.layers.1.mlp.down_proj"
    layer = trained.model.get_submodule(f"base_model.model.{name}")
    a, b = (adapter["default"].weight.detach() for adapter in (layer.lora_A, layer.lora_B))
    expected = (layer.base_layer.weight.float() + layer.scaling["default"] * (b @ a)).bfloat16()
    merge(["checkpoint=run", "out=merged"])
    read = trained.family.model_class.from_pretrained(tmp_path / "merged")
    assert {parameter.dtype for parameter in read.parameters()} == {torch.bfloat16}
    assert torch.equal(read.get_parameter(f"{name}.weight"), expected)


def test_an_evaluated_adapter_leaves_its_scores_on_the_card_of_the_merged_model(run_of, tmp_path, caplog):
    run_of("qwen3_vl")
    record = Record(
        key="jigshape-0", task="jigshape", version=2, split="eval", part="4x4", index=0, spec={"grid": 4},
        photo_id=None, seed=0, target={}, prompt_hash="", text="{}", finish_reason="stop", completion_tokens=1,
        answer=None, invalid="no_json", scores={"pa": 0.0}, seconds=0.0, sample=0, protocol="greedy", model="m", step=7,
    )  # fmt: skip
    records = records_file(tmp_path / "run", 7)
    write_records(records, [record])
    merge(["checkpoint=run", "out=merged"])
    data = ModelCard.load(tmp_path / "merged/README.md").data
    assert data.to_dict()["library_name"] == "transformers"
    assert data.eval_results[0].metric_type == "pa"
    records.write_text("damaged\n")
    merge(["checkpoint=run", "out=other"])
    assert "other goes without a card of its own" in caplog.text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["chekpoint=run"], "chekpoint: got an unknown name; allowed: checkpoint, out; did you mean checkpoint"),
        (["checkpoint=run"], "out: got nothing; allowed: a folder to write; do write out="),
        (["checkpoint=nowhere", "out=new"], "checkpoint: got .*which does not exist"),
        (["checkpoint=run", "out=run"], "out: got run, which exists; allowed: a folder that is not there yet"),
    ],
)
def test_what_cannot_be_merged_is_refused(words, said, run_of):
    run_of("qwen3_vl")
    with pytest.raises(ValueError, match=said):
        merge(words)


def test_a_full_checkpoint_is_refused(run_of, tmp_path):
    run_of("qwen3_vl")
    (tmp_path / "run/checkpoint-7/adapter_config.json").unlink()
    write_manifest(tmp_path / "run/checkpoint-7")
    with pytest.raises(ValueError, match=r"holds a full model; allowed: an adapter; do use that folder as it is"):
        merge(["checkpoint=run", "out=merged"])


def test_a_checkpoint_that_is_not_whole_is_refused_with_what_it_lacks(run_of, tmp_path):
    run_of("qwen3_vl")
    (tmp_path / "run/checkpoint-7/adapter_model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"is not complete \(adapter_model.safetensors is missing\)"):
        merge(["checkpoint=run/checkpoint-7", "out=merged"])


def test_a_merge_that_fails_leaves_no_folder_that_looks_whole(run_of, tmp_path):
    run_of("qwen3_vl")
    (tmp_path / "run/checkpoint-7/adapter_model.safetensors").unlink()
    write_manifest(tmp_path / "run/checkpoint-7")
    with pytest.raises(ValueError, match="use a complete checkpoint"):
        merge(["checkpoint=run", "out=merged"])
    assert not (tmp_path / "merged").exists()
