"""Who answers: a model in this process, or a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import torch

from data_mix.mixture import Mixture, Posed
from eval_hooks import protocol
from eval_hooks.endpoint import Endpoint, Prompt, Usage, ask
from eval_hooks.evaluate import Question, answers, plan_batches
from eval_hooks.run_files import RECIPE, checkpoint_folders, find_checkpoint
from eval_hooks.source import source_of
from models.drawing import draw_seed
from models.generation import Completion
from models.load import ADAPTER_CONFIG, Loaded, load_checkpoint, load_encoder, load_model
from recipes.schema import Recipe

Deliver = Callable[[Sequence[tuple[Question, Posed, Completion]]], None]
"""Takes answers as they come."""


class Backend(Protocol):
    """One way to have questions answered."""

    def answer(self, mixture: Mixture, questions: Mapping[Question, bool], deliver: Deliver) -> None:
        """Ask this process's share of the questions; where a server gives none, nothing is delivered.

        Args:
            questions: all of the evaluation, with whether they are still to be asked.
        """

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

    def answer(self, mixture: Mixture, questions: Mapping[Question, bool], deliver: Deliver) -> None:
        """Batches are those of the whole evaluation, so that a continued one gets the very answers."""
        recipe = self._recipe
        planned = plan_batches(self._loaded, mixture, recipe.eval.batch, list(questions))
        batches = [batch for batch in planned if any(questions[one] for one in batch.questions)]
        for answered in answers(
            self._loaded, mixture, batches[self._rank :: self._processes], protocol=self._how, seed=recipe.seed,
            progress=self._rank == 0,
        ):  # fmt: skip
            deliver([one for one in answered if questions[one[0]]])

    def describe(self) -> str:
        return ""


class Served:
    """An OpenAI-compatible server."""

    def __init__(self, endpoint: Endpoint, recipe: Recipe, how: protocol.Protocol) -> None:
        self._endpoint, self._recipe, self._how = endpoint, recipe, how
        self._usage = Usage()

    def answer(self, mixture: Mixture, questions: Mapping[Question, bool], deliver: Deliver) -> None:
        """
        Raises:
            EndpointError: the server refuses such questions for good.
        """
        left = [question for question, open_ in questions.items() if open_]
        limits = self._limits(mixture, left)

        def prompt(number: int) -> Prompt:
            question = left[number]
            posed = mixture[question.position]
            seed = draw_seed(self._recipe.seed, posed.puzzle.key, question.sample) >> 32  # servers take 31 bits
            drawn = {"seed": seed} if self._how.drawing else {}
            return Prompt(posed.puzzle.messages, posed.example().images, limits[number], drawn)

        def hand_on(number: int, completion: Completion) -> None:
            deliver([(left[number], mixture[left[number].position], completion)])

        ask(self._endpoint, len(left), prompt, hand_on, self._usage)

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
    """What is asked."""

    model: str
    step: int | None
    run: Path | None
    """The run folder that it is of."""
    place: str
    """The one checkpoint that is meant: which one is a run's best may change at any moment."""
    source: Mapping[str, str]
    """What tells it from another one of its name."""


def name(place: str | None, endpoint: Endpoint | None, recipe: Recipe) -> Named:
    """
    Args:
        place: a checkpoint; beside an endpoint the one that it serves, or None.

    Raises:
        ValueError: a folder in a run that holds no complete checkpoint.
    """
    if place is None:
        assert endpoint is not None
        return Named(endpoint.model, None, None, "", {"endpoint": endpoint.url, "model": endpoint.model})
    served = {"by": "a server"} if endpoint else {}
    folder = Path(place)
    if not _in_run(folder):
        model = folder.resolve().name if folder.is_dir() else place
        return Named(model, None, None, place, {**source_of(place, recipe), **served})
    found, stored, step = find_checkpoint(folder)
    return Named(stored.model.name, step, found.parent, str(found), {**source_of(str(found), stored), **served})


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
    """Whether it is a run folder, or a checkpoint in one; a merged model that lies in one is not."""
    if not folder.is_dir():
        return False
    run = folder.resolve().parent
    among = folder.resolve() in checkpoint_folders(run).values()
    return (folder / RECIPE).is_file() or (among and (run / RECIPE).is_file())
