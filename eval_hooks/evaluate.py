"""The evaluator: ask a model every puzzle of a mixture and score the answers."""

from __future__ import annotations

import typing
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import torch
import torch.distributed as dist
from tqdm import tqdm

from data_mix.mixture import Posed
from eval_hooks.protocol import GREEDY, Protocol
from eval_hooks.records import Record, score_completion
from eval_hooks.undisturbed import undisturbed
from models.constrained import generate_constrained
from models.drawing import GumbelDraw, draw_seed
from models.generation import Completion, generate
from models.lengths import Lengths, example_lengths
from models.load import Encoder, Loaded
from tasks.grammar import Grammar

_MEASURED_AT_ONCE = 64
"""Puzzles that are held at a time while their lengths are found."""


class EvaluationStoppedError(RuntimeError):
    """It was given up, on all processes."""


class Puzzles(typing.Protocol):
    """A mixture, or a plain list of posed puzzles."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Posed: ...


class Question(NamedTuple):
    """One answer to be had."""

    position: int
    """Of the puzzle in the mixture."""
    sample: int = 0
    """Number of the answer, where a puzzle is asked several times."""


@dataclass(frozen=True)
class Batch:
    """Questions that are asked together. Which ones does not depend on how many processes there are."""

    questions: tuple[Question, ...]
    """All of one part."""
    limits: tuple[int, ...]
    """Most tokens that each completion may have; one that is not over by then counts as truncated."""


@dataclass(frozen=True)
class _Measured:
    question: Question
    part: str
    prompt: int
    """Tokens of the prompt with its images."""
    limit: int
    """Most tokens of the completion."""


def plan_batches(
    encoder: Encoder, puzzles: Puzzles, batch: int, questions: Sequence[Question] | None = None
) -> list[Batch]:
    """Cut questions into batches: part by part, each sorted by length; the longest batches first.

    A puzzle's token limit is 1.25 x the tokens of its reference answer (end of turn included) + 32, rounded up, as far
    as the model's longest sequence allows, whoever else is in its batch.

    Args:
        batch: questions per batch.
        questions: what to ask; None: each puzzle once.

    Raises:
        ValueError: a puzzle's prompt and reference answer together are longer than the model's longest sequence.
    """
    parts: dict[str, list[_Measured]] = {}
    questions = [Question(index) for index in range(len(puzzles))] if questions is None else questions
    by_position: dict[int, list[Question]] = {}
    for question in questions:
        by_position.setdefault(question.position, []).append(question)
    positions = list(by_position)
    for start in range(0, len(positions), _MEASURED_AT_ONCE):
        some = positions[start : start + _MEASURED_AT_ONCE]
        posed = [puzzles[position] for position in some]
        lengths = example_lengths(encoder, [one.puzzle for one in posed])
        for position, one, needed in zip(some, posed, lengths, strict=True):
            own = [_measured(encoder, question, one, needed) for question in by_position[position]]
            parts.setdefault(one.part, []).extend(own)
    batches = []
    for part in parts.values():
        part.sort(key=_longest_first)
        batches += [part[start : start + batch] for start in range(0, len(part), batch)]
    batches.sort(key=lambda members: _longest_first(members[0]))  # too little memory shows at once
    return [Batch(tuple(m.question for m in members), tuple(m.limit for m in members)) for members in batches]


def _measured(encoder: Encoder, question: Question, posed: Posed, needed: Lengths) -> _Measured:
    if needed.total > encoder.max_tokens:
        raise ValueError(
            f"model.max_tokens: got {encoder.max_tokens}; puzzle {posed.index} of part {posed.part} "
            f"({posed.puzzle.key}) needs {needed.prompt} for its prompt and {needed.answer} for its answer; set "
            f"model.max_tokens={needed.total} or more, or choose smaller pieces or a smaller grid"
        )
    return _Measured(question, posed.part, needed.prompt, answer_limit(needed, encoder.max_tokens))


def answer_limit(lengths: Lengths, max_tokens: int) -> int:
    """Most tokens of a completion, in training and evaluation alike: see `plan_batches`.

    Args:
        max_tokens: the model's longest sequence.
    """
    return min(ceil(1.25 * lengths.answer) + 32, max_tokens - lengths.prompt)


def _longest_first(measured: _Measured) -> tuple[int, Question]:
    return (-measured.prompt - measured.limit, measured.question)


def answers(
    loaded: Loaded,
    puzzles: Puzzles,
    batches: Sequence[Batch],
    *,
    protocol: Protocol = GREEDY,
    seed: int = 0,
    autocast: torch.dtype | None = None,
    progress: bool = True,
) -> Generator[list[tuple[Question, Posed, Completion]], None, None]:
    """What a model in this process answers, batch by batch. Random states, gradients and training flags stay as they
    are.

    Args:
        seed: where tokens are drawn, an answer depends on its puzzle, its sample's number and this alone.
        autocast: compute in this type under torch.autocast; None: in the weights' own.
        progress: show a progress bar.
    """
    device = loaded.model.device.type
    with (
        undisturbed(loaded.model),
        nullcontext() if autocast is None else torch.autocast(device, dtype=autocast),
        tqdm(
            total=sum(len(one.questions) for one in batches), desc="evaluating", unit="answer", leave=False,
            disable=not progress,
        ) as bar,
    ):  # fmt: skip
        for one in batches:
            asked = [puzzles[question.position] for question in one.questions]
            yield list(zip(one.questions, asked, _write(loaded, one, asked, protocol, seed), strict=True))
            bar.update(len(asked))


def _write(loaded: Loaded, batch: Batch, asked: list[Posed], protocol: Protocol, seed: int) -> Sequence[Completion]:
    prompts = [(posed.puzzle.messages, posed.example().images) for posed in asked]
    if protocol.constrained:
        return generate_constrained(loaded, prompts, [grammar_of(posed) for posed in asked])
    draw = None
    if protocol.drawing:
        each = zip(batch.questions, asked, strict=True)
        seeds = [draw_seed(seed, posed.puzzle.key, question.sample) for question, posed in each]
        draw = GumbelDraw(protocol.drawing, seeds)
    return generate(loaded, prompts, batch.limits, draw)


def grammar_of(posed: Posed) -> Grammar:
    """What may be answered to a puzzle.

    Raises:
        ValueError: its task has no grammar.
    """
    task, puzzle = posed.task, posed.puzzle
    if task.grammar is None:
        raise ValueError(
            f"eval.protocol: got constrained, but part {posed.part} is of task {task.name}, which has no grammar; "
            "allowed are greedy and sampled; set eval.protocol=greedy, or leave the part out"
        )
    return task.grammar(puzzle.spec, puzzle.target.get("asked", {}))


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
    if not stop():
        with closing(answers(loaded, puzzles, mine, autocast=autocast, progress=progress and rank == 0)) as asking:
            for answered in asking:
                for question, posed, completion in answered:
                    records[question.position] = score_completion(
                        posed, completion, model=model_name, step=step, protocol=protocol
                    )
                beat()
                if stop():
                    break
    own = records if len(records) == sum(len(one.questions) for one in mine) else None
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
