"""Starts the real scripts as a user would."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def command(script: str, *arguments: str, config: str | None = None) -> list[str]:
    """`accelerate launch` of a script, with a launch config from launch/accelerate/ or elsewhere, or none."""
    launcher = [sys.executable, "-m", "accelerate.commands.launch"]
    launcher += ["--config_file", str(ROOT / "launch/accelerate" / config)] if config else ["--num_processes", "1"]
    if config == "cpu2.yaml":  # a free port: tests run beside each other
        launcher += ["--main_process_port", "0"]
    return [*launcher, str(ROOT / script), *arguments]


def surroundings() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "HF_HUB_OFFLINE": "1"}


@pytest.fixture
def launch(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`launch(script, *arguments, config=None)`: accelerate launch in tmp_path; it must succeed."""

    def run(script: str, *arguments: str, config: str | None = None) -> subprocess.CompletedProcess[str]:
        done = finished(command(script, *arguments, config=config), tmp_path)
        assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-6000:]}"
        return done

    return run


@pytest.fixture
def refused(tmp_path: Path) -> Callable[..., str]:
    """`refused(script, *arguments)`: what a plain start, which must be refused with status 2, writes to stderr."""

    def run(script: str, *arguments: str) -> str:
        done = finished([sys.executable, str(ROOT / script), *arguments], tmp_path)
        assert done.returncode == 2, f"exit status {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-6000:]}"
        assert "Traceback" not in done.stderr
        return done.stderr

    return run


def finished(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments, cwd=folder, env=surroundings(), capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL, timeout=280,
    )  # fmt: skip


@pytest.fixture
def launch_and_kill(tmp_path: Path) -> Callable[..., None]:
    """`launch_and_kill(script, *arguments, at=text)`: SIGKILL the whole process group when a line starts with `at`."""

    def run(script: str, *arguments: str, at: str) -> None:
        with subprocess.Popen(
            command(script, *arguments),
            cwd=tmp_path, env=surroundings(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            stdin=subprocess.DEVNULL, start_new_session=True,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            seen = []
            for line in process.stdout:
                seen.append(line)
                if line.startswith(at):
                    os.killpg(process.pid, signal.SIGKILL)
                    break
            else:
                pytest.fail(f"the run ended before a line began with {at!r}:\n{''.join(seen)[-6000:]}")

    return run
