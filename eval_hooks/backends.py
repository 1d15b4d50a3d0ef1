"""Who answers: a model in this process, or a server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import torch

from data_mix.mixture import Mixture, Posed
from eval_hooks import protocol
from eval_hooks.endpoint import Endpoint, Prompt, Usage, ask
from eval_hooks.evaluate import Question, answers, plan_batches
from eval_hooks.run_files import RECIPE, find_checkpoint
from models.generation import Completion
from models.load import ADAPTER_CONFIG, Loaded, load_checkpoint, load_encoder, load_model
from recipes.schema import Recipe

Deliver = Callable[[Sequence[tuple[Question, Posed, Completion]]], None]
"""Takes answers as they come."""


class Backend(Protocol):
    """One way to have questions answered."""

    def answer(self, mixture: Mixture, questions: Sequence[Question], deliver: Deliver) -> None:
        """Ask this process's share of the questions; where a server gives none, nothing is delivered."""

    def describe(self) -> str:
        """What it took, for a person; empty where there is nothing to say."""


class InProcess:
    """A model in the memory of this process; several processes share the questions."""

    def __init__(
        self, place: str, recipe: Recipe, how: protocol.Protocol, device: torch.device, rank: int, processes: int
    ) -> None:
        """
        Raises:
            ValueError: there is no such model, or it is not complete.
        """
        self._loaded = load(place, recipe)
        self._loaded.model.to(device)
        self._recipe, self._how = recipe, how
        self._rank, self._processes = rank, processes

    def answer(self, mixture: Mixture, questions: Sequence[Question], deliver: Deliver) -> None:
        recipe = self._recipe
        batches = plan_batches(self._loaded, mixture, recipe.eval.batch, questions)[self._rank :: self._processes]
        for answered in answers(
            self._loaded, mixture, batches, protocol=self._how, seed=recipe.seed, progress=self._rank == 0
        ):
            deliver(answered)

    def describe(self) -> str:
        return ""


class Served:
    """An OpenAI-compatible server."""

    def __init__(self, endpoint: Endpoint, recipe: Recipe, how: protocol.Protocol) -> None:
        self._endpoint, self._recipe, self._how = endpoint, recipe, how
        self._usage = Usage()

    def answer(self, mixture: Mixture, questions: Sequence[Question], deliver: Deliver) -> None:
        """
        Raises:
            EndpointError: the server refuses such questions for good.
        """
        limits = self._limits(mixture, questions)

        def prompt(number: int) -> Prompt:
            posed = mixture[questions[number].position]
            seed = {"seed": questions[number].sample} if self._how.drawing else {}
            return Prompt(posed.puzzle.messages, posed.example().images, limits[number], seed)

        def hand_on(number: int, completion: Completion) -> None:
            deliver([(questions[number], mixture[questions[number].position], completion)])

        ask(self._endpoint, len(questions), prompt, hand_on, self._usage)

    def describe(self) -> str:
        return self._usage.describe()

    def _limits(self, mixture: Mixture, questions: Sequence[Question]) -> list[int]:
        """Most tokens of each completion."""
        given = self._recipe.endpoint.max_completion_tokens
        if given is not None:
            return [given] * len(questions)
        batches = plan_batches(load_encoder(self._recipe.model), mixture, 1, questions)
        found = {batch.questions[0]: batch.limits[0] for batch in batches}
        return [found[question] for question in questions]


class Named(NamedTuple):
    """What a place on the command line means."""

    model: str
    step: int | None = None
    run: Path | None = None
    """The run folder that it is of."""
    place: str = ""
    """The one checkpoint that is meant: which one is a run's best may change at any moment."""


def name(place: str) -> Named:
    """
    Raises:
        ValueError: a folder in a run that holds no complete checkpoint.
    """
    folder = Path(place)
    if not _in_run(folder):
        return Named(folder.resolve().name if folder.is_dir() else place, place=place)
    found, stored, step = find_checkpoint(folder)
    return Named(stored.model.name, step, found.parent, str(found))


def load(place: str, recipe: Recipe) -> Loaded:
    """A model to ask: of a run, a folder, or a hub name. The recipe's model tells the base of an adapter in no run.

    Raises:
        ValueError: there is none, or it is not complete.
    """
    bf16 = recipe.train.precision == "bf16" and torch.cuda.is_available()
    dtype = torch.bfloat16 if bf16 else torch.float32
    folder = Path(place)
    if _in_run(folder):
        found, stored, _ = find_checkpoint(folder)
        return load_checkpoint(found, stored.model, seed=stored.seed, dtype=dtype)
    if (folder / ADAPTER_CONFIG).is_file():
        return load_checkpoint(folder, recipe.model, seed=recipe.seed, dtype=dtype)
    named = recipe.model.model_copy(update={"pretrained": place, "scratch": None, "architecture": None})
    return load_model(named, seed=recipe.seed, dtype=dtype, flash=bf16)


def _in_run(folder: Path) -> bool:
    return folder.is_dir() and ((folder / RECIPE).is_file() or (folder.resolve().parent / RECIPE).is_file())
