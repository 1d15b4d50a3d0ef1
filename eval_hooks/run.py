"""The evaluator: ask a model every puzzle of a mixture and score the answers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from math import ceil
from typing import Protocol

import torch
import torch.distributed as dist
from tqdm import tqdm

from data_mix.mixture import Posed
from eval_hooks.records import Record, score_completion
from eval_hooks.undisturbed import undisturbed
from models.generation import generate
from models.lengths import Lengths, example_lengths
from models.load import Loaded


class EvaluationStoppedError(RuntimeError):
    """It was given up, on all processes."""


class Puzzles(Protocol):
    """A mixture, or a plain list of posed puzzles."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Posed: ...


@dataclass(frozen=True)
class Batch:
    """Puzzles that are asked together. Which ones does not depend on how many processes there are."""

    indices: tuple[int, ...]
    """Positions in the mixture; all of one part."""
    max_new_tokens: int
    """Most tokens that a completion may have; one that is not over by then counts as truncated."""


@dataclass(frozen=True)
class _Measured:
    index: int
    part: str
    prompt: int
    """Tokens of the prompt with its images."""
    limit: int
    """Most tokens of the completion."""


def plan_batches(loaded: Loaded, puzzles: Puzzles, batch: int) -> list[Batch]:
    """Cut puzzles into batches: part by part, each sorted by length; the longest batches first.

    A puzzle's token limit is 1.25 x the tokens of its reference answer (end of turn included) + 32, rounded up, as far
    as the model's longest sequence allows; a batch's is the largest of its puzzles'.

    Args:
        batch: puzzles per batch.

    Raises:
        ValueError: a puzzle's prompt and reference answer together are longer than the model's longest sequence.
    """
    parts: dict[str, list[_Measured]] = {}
    asked = [puzzles[index] for index in range(len(puzzles))]
    for index, (posed, needed) in enumerate(
        zip(asked, example_lengths(loaded, [posed.puzzle for posed in asked]), strict=True)
    ):
        parts.setdefault(posed.part, []).append(_measured(loaded, index, posed, needed))
    batches = []
    for part in parts.values():
        part.sort(key=_longest_first)
        batches += [part[start : start + batch] for start in range(0, len(part), batch)]
    batches.sort(key=lambda members: _longest_first(members[0]))  # too little memory shows at once
    return [Batch(tuple(m.index for m in members), max(m.limit for m in members)) for members in batches]


def _measured(loaded: Loaded, index: int, posed: Posed, needed: Lengths) -> _Measured:
    if needed.total > loaded.max_tokens:
        raise ValueError(
            f"model.max_tokens: got {loaded.max_tokens}; puzzle {posed.index} of part {posed.part} "
            f"({posed.puzzle.key}) needs {needed.prompt} for its prompt and {needed.answer} for its answer; set "
            f"model.max_tokens={needed.total} or more, or choose smaller pieces or a smaller grid"
        )
    limit = min(ceil(1.25 * needed.answer) + 32, loaded.max_tokens - needed.prompt)
    return _Measured(index, posed.part, needed.prompt, limit)


def _longest_first(measured: _Measured) -> tuple[int, int]:
    return (-measured.prompt - measured.limit, measured.index)


def evaluate(
    loaded: Loaded,
    puzzles: Puzzles,
    *,
    batch: int,
    model_name: str,
    step: int | None = None,
    protocol: str = "greedy",
    autocast: torch.dtype | None = None,
    progress: bool = True,
    beat: Callable[[], None] = lambda: None,
    stop: Callable[[], bool] = lambda: False,
) -> list[Record]:
    """Ask and score every puzzle, on all processes of the current process group.

    The batches are the same for any number of processes and are dealt to them in turn; the records are gathered on
    every process. Random states, gradients and training flags stay as they are.

    Args:
        batch: puzzles per generate call.
        autocast: compute in this type under torch.autocast; None: in the weights' own.
        progress: show a progress bar on the main process.
        beat: called after every batch.
        stop: asked before every batch; where one process is told to, nothing of the evaluation is kept on any.

    Returns:
        One record per puzzle, in the order of the mixture.

    Raises:
        ValueError: see `plan_batches`.
        EvaluationStoppedError: `stop` has said so.
    """
    together = dist.is_available() and dist.is_initialized()
    rank, processes = (dist.get_rank(), dist.get_world_size()) if together else (0, 1)
    mine = plan_batches(loaded, puzzles, batch)[rank::processes]
    records: dict[int, Record] = {}
    device = loaded.model.device.type
    with (
        undisturbed(loaded.model),
        nullcontext() if autocast is None else torch.autocast(device, dtype=autocast),
        tqdm(
            total=sum(len(one.indices) for one in mine), desc="evaluating", unit="puzzle", leave=False,
            disable=rank != 0 or not progress,
        ) as bar,
    ):  # fmt: skip
        for one in mine:
            if stop():
                break
            asked = [puzzles[index] for index in one.indices]
            prompts = [(posed.puzzle.messages, posed.example().images) for posed in asked]
            completions = generate(loaded, prompts, max_new_tokens=one.max_new_tokens)
            for index, posed, completion in zip(one.indices, asked, completions, strict=True):
                records[index] = score_completion(posed, completion, model=model_name, step=step, protocol=protocol)
            bar.update(len(asked))
            beat()
    own = records if len(records) == sum(len(one.indices) for one in mine) else None
    shares: list[dict[int, Record] | None] = [own]
    if together:
        shares = [None] * processes
        dist.all_gather_object(shares, own)  # a process without a batch takes part with an empty share
    records = {}
    for share in shares:
        if share is None:
            raise EvaluationStoppedError("the evaluation was stopped")
        records |= share
    return [records[index] for index in range(len(puzzles))]
