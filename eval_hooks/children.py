"""Processes that a command starts, and that do not outlive it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from eval_hooks.records import printable

PATIENCE_S = 30.0
"""How long a process may take to end when it is asked to."""
TAIL_BYTES, TAIL_LINES = 8192, 15
"""Of a log, for a person."""


class StalledError(RuntimeError):
    """A program goes on without getting anywhere."""


_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


@contextlib.contextmanager
def started(
    words: Sequence[str], log: Path, asked: signal.Signals, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program with what it says going to `log`; when the block ends, it has ended, too, with all it started.

    Args:
        asked: the signal that asks it to end; SIGKILL follows.
        environment: variables beside those of this process.

    Raises:
        OSError: there is no such program.
    """
    with log.open("wb") as file:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            start_new_session=True,  # a group to signal; and a terminal's Ctrl-C comes to it from here alone
            preexec_fn=_end_with_parent,
        )  # fmt: skip
    try:
        yield process
    finally:
        _stop(process, asked)


def wait(process: subprocess.Popen[bytes], every_s: float, meanwhile: Callable[[], None]) -> int:
    """The exit status of a process; `meanwhile` is called each `every_s` seconds until it ends."""
    while True:
        try:
            return process.wait(timeout=every_s)
        except subprocess.TimeoutExpired:
            meanwhile()


def check_alive(log: Path, patience_s: float) -> None:
    """
    Raises:
        StalledError: a program has said nothing for so long, not even by its progress bar.
    """
    if time.time() - log.stat().st_mtime > patience_s:
        raise StalledError(f"nothing was heard of the evaluation for {patience_s:g} s (train.stall_timeout_s)")


def last_lines(log: Path) -> str:
    """How a log ends; a progress bar's lines count as lines."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL_BYTES))
        text = file.read().decode(errors="replace")
    lines = [line.rstrip() for line in text.replace("\r", "\n").split("\n")]
    return "\n".join(f"    {printable(line)}" for line in [line for line in lines if line][-TAIL_LINES:])


def _stop(process: subprocess.Popen[bytes], asked: signal.Signals) -> None:
    try:
        if process.poll() is None:
            _signal(process, asked)
            process.wait(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        pass
    finally:  # also what it started and left behind
        _signal(process, signal.SIGKILL)
        process.wait()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _end_with_parent() -> None:
    """Where this process is killed and can stop nothing any more, Linux does it."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
