"""What the page of a plan says, of small mixed grids."""

import pytest

from train.plan import report

SMALL = [
    "recipe=mixed_grid", "model=tiny_qwen3_vl", "data.photos.use=reuse", "train.effective_batch=6",
    *(f"data.parts.{n}x{n}.{key}" for n in (4, 8) for key in ("spec.piece_px=8", "spec.tab_ratio=0.3", "count=6")),
    "data.parts.12x12=null", "data.parts.16x16=null",
]  # fmt: skip


@pytest.fixture
def page(tmp_path, monkeypatch):
    """`page(*arguments)`: the plan's page with its broken lines joined."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: report([*SMALL, *arguments]).replace("\n  ", " ")


def test_a_machine_without_deepspeed_plans_for_one_that_has_it(page, monkeypatch):
    monkeypatch.setattr("train.sharding.find_spec", lambda name: None)
    assert "warning: train.sharding=zero3 needs the deepspeed package" in page("gpus=2", "train.sharding=zero3")
    assert "deepspeed" not in page("gpus=2", "train.sharding=fsdp2")
    monkeypatch.setattr("train.sharding.find_spec", lambda name: name)
    assert "deepspeed" not in page("gpus=2", "train.sharding=zero3")


def test_the_rate_of_saves_is_said(page):
    (line,) = (line for line in page().splitlines() if line.startswith("saves: "))
    assert line.endswith(" s at 1 GB/s")


def test_a_run_whose_processes_mostly_wait_is_warned_of(page):
    """Six examples a step: on one process none waits, on six all wait for the longest."""
    advice = "set a larger train.effective_batch or use fewer GPUs"
    assert advice not in page("gpus=1")
    assert advice in page("gpus=6")


def test_the_quickstarts_page_warns_of_nothing_and_says_what_its_times_are_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = report(
        ["recipe=quickstart", "data.parts.2x2.count=96", "trainer.max_steps=2", "eval.count=2", "eval.final_count=2"]
    )
    assert "warning" not in text
    assert "\ntimes are for GPUs; on a CPU" in text
