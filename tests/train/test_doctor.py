"""What the doctor says of machines that are not this one."""

import json
from collections import namedtuple
from pathlib import Path

import pytest

from recipes.loader import load_recipe
from train.doctor import Gpu, choices, disk, examine, gpus, model_files, wandb_login
from train.finding import page
from train.packages import versions

H100 = Gpu("H100", 80 * 2**30, (9, 0))
T4 = Gpu("T4", 16 * 2**30, (7, 5))


def levels(findings):
    return [(finding.level, finding.about) for finding in findings]


def test_versions_within_their_bounds_are_well():
    assert levels(versions({"torch": "2.14.1", "trl": "1.16.0"}, ["torch>=2.14,<2.15", "trl>=1.16,<1.17"])) == [
        ("ok", "packages")
    ]


def test_a_version_outside_and_a_missing_package_are_named_with_what_was_tested():
    (finding,) = versions({"torch": "2.15.0"}, ["torch>=2.14,<2.15", "trl>=1.16"])
    assert finding.level == "bad"
    assert "torch 2.15.0, tested with" in finding.found
    assert "trl is missing" in finding.found


@pytest.mark.parametrize("name", ["vllm", "liger-kernel"])
def test_packages_that_do_not_live_here_are_bad(name):
    assert ("bad", name) in levels(versions({name: "1.0"}, []))


def test_torch_for_cpus_beside_torchvision_for_gpus_is_bad():
    assert ("bad", "torchvision") in levels(versions({"torch": "2.14.1+cpu", "torchvision": "0.29.1"}, []))
    assert levels(versions({"torch": "2.14.1+cpu", "torchvision": "0.29.1+cpu"}, [])) == [("ok", "packages")]


@pytest.mark.parametrize(
    ("torch", "vision", "bad"),
    [("+cu130", "+cu128", True), ("+cu130", "+cu130", False), ("+cu130", "", False), ("", "", False)],
)
def test_torch_and_torchvision_for_different_cudas_are_bad(torch, vision, bad):
    """A version without a build's name does not say which CUDA it is for."""
    found = levels(versions({"torch": f"2.14.1{torch}", "torchvision": f"0.29.1{vision}"}, []))
    assert (("bad", "torchvision") in found) == bad


@pytest.mark.parametrize(("omegaconf", "bad"), [("2.3.0", False), ("2.4.0", True), ("2.5.0.dev1", True)])
def test_hydra_beside_an_omegaconf_that_it_does_not_take_is_bad(omegaconf, bad):
    found = levels(versions({"hydra-core": "1.3.2", "omegaconf": omegaconf}, []))
    assert (("bad", "hydra-core") in found) == bad
    assert levels(versions({"omegaconf": omegaconf}, [])) == [("ok", "packages")]


def test_that_deepspeed_compiles_at_first_is_noted():
    assert levels(versions({"deepspeed": "0.19.8"}, [])) == [("ok", "packages"), ("note", "deepspeed")]


@pytest.mark.parametrize(
    ("cuda", "device_files", "level", "told"),
    [
        (None, True, "bad", "do install a CUDA build"),
        ("13.0", True, "bad", "nvidia-smi"),
        ("13.0", False, "note", "on the CPU"),
        (None, False, "note", "on the CPU"),
    ],
)
def test_a_gpu_that_torch_does_not_see_is_bad_and_none_at_all_is_not(cuda, device_files, level, told):
    (finding,) = gpus([], None, flash=False, cuda=cuda, device_files=device_files)
    assert (finding.level, finding.about) == (level, "GPUs")
    assert told in finding.advice


def test_flash_attention_is_noted_where_a_gpu_is_too_old_for_it():
    assert levels(gpus([T4], (2, 27), flash=True, precision="fp32"))[-1] == ("note", "flash-attn")
    assert levels(gpus([Gpu("A100", 40 * 2**30, (8, 0))], (2, 27), flash=True))[-1] == ("ok", "flash-attn")


