"""eval_hooks.watch, started for real on a really trained run: beside it, stopped, killed, and with a server."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from eval_hooks.held import WATCH
from eval_hooks.records import read_records
from eval_hooks.run_files import checkpoints, read_best, records_file
from tests.entry.conftest import ROOT, finished, surroundings

TRAIN = [
    str(ROOT / "train/sft.py"), "recipe=mixed_grid", "model=tiny_qwen3_vl", "data.photos.use=reuse",
    "data.parts.4x4.spec.piece_px=8", "data.parts.4x4.spec.tab_ratio=0.3", "data.parts.4x4.count=16",
    "data.parts.8x8=null", "data.parts.12x12=null", "data.parts.16x16=null", "train.effective_batch=2",
    "train.workers=0", "train.batching=plain", "trainer.learning_rate=1e-3", "wandb.mode=disabled", "eval.count=0",
    "train.precision=fp32", "output_dir=run",
]  # fmt: skip
STAND_IN = str(ROOT / "tests/entry/serve_like_vllm.py")
RIGHT_FORM = json.dumps({str(piece): [(piece - 1) // 4, (piece - 1) % 4] for piece in range(1, 17)})


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A folder in which a run of two steps is, each a checkpoint; the last one judged by training itself."""
    folder = tmp_path_factory.mktemp("trained")
    arguments = ["trainer.max_steps=2", "train.checkpoint_every=1", "eval.final_count=2"]
    done = finished([sys.executable, *TRAIN, *arguments], folder)
    assert done.returncode == 0, done.stderr[-6000:]
    return folder


@pytest.fixture
def run(trained, tmp_path) -> Path:
    """A copy of that run."""
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    return tmp_path / "run"


def watching(run: Path, *arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "eval_hooks.watch", "run=run", "every=0.2", *arguments], cwd=run.parent, text=True,
        env={**surroundings(), "PYTHONPATH": str(ROOT), "ACCELERATE_USE_CPU": "true"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def watched(run: Path, *arguments: str, status: int = 0) -> str:
    process = watching(run, *arguments)
    said, _ = process.communicate(timeout=280)
    assert process.returncode == status, f"{process.returncode}\n{said[-6000:]}"
    return said


def without_times(file: Path):
    return [dataclasses.replace(record, seconds=0.0) for record in read_records(file).records]


def test_it_judges_each_checkpoint_as_the_training_does(run):
    said = watched(run, "eval.count=2")
    assert without_times(records_file(run, 2)) == without_times(run / "records/final.jsonl")
    assert said.index("evaluation at step 1 (eval split") < said.index("evaluation at step 2 (eval split")
    assert said.endswith(f"best: step {read_best(run).step}, mean primary {100 * read_best(run).score:.1f}\n")
    assert not (run / WATCH).exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_stopped_watch_stops_its_evaluation_and_continues_where_it_was(number, run):
    arguments = ["eval.count=4", "eval.batch=1", "once=true"]
    shutil.rmtree(run / "checkpoint-2")
    process = watching(run, *arguments)
    part = run / "records/step-000001.jsonl.parts/rank-0.jsonl"
    while process.poll() is None and not (part.is_file() and part.stat().st_size):
        time.sleep(0.05)
    process.send_signal(number)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopped; what is judged is kept, and the same command continues" in said
    assert "Traceback" not in said
    assert not (run / WATCH).exists()
    assert not records_file(run, 1).exists()
    before = part.read_text().splitlines(keepends=True)
    watched(run, *arguments)
    after = records_file(run, 1).read_text().splitlines(keepends=True)
    assert 0 < len(before) < len(after) == 4
    assert {line for line in before if line.endswith("\n")} <= set(after)  # with the very seconds that they took


def test_each_checkpoint_is_served_for_its_evaluation_alone(run):
    server = f"{sys.executable} {STAND_IN} --started started.txt --answer '{RIGHT_FORM}'"
    watched(run, "eval.count=2", f"server={server}")
    started = [line.split() for line in (run.parent / "started.txt").read_text().splitlines()]
    assert [name for name, _ in started] == ["checkpoint-1", "checkpoint-2"]
    for _, number in started:
        assert not Path(f"/proc/{number}").exists()
    for step in (1, 2):
        records = read_records(records_file(run, step)).records
        assert [(record.step, record.model) for record in records] == [(step, "tiny_qwen3_vl")] * 2
        assert {record.text for record in records} == {RIGHT_FORM}
    assert read_best(run).step == 1


def test_a_server_of_a_killed_watch_ends_with_it(run):
    """It never says that it is well, so that the watch is killed while it waits."""
    (run.parent / "deaf.py").write_text(
        "import os, pathlib, time\n"
        "pathlib.Path('number.txt').write_text(str(os.getpid()))\n"
        "pipe = os.open('pipe', os.O_WRONLY)\n"
        "time.sleep(1000)"
    )
    os.mkfifo(run.parent / "pipe")
    process = watching(run, "eval.count=2", f"server={sys.executable} deaf.py")
    with (run.parent / "pipe").open("rb") as pipe:
        process.kill()
        assert pipe.read() == b""  # which comes when nobody can write to it any more
    process.communicate()


@pytest.mark.slow
def test_beside_a_training_that_keeps_one_checkpoint_the_best_one_is_there_in_the_end(tmp_path):
    """Constrained answers are valid, and so have scores that differ."""
    steps = [15, 30, 45, 60]
    arguments = ["trainer.max_steps=60", "train.checkpoint_every=15", "train.keep_checkpoints=1", "eval.final_count=0"]
    run = tmp_path / "run"
    with subprocess.Popen(
        [sys.executable, *TRAIN, *arguments, "data.parts.4x4.count=120"], cwd=tmp_path, env=surroundings(),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as training:  # fmt: skip
        while training.poll() is None and not (run / "recipe.yaml").exists():
            time.sleep(0.05)
        said = watched(run, "eval.count=4", "eval.protocol=constrained")
    assert training.returncode == 0
    judged = [step for step in steps if records_file(run, step).is_file()]
    gone = said.partition("gone before they could be judged: steps ")[2].partition(";")[0]
    assert sorted(judged + [int(step) for step in gone.split(", ") if step]) == steps
    assert {60, read_best(run).step} <= checkpoints(run).keys()
    scores = {
        step: [record.scores["pa"] for record in read_records(records_file(run, step)).records] for step in judged
    }
    assert read_best(run).score == pytest.approx(max(sum(each) / 4 for each in scores.values()))
    assert not (run / WATCH).exists()


@pytest.mark.slow
def test_a_real_server_gives_the_answers_of_this_process(run):
    """`transformers serve` does not know all words that vLLM does."""
    if find_spec("fastapi") is None:
        pytest.skip("transformers serve needs fastapi and others; pip install 'transformers[serving]' lets this run")
    serve = str(Path(sys.executable).with_name("transformers"))
    (run.parent / "serve.py").write_text(
        "import os, sys\n"
        "folder, _, name, *where = sys.argv[1:]\n"
        "os.chdir(os.path.dirname(folder))  # the server knows a model by its path alone\n"
        f"os.execv({serve!r}, [{serve!r}, 'serve', name, '--device', 'cpu', *where])\n"
    )
    watched(run, "eval.count=2", f"server={sys.executable} serve.py", "endpoint.concurrency=1", "once=true")
    texts = [record.text for record in read_records(records_file(run, 2)).records]
    assert texts == [record.text for record in read_records(run / "records/final.jsonl").records]
