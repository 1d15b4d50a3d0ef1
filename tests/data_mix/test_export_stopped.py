"""Exports that are stopped from outside, for real."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from data_mix.export.command import main, parse_request
from data_mix.export.plan import Shard
from data_mix.export.rows import write_shard
from data_mix.mixture import training_mixture
from data_mix.photos import find_photos
from data_mix.workers import in_processes

ROOT = Path(__file__).resolve().parents[2]
MANY = ("data.parts.2x2.count=20", "data.parts.probe.count=20", "data.parts.plain.count=20", "data.photos.use=reuse")


def run(*tokens: str) -> int:
    return main([*tokens, "workers=1"])


def rows_in(folder: Path) -> list[dict]:
    """All columns of all shards, images as the bytes of their files."""
    return [row for file in sorted((folder / "data").glob("*.parquet")) for row in pq.read_table(file).to_pylist()]


@pytest.fixture
def started(tmp_path) -> Callable[..., subprocess.Popen]:
    """started(*tokens): the real command in a process group of its own."""

    def start(*tokens: str) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-m", "data_mix.export", *tokens], cwd=tmp_path, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip

    return start


def read_until(process: subprocess.Popen, done: int, total: int) -> None:
    """Follow the progress bar until so many rows are written."""
    seen = b""
    while chunk := process.stderr.read1():
        seen += chunk
        counts = [int(count) for count in re.findall(rb"(\d+)/%d" % total, seen)]
        if max(counts, default=0) >= done:
            return
    pytest.fail(seen.decode()[-3000:])


def test_an_export_killed_twice_is_the_unbroken_one_byte_for_byte(asked, started, tmp_path):
    command = asked("split=train", "shard=2", *MANY)
    assert run(*command, "out=whole") == 0
    (tmp_path / "whole").rename(tmp_path / "unbroken")
    done = 0
    for stop in (8, 30):
        with started(*command, "out=whole", "workers=2") as process:
            read_until(process, stop, 60)
            workers = psutil.Process(process.pid).children(recursive=True)
            process.kill()
        assert process.returncode == -signal.SIGKILL
        assert psutil.wait_procs(workers, timeout=60)[1] == []  # they leave by themselves
        shards = list((tmp_path / "whole/data").glob("train-*.parquet"))
        assert done < len(shards) < 30
        done = len(shards)
        assert not (tmp_path / "whole/README.md").exists()
    assert run(*command, "out=whole") == 0
    assert rows_in(tmp_path / "whole") == rows_in(tmp_path / "unbroken")
    assert len(rows_in(tmp_path / "whole")) == 60
    assert {file.name for file in (tmp_path / "whole/data").iterdir()} == {
        file.name for file in (tmp_path / "unbroken/data").iterdir()
    }
    for name in ("README.md", "manifest.json"):
        assert (tmp_path / "whole" / name).read_text() == (tmp_path / "unbroken" / name).read_text()


def test_ctrl_c_leaves_a_folder_to_continue_and_no_process(asked, started, tmp_path):
    longer = [f"data.parts.{part}.count=200" for part in ("2x2", "probe", "plain")]  # not over before it is stopped
    command = asked("split=train", "shard=2", "out=out", *MANY, *longer)
    with started(*command) as process:
        read_until(process, 6, 600)
        workers = psutil.Process(process.pid).children(recursive=True)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        said = process.stderr.read().decode()
    assert process.returncode == 130
    assert psutil.wait_procs(workers, timeout=60)[1] == []
    assert "what is written stays, and the same command continues" in said
    assert "Traceback" not in said
    assert run(*command) == 0
    assert len(rows_in(tmp_path / "out")) == 600


def test_a_photo_that_vanishes_meanwhile_is_named(asked, tmp_path):
    recipe = parse_request(asked("split=train")).recipe
    mixture = training_mixture(recipe, find_photos(recipe.data.photos))
    gone = mixture[0].photo.path
    Path(gone).unlink()
    (tmp_path / "out/data").mkdir(parents=True)
    shards = [Shard("data/one", 1, 2), Shard("data/two", 0, 1)]
    with pytest.raises(ValueError, match=re.escape(f"{gone}: was a photo when the run started")):
        list(in_processes(write_shard, (mixture, tmp_path / "out"), shards, 1))
    assert not (tmp_path / "out/data/two").exists()


def test_a_worker_that_is_killed_is_told(asked, started, tmp_path):
    with started(*asked("split=train", "shard=2", "out=out", *MANY)) as process:
        read_until(process, 2, 60)
        for worker in psutil.Process(process.pid).children(recursive=True):
            worker.kill()
        said = process.stderr.read().decode()
    assert process.returncode == 2
    assert "error: got a worker that was ended from outside" in said


def test_two_exports_do_not_write_into_one_folder(asked, started, tmp_path, capsys):
    command = asked("split=train", "shard=2", "out=out", *MANY)
    with started(*command) as process:
        read_until(process, 2, 60)
        process.send_signal(signal.SIGSTOP)
        assert run(*command) == 2
        process.send_signal(signal.SIGCONT)
        process.communicate()
    assert "where another export is writing" in capsys.readouterr().err
    assert process.returncode == 0