def test_gpus_are_described_and_old_ones_are_bad():
    assert levels(gpus([H100], (2, 27), flash=True)) == [("ok", "GPU 0"), ("ok", "NCCL"), ("ok", "flash-attn")]
    found = list(gpus([H100, T4], None, flash=False))
    assert levels(found) == [
        ("ok", "GPU 0"), ("bad", "GPU 1"), ("note", "GPUs"), ("bad", "NCCL"), ("note", "flash-attn"),
    ]  # fmt: skip
    assert "train.precision=fp32" in found[1].advice


def test_a_gpu_without_bf16_serves_a_recipe_in_fp32():
    assert levels(gpus([T4], (2, 27), flash=True, precision="fp32"))[0] == ("ok", "GPU 0")
    assert levels(gpus([T4], (2, 27), flash=True, precision="bf16"))[0] == ("bad", "GPU 0")


def test_what_a_recipe_insists_on_and_this_machine_has_not_is_bad():
    def of(*overrides, **machine):
        return levels(choices(load_recipe(["recipe=mixed_grid", *overrides]), **machine))

    assert of(installed=(), flash=False) == []
    assert of("train.sharding=zero3", installed=(), flash=False) == [("bad", "deepspeed")]
    assert of("train.sharding=zero3", installed=("deepspeed",), flash=False) == []
    insisting = "model.attention.vision=flash_attention_2"
    assert of(insisting, installed=(), flash=False) == [("bad", "attention")]
    assert of(insisting, installed=(), flash=True) == []


def test_flash_attention_without_a_gpu_is_noted():
    assert levels(gpus([], None, flash=True)) == [("note", "GPUs"), ("note", "flash-attn")]


def test_disk_is_looked_at_where_the_run_will_be(tmp_path):
    finding = disk(tmp_path / "runs" / "one", 10)
    assert finding.level == "ok"
    assert str(tmp_path) in finding.found
    assert disk(tmp_path, 10**18).level == "bad"


def test_a_folder_that_cannot_be_written_in_is_bad(tmp_path):
    """Root may write in any folder, so a file stands for one."""
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        assert "nothing can be written in" in disk(path, None).found
        assert disk(path, None).level == "bad"


@pytest.mark.parametrize(("keep", "gb"), [("2", 421), ("1", 316), ("null", 210)])
def test_the_disk_must_hold_what_is_kept_the_best_and_the_one_being_written(keep, gb, monkeypatch):
    """105.2 GB each, of 12 bytes for each of the 8.77 billion parameters."""
    monkeypatch.setattr("shutil.disk_usage", lambda _: namedtuple("Usage", "free")(10**9))
    found = examine(["recipe=mixed_grid", f"train.keep_checkpoints={keep}"])
    (finding,) = (one for one in found if one.about == "disk")
    assert finding.level == "bad"
    assert finding.found.endswith(f"take up to {gb} GB")


def test_a_wandb_key_is_never_shown(monkeypatch, tmp_path):
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    assert [wandb_login(mode).level for mode in (None, "offline", "online")] == ["ok", "ok", "bad"]
    monkeypatch.setenv("WANDB_API_KEY", "secret-key")
    finding = wandb_login("online")
    assert finding.level == "ok"
    assert "secret" not in page([finding])


def test_a_folder_is_a_model_when_it_has_config_and_weights(tmp_path):
    model = load_recipe(["recipe=mixed_grid", f"model.pretrained={tmp_path}"]).model
    assert model_files(model).level == "bad"
    for name in ("config.json", "model.safetensors"):
        Path(tmp_path / name).touch()
    assert model_files(model).level == "ok"


def test_a_download_that_ended_early_is_no_model(tmp_path):
    model = load_recipe(["recipe=mixed_grid", f"model.pretrained={tmp_path}"]).model
    shards = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    (tmp_path / "config.json").touch()
    index = {"weight_map": {"first.weight": shards[0], "last.weight": shards[1]}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    (tmp_path / shards[0]).touch()
    assert model_files(model).level == "bad"
    (tmp_path / shards[1]).touch()
    assert model_files(model).level == "ok"


def test_a_name_that_is_neither_a_folder_nor_one_on_the_hub_is_a_line_of_the_page():
    finding = model_files(load_recipe(["recipe=mixed_grid", "model.pretrained=./no/such/folder"]).model)
    assert finding.level == "bad"
    assert "do correct model.pretrained" in finding.advice
