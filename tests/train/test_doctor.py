"""What the doctor says of machines that are not this one."""

from pathlib import Path

import pytest

from recipes.loader import load_recipe
from train.doctor import Gpu, disk, gpus, model_files, page, versions, wandb_login

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


def test_gpus_are_described_and_old_ones_are_bad():
    assert levels(gpus([H100], (2, 27), flash=True)) == [("ok", "GPU 0"), ("ok", "NCCL"), ("ok", "flash-attn")]
    found = list(gpus([H100, T4], None, flash=False))
    assert levels(found) == [
        ("ok", "GPU 0"), ("bad", "GPU 1"), ("note", "GPUs"), ("bad", "NCCL"), ("note", "flash-attn"),
    ]  # fmt: skip
    assert "train.precision=fp32" in found[1].advice


def test_flash_attention_without_a_gpu_is_noted():
    assert levels(gpus([], None, flash=True)) == [("note", "GPUs"), ("note", "flash-attn")]


def test_disk_is_looked_at_where_the_run_will_be(tmp_path):
    finding = disk(tmp_path / "runs" / "one", 10)
    assert finding.level == "ok"
    assert str(tmp_path) in finding.found
    assert disk(tmp_path, 10**18).level == "bad"


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
