"""`vllm serve` for one checkpoint: started, waited for, and stopped."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from eval_hooks.children import last_lines, started
from models.load import ADAPTER_CONFIG
from recipes.fields import problem
from recipes.schema import Recipe

HOST = "127.0.0.1"
LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""What vLLM takes for --max-lora-rank (its LoRAConfig)."""
_LOOK_S = 0.5
"""Between two looks whether a server has begun to answer."""


class ServerError(RuntimeError):
    """The server does not answer, and will not."""


@dataclass(frozen=True)
class Server:
    """How a checkpoint is served."""

    command: tuple[str, ...]
    """What stands before the model: vllm serve, and options for all checkpoints."""
    start_s: float
    """Longest time until it answers."""


def server_problems(recipe: Recipe) -> list[str]:
    """Why checkpoints of this recipe cannot be judged in vLLM as they are; [] if they can."""
    found = []
    if recipe.eval.protocol == "constrained":
        allowed = "greedy | sampled with server=, whose tokens are its own"
        found.append(problem("eval.protocol", "constrained", allowed, "do set eval.protocol=greedy"))
    methods = recipe.train.methods()
    if "lora" not in methods.values():
        return found
    advice = "do leave server= out"
    beside = [name for name, method in methods.items() if name != "language" and method != "frozen"]
    if beside:  # it ignores what it does not know in an adapter, and would answer without it
        got = f"an adapter with {' and '.join(beside)}"
        found.append(problem("server", got, "full models, and adapters of the language tower alone", advice))
    if recipe.model.pretrained is None:
        found.append(problem("server", "adapters on a model from scratch", "adapters on pretrained weights", advice))
    if recipe.train.lora.rank > LORA_RANKS[-1]:
        found.append(problem("server", f"rank {recipe.train.lora.rank}", f"at most {LORA_RANKS[-1]}", advice))
    return found


def model_words(recipe: Recipe, checkpoint: Path, name: str) -> list[str]:
    """What tells vLLM the model: a full one, or an adapter on the recipe's base.

    Args:
        name: what requests call it.
    """
    if not (checkpoint / ADAPTER_CONFIG).is_file():
        return [str(checkpoint), "--served-model-name", name]
    rank = next(rank for rank in LORA_RANKS if rank >= recipe.train.lora.rank)
    revision = ["--revision", recipe.model.revision] if recipe.model.revision else []
    adapter = ["--enable-lora", "--lora-modules", f"{name}={checkpoint}", "--max-lora-rank", str(rank)]
    return [str(recipe.model.pretrained), *revision, *adapter]


@contextmanager
def serving(
    server: Server, recipe: Recipe, checkpoint: Path, name: str, log: Path, meanwhile: Callable[[], None]
) -> Iterator[tuple[str, Callable[[], None]]]:
    """A server of a checkpoint for the length of the block.

    Args:
        log: what the server says goes there.
        meanwhile: called often until it answers.

    Returns:
        Its address, up to /v1, and a check that raises ServerError when it has ended.

    Raises:
        ServerError: it ended, or did not answer in time.
        OSError: there is no such program.
    """
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = probe.getsockname()[1]
    words = [*server.command, *model_words(recipe, checkpoint.resolve(), name), "--host", HOST, "--port", str(port)]
    with started(words, log, signal.SIGTERM) as process:

        def check() -> None:
            if process.poll() is not None:
                raise ServerError(f"the server ended with status {process.returncode}; its last words:\n{_tail(log)}")

        _until_it_answers(process, f"http://{HOST}:{port}/health", server.start_s, check, meanwhile, log)
        yield f"http://{HOST}:{port}/v1", check


def _until_it_answers(
    process: subprocess.Popen[bytes],
    url: str,
    start_s: float,
    check: Callable[[], None],
    meanwhile: Callable[[], None],
    log: Path,
) -> None:
    until = time.monotonic() + start_s
    with httpx.Client(timeout=5.0, trust_env=False) as client:  # no proxy between this machine and itself
        while time.monotonic() < until:
            check()
            meanwhile()
            try:
                if client.get(url).is_success:
                    return
            except httpx.HTTPError:  # it does not listen yet
                pass
            try:
                process.wait(timeout=_LOOK_S)
            except subprocess.TimeoutExpired:
                continue
    raise ServerError(
        f"the server did not answer within {start_s:g} s; do give start_s= more; its last words:\n{_tail(log)}"
    )


def _tail(log: Path) -> str:
    return last_lines(log) or "    (none)"
