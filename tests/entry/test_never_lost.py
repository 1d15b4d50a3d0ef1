"""Runs that are killed, signalled, starved of disk or cut off from every network go on as if nothing had been."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.entry.conftest import ROOT, command, surroundings
from tests.entry.test_sft import SMALL, losses, weights
from train.checkpoints import PARTIAL

RUN = [
    "recipe=mixed_grid", "model=tiny_qwen3_vl", *SMALL, "data.parts.12x12=null", "data.parts.16x16=null",
    "data.parts.4x4.count=6", "data.parts.8x8.count=6", "trainer.num_train_epochs=3", "trainer.learning_rate=1e-3",
    "train.batching=packed",
]  # fmt: skip
"""Three epochs of three steps."""


def seen(run: Path) -> list[str]:
    return [file.read_text() for file in sorted((run / "seen").iterdir())]


def assert_same_end(whole: Path, other: Path, step: int = 9) -> None:
    last = f"checkpoint-{step}"
    assert losses(whole / last) == losses(other / last)
    assert seen(whole) == seen(other)
    expected, got = weights(whole / last), weights(other / last)
    assert expected.keys() == got.keys()
    assert all(torch.equal(tensor, got[name]) for name, tensor in expected.items())


def plain(*arguments: str) -> list[str]:
    return [sys.executable, str(ROOT / "train/sft.py"), *arguments]


def signalled(number: signal.Signals, arguments: list[str], folder: Path, **environment: str) -> tuple[int, str]:
    """Exit status and words of a run whose process group gets a signal in its fifth step; it must save and end before
    its last."""
    with subprocess.Popen(
        arguments, cwd=folder, env={**surroundings(), **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, start_new_session=True,
    ) as process:  # fmt: skip
        said = []
        for line in process.stdout:
            said.append(line)
            if line.startswith("step 5/9"):
                os.killpg(process.pid, number)
        status, text = process.wait(timeout=120), "".join(said)
    assert "stopped after step" in text, text[-4000:]
    stopped = max(int(path.name.partition("-")[2]) for path in (folder / "run").glob("checkpoint-*"))
    assert 5 <= stopped < 9
    return status, text


@pytest.mark.parametrize("number", [pytest.param(signal.SIGUSR1, marks=pytest.mark.slow), signal.SIGTERM])
def test_a_signalled_run_saves_says_so_and_continues_bit_for_bit(number, launch, tmp_path):
    launch("train/sft.py", *RUN, "train.checkpoint_every=4", "output_dir=whole")
    status, said = signalled(
        number, plain(*RUN, "train.checkpoint_every=4", "train.workers=2", "output_dir=run"), tmp_path
    )
    assert status == 3
    assert f"{number.name}: the run saves after step" in said
    launch("train/sft.py", *RUN, "train.checkpoint_every=4", "output_dir=run", "resume=true")
    assert_same_end(tmp_path / "whole", tmp_path / "run")


@pytest.mark.slow
def test_an_interrupted_run_says_how_to_continue(tmp_path):
    with subprocess.Popen(
        plain(*RUN, "output_dir=run"), cwd=tmp_path, env=surroundings(), stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        said = []
        for line in process.stdout:
            said.append(line)
            if line.startswith("step 5/9"):
                process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == 130, "".join(said)[-4000:]
    assert "error: interrupted; resume=true continues" in "".join(said)
    assert "Traceback" not in "".join(said)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
def test_a_launcher_of_two_processes_that_is_signalled_has_them_save(number, launch, tmp_path):
    arguments = [*RUN, "train.checkpoint_every=4"]
    launch("train/sft.py", *arguments, "output_dir=whole", config="cpu2.yaml")
    signalled(
        number, command("train/sft.py", *arguments, "train.workers=2", "output_dir=run", config="cpu2.yaml"), tmp_path,
        PET_SIGNALS_TO_HANDLE="SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1", TORCH_ELASTIC_SHUTDOWN_TIMEOUT="100",
    )  # fmt: skip
    launch("train/sft.py", *arguments, "output_dir=run", "resume=true", config="cpu2.yaml")
    assert_same_end(tmp_path / "whole", tmp_path / "run")


def saving(run: Path) -> bool:
    return any((run / PARTIAL).glob("checkpoint-*"))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_twenty_kills_at_random_moments_lose_nothing(launch, tmp_path):
    """A checkpoint after every step; every other kill waits for a save to begin."""
    every = [*RUN, "train.checkpoint_every=1"]
    launch("train/sft.py", *every, "output_dir=whole")
    chance, kills, in_a_save = random.Random(0), 0, 0
    run = tmp_path / "run"
    while kills < 20:
        shutil.rmtree(run, ignore_errors=True) if (run / "checkpoint-9").exists() else None
        process = subprocess.Popen(
            plain(*every, "output_dir=run", "resume=true"), cwd=tmp_path, env=surroundings(),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        said = []
        for line in process.stdout:
            said.append(line)
            if line.startswith("step "):
                time.sleep(chance.uniform(0, 0.6))
                break
        while kills % 2 and process.poll() is None and not saving(run):
            time.sleep(0.001)
        if process.poll() is None:
            in_a_save += saving(run)
            os.killpg(process.pid, signal.SIGKILL)
            kills += 1
        process.stdout.read()
        assert process.wait(timeout=120) in (0, -signal.SIGKILL), "".join(said)[-4000:]
    launch("train/sft.py", *every, "output_dir=run", "resume=true")
    print(f"{in_a_save} of {kills} kills fell into a save")
    assert in_a_save > 0
    assert_same_end(tmp_path / "whole", run)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("model", "method"), [("tiny_qwen3_vl", "lora"), ("tiny_gemma3", "full")])
def test_two_processes_that_are_killed_continue_bit_for_bit(model, method, launch, tmp_path):
    """Killed at 40 % of epoch 2 of 3, in the middle of an epoch; continued with another number of workers."""
    common = [
        *RUN, f"model={model}", f"train.method={method}", "train.batching=auto", "data.parts.4x4.count=10",
        "data.parts.8x8.count=10", "train.checkpoint_every=3",
    ]  # fmt: skip
    launch("train/sft.py", *common, "output_dir=whole", config="cpu2.yaml")
    with subprocess.Popen(
        command("train/sft.py", *common, "output_dir=killed", config="cpu2.yaml"), cwd=tmp_path, env=surroundings(),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        for line in process.stdout:
            if line.startswith("step 7/15"):
                os.killpg(process.pid, signal.SIGKILL)
                break
    launch("train/sft.py", *common, "output_dir=killed", "resume=true", "train.workers=2", config="cpu2.yaml")
    assert_same_end(tmp_path / "whole", tmp_path / "killed", step=15)


def in_namespace(options: str, script: str, folder: Path, timeout: float = 280) -> subprocess.CompletedProcess[str]:
    """A shell script in namespaces of its own."""
    return subprocess.run(
        ["unshare", options, "bash", "-ec", script], cwd=folder, env=surroundings(), capture_output=True, text=True,
        check=False, stdin=subprocess.DEVNULL, timeout=timeout,
    )  # fmt: skip


def skip_without(options: str, script: str) -> None:
    try:
        done = in_namespace(options, script, Path.cwd(), timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"unshare {options} does not work here ({error}); Linux, as root, lets this run")
    if done.returncode:
        pytest.skip(
            f"unshare {options} does not work here ({done.stderr.strip()}); root, with namespaces, lets this run"
        )


@pytest.mark.slow
def test_a_full_disk_is_said_and_the_earlier_checkpoint_stays(tmp_path):
    mount = "mount -t tmpfs -o size=11m none run"
    (tmp_path / "run").mkdir()
    skip_without("-rm", f"cd {tmp_path}; {mount}")
    train = " ".join(f"'{argument}'" for argument in plain(*RUN, "train.checkpoint_every=1", "output_dir=run"))
    done = in_namespace(
        "-rm", f"{mount}; {train} && status=0 || status=$?; ls run; cp -r run kept; exit $status", tmp_path
    )
    assert done.returncode == 4, done.stderr[-4000:]
    assert "Traceback" not in done.stderr
    told = done.stderr.partition("error: the checkpoint of step")[2]
    assert "is complete and kept" in told
    kept = told.partition(" is complete")[0].rpartition(" ")[2]
    manifest = json.loads((tmp_path / "kept" / kept / "manifest.json").read_text())
    for name, size in manifest["files"].items():
        assert (tmp_path / "kept" / kept / name).stat().st_size == size
    assert load_file(tmp_path / "kept" / kept / "model.safetensors")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_without_any_network_trains_evaluates_and_resumes(tmp_path, launch):
    """No interface but a loopback that is down; the time against the same run with the network there is printed."""
    skip_without("-rn", "true")
    small = [
        *RUN, "wandb.mode=offline", "eval.final_count=1", "train.checkpoint_every=3", "trainer.num_train_epochs=2",
        "eval.parts={4x4: {task: jigshape, spec: {grid: 4, piece_px: 8, tab_ratio: 0.3}, count: 1}}",
    ]  # fmt: skip
    environment = {name: value for name, value in surroundings().items() if name != "HF_HUB_OFFLINE"}
    seconds = {}
    for name, before in (("with", []), ("without", ["unshare", "-rn"])):
        for resumed in (False, True):
            steps = "trainer.max_steps=6" if resumed else "trainer.max_steps=3"
            started = time.monotonic()
            done = subprocess.run(
                [*before, *plain(*small, steps, f"output_dir={name}", f"resume={str(resumed).lower()}")],
                cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=250,
            )  # fmt: skip
            seconds[name] = seconds.get(name, 0) + time.monotonic() - started
            assert done.returncode == 0, done.stderr[-4000:]
        assert len(losses(tmp_path / name / "checkpoint-6")) == 6
        assert (tmp_path / name / "records/final.jsonl").is_file()
    print(f"with the network {seconds['with']:.1f} s, without {seconds['without']:.1f} s")
    assert losses(tmp_path / "with/checkpoint-6") == losses(tmp_path / "without/checkpoint-6")
