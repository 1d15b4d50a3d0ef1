"""Ask a model every held-out puzzle of a recipe, and score the answers.

    python -m eval_hooks.run recipe=mixed_grid checkpoint=runs/mixed_grid [eval.split=test] [dotted.key=value ...]
    python -m eval_hooks.run recipe=mixed_grid endpoint=http://localhost:8000/v1 endpoint_model=NAME [...]

Records are written as answers come. A call that was stopped goes on where it was, and nothing is asked twice. On
several GPUs: accelerate launch -m eval_hooks.run ... Exit status: 0, 1 when some questions have no answer, 2 when it
was refused, 130 after Ctrl-C.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers
from accelerate import PartialState

from data_mix.mixture import Mixture, Posed, evaluation_mixture
from data_mix.photos import find_photos
from eval_hooks.endpoint import Endpoint, EndpointError, Prompt, Usage, ask
from eval_hooks.evaluate import Question, answers, check_grammars, plan_batches
from eval_hooks.journal import Journal
from eval_hooks.protocol import Protocol, protocol_of
from eval_hooks.records import Record, score_completion
from eval_hooks.run_files import RECIPE, find_checkpoint
from eval_hooks.summary import summarize, table
from models.generation import Completion
from models.load import ADAPTER_CONFIG, Loaded, load_checkpoint, load_encoder, load_model
from recipes.command import CommandLine, run_command
from recipes.fields import problem
from recipes.schema import Recipe

USAGE = """\
usage: python -m eval_hooks.run recipe=NAME checkpoint=PLACE [out=FILE.jsonl] [dotted.key=value ...]
       python -m eval_hooks.run recipe=NAME endpoint=URL endpoint_model=NAME [out=FILE.jsonl] [dotted.key=value ...]
  recipe          whose evaluation puzzles are asked: eval.parts, eval.split, eval.final_count of each part
  checkpoint      a run folder (its best checkpoint), a checkpoint in one, a folder of a model or adapter, a hub name
  endpoint        an OpenAI-compatible server, up to /v1; its key from the environment (endpoint.key_variable)
  endpoint_model  the name that the server knows the model by
  out             default: evaluations/<model>/<recipe>-<split>-<protocol>.jsonl"""
OWN = ("checkpoint", "endpoint", "endpoint_model", "out")


@dataclass(frozen=True)
class Request:
    """What the command line asks for."""

    recipe: Recipe
    checkpoint: str | None
    endpoint: Endpoint | None
    out: Path | None


@dataclass(frozen=True)
class Identity:
    """What all records of one file have in common."""

    model: str
    step: int | None
    protocol: str
    split: str


def parse_request(argv: Sequence[str]) -> Request:
    """
    Raises:
        RecipeError: every problem of the command line and of the recipe at once.
    """
    line = CommandLine(argv, OWN)
    checkpoint, url, model, out = (line.text(name) for name in OWN)
    if (checkpoint is None) == (url is None):
        got = "both" if url else "neither"
        line.problems.append(problem("checkpoint", f"{got} it and endpoint", "one of the two", "do give one"))
    if (url is None) != (model is None):
        line.problems.append(problem("endpoint_model", "one without the other", "endpoint= beside it", "do give both"))
    recipe = line.recipe()
    if url and recipe.eval.protocol == "constrained":
        allowed = "greedy | sampled where an endpoint is asked, whose tokens are its own"
        raise ValueError(problem("eval.protocol", "constrained", allowed, "do set eval.protocol=greedy"))
    use = recipe.endpoint
    endpoint = None
    if url and model:
        sampled = recipe.eval.protocol == "sampled"
        drawn = {"temperature": recipe.eval.temperature, "top_p": recipe.eval.top_p} if sampled else {"temperature": 0}
        endpoint = Endpoint(
            url, model, use.concurrency, use.timeout_s, use.retries, use.max_requests, use.max_total_tokens,
            use.key_variable, {**drawn, **use.extra},
        )  # fmt: skip
    return Request(recipe, checkpoint, endpoint, Path(out) if out else None)


def load(place: str, recipe: Recipe) -> tuple[Loaded, str, int | None]:
    """A model to ask, its name, and the step of its checkpoint.

    Raises:
        ValueError: there is none, or it is not complete.
    """
    bf16 = recipe.train.precision == "bf16" and torch.cuda.is_available()
    dtype = torch.bfloat16 if bf16 else torch.float32
    folder = Path(place)
    if folder.is_dir() and ((folder / RECIPE).is_file() or (folder.parent / RECIPE).is_file()):
        found, stored, step = find_checkpoint(folder)
        return load_checkpoint(found, stored.model, seed=stored.seed, dtype=dtype), stored.model.name, step
    if folder.is_dir() and (folder / ADAPTER_CONFIG).is_file():
        return load_checkpoint(folder, recipe.model, seed=recipe.seed, dtype=dtype), folder.name, None
    named = recipe.model.model_copy(update={"pretrained": place, "scratch": None, "architecture": None})
    return load_model(named, seed=recipe.seed, dtype=dtype, flash=bf16), place, None


def default_out(recipe: Recipe, identity: Identity) -> Path:
    """Where records go; no name in it can leave the folder."""
    step = "" if identity.step is None else f"-step-{identity.step:06d}"
    words = (f"{identity.model}{step}", f"{recipe.name}-{identity.split}-{identity.protocol}")
    model, name = (re.sub(r"[^A-Za-z0-9_.=-]+", "-", word).strip("-.") or "x" for word in words)
    return Path("evaluations", model, f"{name}.jsonl")


def left_to_ask(
    journal: Journal, mixture: Mixture, protocol: Protocol, identity: Identity
) -> tuple[list[Question], dict[tuple[str, int], int]]:
    """The questions without a record, and the place of each question's record in the file.

    Raises:
        ValueError: the file holds records of something else.
    """
    questions = [Question(index, sample) for index in range(len(mixture)) for sample in range(protocol.samples)]
    places = {(mixture[one.position].puzzle.key, one.sample): place for place, one in enumerate(questions)}
    done = journal.read()
    others = {Identity(one.model, one.step, one.protocol, one.split) for one in done} - {identity}
    strangers = [one.key for one in done if (one.key, one.sample) not in places]
    if others or strangers:
        got = f"records of {next(iter(others))}" if others else f"a record of {strangers[0]}, which is not asked here"
        allowed = f"records of {identity} and of these puzzles alone"
        raise ValueError(problem("out", f"{journal.out} with {got}", allowed, "do choose another out=..."))
    known = {(one.key, one.sample) for one in done}
    left = [one for one, (key, _) in zip(questions, places, strict=True) if (key, one.sample) not in known]
    return left, places


def report(argv: Sequence[str], state: PartialState) -> tuple[str, int]:
    """What to print on the main process, and how many questions have no answer."""
    request = parse_request(argv)
    recipe, rank, processes = request.recipe, state.process_index, state.num_processes
    if request.endpoint and processes > 1:
        raise ValueError(
            problem("endpoint", f"{processes} processes", "one, for it asks several at once", "do start one")
        )
    with state.main_process_first():
        photos = find_photos(recipe.data.photos)
    mixture = evaluation_mixture(recipe, photos, recipe.eval.final_count)
    if request.endpoint:
        protocol = protocol_of(recipe, recipe.endpoint.extra)
        identity = Identity(request.endpoint.model, None, protocol.name, recipe.eval.split)
    else:
        loaded, name, step = load(str(request.checkpoint), recipe)
        loaded.model.to(state.device)
        protocol = protocol_of(recipe)
        identity = Identity(name, step, protocol.name, recipe.eval.split)
    if protocol.constrained:
        check_grammars(mixture)
    out = request.out or default_out(recipe, identity)
    journal = Journal(out, rank)
    left, places = left_to_ask(journal, mixture, protocol, identity)
    state.wait_for_everyone()  # nobody writes before all have read
    journal.open()
    usage = Usage()
    try:
        if request.endpoint:
            _ask_endpoint(request.endpoint, recipe, mixture, left, journal, identity, usage)
        else:
            batches = plan_batches(loaded, mixture, recipe.eval.batch, left)[rank::processes]
            for answered in answers(loaded, mixture, batches, protocol=protocol, seed=recipe.seed, progress=rank == 0):
                journal.add(_record(question, posed, one, identity) for question, posed, one in answered)
    finally:
        journal.close()
    state.wait_for_everyone()
    if not state.is_main_process:
        return "", 0
    records = journal.gather(places)
    said = [f"{len(records)} of {len(places)} answers are in {out}", *([usage.describe()] if request.endpoint else [])]
    return "\n".join([table(summarize(records)) if records else "", *said]), len(places) - len(records)


def _record(question: Question, posed: Posed, completion: Completion, identity: Identity) -> Record:
    return score_completion(
        posed, completion, model=identity.model, step=identity.step, protocol=identity.protocol, sample=question.sample
    )


def _ask_endpoint(
    endpoint: Endpoint, recipe: Recipe, mixture: Mixture, left: Sequence[Question], journal: Journal,
    identity: Identity, usage: Usage,
) -> None:  # fmt: skip
    limits = [recipe.endpoint.max_completion_tokens] * len(left)
    if recipe.endpoint.max_completion_tokens is None:
        batches = plan_batches(load_encoder(recipe.model), mixture, 1, left)
        found = {batch.questions[0]: batch.max_new_tokens for batch in batches}
        limits = [found[question] for question in left]

    def prompt(number: int) -> Prompt:
        posed = mixture[left[number].position]
        seed = {"seed": left[number].sample} if recipe.eval.protocol == "sampled" else {}
        return Prompt(posed.puzzle.messages, posed.example().images, limits[number], seed)

    def deliver(number: int, completion: Completion) -> None:
        journal.add([_record(left[number], mixture[left[number].position], completion, identity)])

    ask(endpoint, len(left), prompt, deliver, usage)


def main(argv: Sequence[str]) -> int:
    transformers.logging.set_verbosity_error()
    state = PartialState()
    missing = 0

    def work(words: Sequence[str]) -> str:
        nonlocal missing
        try:
            text, missing = report(words, state)
        except EndpointError as error:
            raise ValueError(f"{error}; what was answered is kept") from error
        return text

    status = run_command(argv, USAGE, work, stopped="what is answered is kept, and the same command continues")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    return status or int(missing > 0)


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    sys.exit(main(sys.argv[1:]))
