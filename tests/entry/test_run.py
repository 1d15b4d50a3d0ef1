"""eval_hooks.run, started for real: checkpoints on several processes, stopped and continued, and a real server."""

import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from eval_hooks.records import read_records
from models.load import load_model
from recipes.loader import load_recipe
from tests.entry.conftest import ROOT, surroundings

TINY = ["recipe=mixed_grid", "model=tiny_qwen3_vl"]
PARTS = [
    "data.photos.use=reuse", "data.parts.4x4.spec.piece_px=8", "data.parts.4x4.spec.tab_ratio=0.3",
    "data.parts.8x8=null", "data.parts.12x12=null", "data.parts.16x16=null", "eval.batch=2",
]  # fmt: skip


@pytest.fixture
def weights(tmp_path: Path) -> str:
    """A tiny model that has learnt nothing, as a folder that any server can serve."""
    small = load_model(load_recipe(TINY).model, seed=0, dtype=torch.float32)
    for part in (small.model, small.processor):
        part.save_pretrained(tmp_path / "weights")
    return "checkpoint=weights"


def started(folder: Path, *arguments: str, processes: int = 1, **how) -> subprocess.Popen:
    launcher = [sys.executable]
    if processes > 1:
        launcher += ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
    return subprocess.Popen(
        [*launcher, "-m", "eval_hooks.run", *TINY, *PARTS, *arguments], cwd=folder, text=True,
        env={**surroundings(), "PYTHONPATH": str(ROOT), "ACCELERATE_USE_CPU": "true"}, **how,
    )  # fmt: skip


def asked(folder: Path, *arguments: str, processes: int = 1, status: int = 0) -> str:
    run = started(folder, *arguments, processes=processes, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    said, troubles = run.communicate(timeout=280)
    assert run.returncode == status, f"{run.returncode}\n{said[-3000:]}\n{troubles[-3000:]}"
    return said + troubles


def without_times(file: Path):
    return [dataclasses.replace(record, seconds=0.0) for record in read_records(file).records]


def test_any_number_of_processes_gives_the_same_records(weights, tmp_path):
    for processes in (1, 2, 3):
        asked(tmp_path, weights, "eval.final_count=21", f"out={processes}.jsonl", processes=processes)
    one, two, three = (without_times(tmp_path / f"{processes}.jsonl") for processes in (1, 2, 3))
    assert len(one) == 21
    assert one == two == three
    assert not list(tmp_path.glob("*.parts"))


def test_a_stopped_run_goes_on_where_it_was_and_asks_nothing_twice(weights, tmp_path):
    arguments = [weights, "eval.final_count=8", "eval.protocol=sampled", "eval.samples=2"]
    asked(tmp_path, *arguments, "out=whole.jsonl")
    run = started(tmp_path, *arguments, "out=cut.jsonl", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    part = tmp_path / "cut.jsonl.parts/rank-0.jsonl"
    while run.poll() is None and not (part.is_file() and part.stat().st_size):
        time.sleep(0.05)
    run.send_signal(signal.SIGKILL)
    run.wait()
    with part.open("a") as file:
        file.write('{"key": "torn')
    before = part.read_text().splitlines()[:-1]
    assert 0 < len(before) < 16
    asked(tmp_path, *arguments, "out=cut.jsonl")
    assert without_times(tmp_path / "cut.jsonl") == without_times(tmp_path / "whole.jsonl")
    after = (tmp_path / "cut.jsonl").read_text().splitlines()
    assert set(before) <= set(after)  # with the very seconds that they took


def test_constrained_answers_of_a_model_that_has_learnt_nothing_are_all_valid(weights, tmp_path):
    asked(tmp_path, weights, "eval.final_count=3", "eval.protocol=constrained", "out=c.jsonl")
    records = read_records(tmp_path / "c.jsonl").records
    assert [record.invalid for record in records] == [None] * 3
    assert {record.protocol for record in records} == {"constrained"}


def test_records_of_something_else_are_never_mixed_in(weights, tmp_path):
    asked(tmp_path, weights, "eval.final_count=1", "out=r.jsonl")
    told = asked(tmp_path, weights, "eval.final_count=1", "eval.protocol=constrained", "out=r.jsonl", status=2)
    assert "out: got r.jsonl with records of Giver" in told
    assert "do choose another out=" in told


def test_what_cannot_be_asked_is_refused_with_what_can(tmp_path):
    assert "checkpoint: got neither it nor endpoint" in asked(tmp_path, status=2)
    assert "endpoint_model: got one without the other" in asked(tmp_path, "endpoint=http://x/v1", status=2)
    constrained = ["endpoint=http://x/v1", "endpoint_model=x", "eval.protocol=constrained"]
    assert "eval.protocol: got constrained" in asked(tmp_path, *constrained, status=2)


def test_a_server_that_is_not_there_costs_tries_and_is_told(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    there = [f"endpoint=http://127.0.0.1:{port}/v1", "endpoint_model=x", "endpoint.retries=0"]
    told = asked(tmp_path, *there, "eval.final_count=2", status=1)
    assert "0 of 2 answers" in told
    assert "troubles: ConnectError 2; unanswered: 2" in told


@pytest.mark.slow
def test_a_real_server_gives_the_answers_of_this_process(weights, tmp_path):
    if find_spec("fastapi") is None:
        pytest.skip("transformers serve needs fastapi and others; pip install 'transformers[serving]' lets this run")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    serve = [str(Path(sys.executable).with_name("transformers")), "serve", "--port", str(port), "--device", "cpu"]
    with (tmp_path / "server.log").open("w") as log:
        how = {"cwd": tmp_path, "env": surroundings(), "stdout": log, "stderr": log}
        server = subprocess.Popen(serve, **how, start_new_session=True)
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1).read()
                break
            except OSError:
                assert server.poll() is None, (tmp_path / "server.log").read_text()[-3000:]
                time.sleep(0.2)
        there = [f"endpoint=http://127.0.0.1:{port}/v1", f"endpoint_model={tmp_path / 'weights'}"]
        asked(tmp_path, *there, "eval.final_count=4", "endpoint.concurrency=1", "out=served.jsonl")
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=30)
    asked(tmp_path, weights, "eval.final_count=4", "out=here.jsonl")
    served, here = (read_records(tmp_path / f"{name}.jsonl").records for name in ("served", "here"))
    assert [(r.key, r.answer, r.invalid) for r in served] == [(r.key, r.answer, r.invalid) for r in here]
    assert json.dumps([r.text for r in served]) == json.dumps([r.text for r in here])
