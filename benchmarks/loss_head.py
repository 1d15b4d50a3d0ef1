"""What the loss of one 16x16 answer costs in the LM head: memory above the inputs, and time, forward and backward.

    .venv/bin/python benchmarks/loss_head.py [vocabularies=151936,262208] [heads=dense,trl,ours] [repeats=3]
        [weight=trained|frozen]

2,131 answer positions of 13,000 tokens, hidden width 512, float32, one thread. The heads:
  dense     logits of all answer positions, then cross entropy and argmax
  trl       the function of TRL's fused head on the answer positions, as TRL runs it where there is Triton
  trl_all   the same on all 13,000 positions, as TRL runs it on a CPU (only if named)
  ours      train/head.py
Each run is a process of its own, the heads take turns, and figures are medians. Memory is the highest resident set
since the inputs were made, less the resident set then; a small run beforehand loads what the libraries load once.
Linux only.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from trl.kernels.chunked_logprob import ChunkedLogProbFunction
from trl.trainer.utils import _CHUNKED_LOGPROB_CHUNK_SIZE

from train.head import linear_nll

NUM_TOKENS, NUM_ANSWERS, WIDTH = 13_000, 2_131, 512
Inputs = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
"""hidden (L, H), weight (V, H), labels (L,) of which the last A are answer tokens, weights (A,)."""


def dense(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    num = len(weights)
    logits = torch.nn.functional.linear(hidden[-num:], weight)
    nll = torch.nn.functional.cross_entropy(logits, labels[-num:], reduction="none")
    with torch.no_grad():
        logits.argmax(dim=-1)
    return (weights * nll).sum()


def trl_fused(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return ChunkedLogProbFunction.apply(
        hidden, weight, None, labels, 1.0, _CHUNKED_LOGPROB_CHUNK_SIZE, None, 1.0, ("log_probs", "is_top1")
    )[0]


def trl(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    num = len(weights)
    return -(weights * trl_fused(hidden[-num:], weight, labels[-num:])).sum()


def trl_all(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return -(weights * trl_fused(hidden, weight, labels)[-len(weights) :]).sum()


def ours(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    num = len(weights)
    return linear_nll(hidden[-num:], weight, labels[-num:], weights).weighted_nll


HEADS: dict[str, Callable[..., torch.Tensor]] = {"dense": dense, "trl": trl, "trl_all": trl_all, "ours": ours}


def inputs(vocabulary: int, tokens: int, answers: int, trained: bool) -> Inputs:
    torch.manual_seed(0)
    hidden = torch.randn(tokens, WIDTH, requires_grad=True)
    weight = (torch.randn(vocabulary, WIDTH) / WIDTH**0.5).requires_grad_(trained)
    return hidden, weight, torch.randint(vocabulary, (tokens,)), torch.rand(answers)


def resident_mb(field: str) -> float:
    """VmRSS, the resident set, or VmHWM, its highest since `/proc/self/clear_refs` was told to forget."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines())
    return int(lines[field].split()[0]) / 1000


def run_once(head: str, vocabulary: int, trained: bool) -> None:
    """Prints memory in MB, time in s and the loss as JSON."""
    torch.set_num_threads(1)
    HEADS[head](*inputs(1_000, 64, 8, trained)).backward()
    given = inputs(vocabulary, NUM_TOKENS, NUM_ANSWERS, trained)
    before = resident_mb("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    started = time.perf_counter()
    loss = HEADS[head](*given)
    loss.backward()
    seconds = time.perf_counter() - started
    print(json.dumps({"mb": resident_mb("VmHWM") - before, "s": seconds, "loss": loss.item()}))


def main(argv: list[str]) -> None:
    given = dict(argument.split("=", 1) for argument in argv)
    trained = given.get("weight", "trained") == "trained"
    if "once" in given:
        run_once(given["once"], int(given["vocabularies"]), trained)
        return
    heads, repeats = given.get("heads", "dense,trl,ours").split(","), int(given.get("repeats", 3))
    print("vocabulary  head        MB  / dense       s  / dense  loss - dense's, relative")
    for vocabulary in given.get("vocabularies", "151936,262208").split(","):
        runs: dict[str, list[dict[str, float]]] = {head: [] for head in heads}
        for _ in range(repeats):
            for head in heads:
                command = [sys.executable, __file__, f"once={head}", f"vocabularies={vocabulary}"]
                command.append("weight=" + ("trained" if trained else "frozen"))
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                runs[head].append(json.loads(done.stdout))
        medians = {head: {key: median(run[key] for run in runs[head]) for key in ("mb", "s", "loss")} for head in heads}
        reference = medians[heads[0]]
        for head, found in medians.items():
            ratios = {key: found[key] / reference[key] for key in found}
            print(
                f"{int(vocabulary):>10,}  {head:<7} {found['mb']:>6.0f} {ratios['mb']:>8.3f} {found['s']:>7.2f} "
                f"{ratios['s']:>8.2f}  {ratios['loss'] - 1:.1e}",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
