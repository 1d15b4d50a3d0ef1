"""Ask a model every held-out puzzle of a recipe, and score the answers.

    python -m eval_hooks.run recipe=mixed_grid checkpoint=runs/mixed_grid [eval.split=test] [dotted.key=value ...]
    python -m eval_hooks.run recipe=mixed_grid endpoint=http://localhost:8000/v1 endpoint_model=NAME [...]

Records are written as answers come. A call that was stopped goes on where it was. On several GPUs: accelerate launch
-m eval_hooks.run ... Exit status: 0, 1 when some questions have no answer, 2 when it or its server refused, 130 after
Ctrl-C.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import httpx
import torch
import transformers
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, parse_flag_from_env

from data_mix.mixture import Mixture, Posed, evaluation_mixture
from data_mix.photos import find_photos
from eval_hooks import several
from eval_hooks.backends import Backend, InProcess, Named, Served, name
from eval_hooks.endpoint import Endpoint, EndpointError
from eval_hooks.evaluate import Question, grammar_of
from eval_hooks.journal import Journal
from eval_hooks.protocol import Protocol, protocol_of
from eval_hooks.records import Giver, Record, score_completion
from eval_hooks.summary import summarize, table
from models.generation import Completion
from recipes.command import CommandLine, run_command
from recipes.fields import problem
from recipes.schema import Recipe

USAGE = """\
usage: python -m eval_hooks.run recipe=NAME checkpoint=PLACE [out=FILE.jsonl] [dotted.key=value ...]
       python -m eval_hooks.run recipe=NAME endpoint=URL endpoint_model=NAME [out=FILE.jsonl] [dotted.key=value ...]
  recipe          whose evaluation puzzles are asked: eval.parts, eval.split, eval.final_count of each part
  checkpoint      a run folder (its best checkpoint), a checkpoint in one, a folder of a model or adapter, a hub name
  endpoint        an OpenAI-compatible server, up to /v1; its key from the environment (endpoint.key_variable)
                  where an endpoint is asked: the checkpoint in a run that it serves, so that records name it; left out,
                  they have the name of endpoint_model
  endpoint_model  the name that the server knows the model by
  out             default: <recipe>-<split>-<protocol>.jsonl in records/ of the run; runs/<model> for what is in none"""
OWN = ("checkpoint", "endpoint", "endpoint_model", "out")


@dataclass(frozen=True)
class Request:
    """What the command line asks for."""

    recipe: Recipe
    checkpoint: str | None
    endpoint: Endpoint | None
    out: Path | None


def parse_request(argv: Sequence[str]) -> Request:
    """
    Raises:
        RecipeError: every problem of the command line and of the recipe at once.
    """
    line = CommandLine(argv, OWN)
    checkpoint, url, model, out = (line.text(name) for name in OWN)
    if checkpoint is None and url is None:
        line.problems.append(problem("checkpoint", "neither it nor endpoint", "one of them", "do give one"))
    if (url is None) != (model is None):
        line.problems.append(problem("endpoint_model", "one without the other", "endpoint= beside it", "do give both"))
    if url and not _is_address(url):
        advice = "do write endpoint=http://localhost:8000/v1; a key goes into the environment (endpoint.key_variable)"
        line.problems.append(
            problem("endpoint", "no such address", "http(s)://HOST/v1, without a password or a query", advice)
        )
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


def _is_address(url: str) -> bool:
    """Whether a server can be asked there; a password or a key in it would be shown in troubles, and kept."""
    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL:
        return False
    return parts.scheme in ("http", "https") and bool(parts.host) and not parts.userinfo and not parts.query


def default_out(recipe: Recipe, giver: Giver, named: Named) -> Path:
    """Where records go; no name in it can leave the folder."""
    step = "" if giver.step is None else f"-step-{giver.step:06d}"
    model = giver.model if "weights" not in named.source else f"{giver.model}-{named.source['weights'][:6]}"
    name = _file_name(f"{recipe.name}-{giver.split}-{giver.protocol}{step}")
    return (named.run or Path("runs", _file_name(model))) / "records" / f"{name}.jsonl"


def _file_name(words: str) -> str:
    """One that every file system takes; of very long words the beginning and a digest."""
    plain = re.sub(r"[^A-Za-z0-9_.=-]+", "-", words).strip("-.") or "x"
    return plain if len(plain) <= 120 else f"{plain[:110]}-{hashlib.blake2b(words.encode(), digest_size=4).hexdigest()}"


def left_to_ask(
    journal: Journal, mixture: Mixture, protocol: Protocol, giver: Giver
) -> tuple[dict[Question, bool], dict[tuple[str, int], int]]:
    """All questions, with whether they are still to be asked; and the place of each one's record in the file.

    Raises:
        ValueError: the file holds records of something else, or two parts ask the same puzzle.
    """
    parts: dict[str, str] = {}
    for posed in mixture:
        key, part = posed.puzzle.key, posed.part
        if key in parts:
            got = f"puzzle {key} in part {parts[key]} and again in {part}"
            raise ValueError(problem("eval.parts", got, "each puzzle once", "do remove one of them"))
        parts[key] = part
    asked = [(Question(index, sample), key) for index, key in enumerate(parts) for sample in range(protocol.samples)]
    places = {(key, one.sample): place for place, (one, key) in enumerate(asked)}
    done = journal.read()
    others = {one.giver for one in done} - {giver}
    strangers = [one.key for one in done if (one.key, one.sample) not in places]
    if others or strangers:
        got = f"records of {next(iter(others))}" if others else f"a record of {strangers[0]}, which is not asked here"
        allowed = f"records of {giver} and of these puzzles alone"
        raise ValueError(problem("out", f"{journal.out} with {got}", allowed, "do choose another out=..."))
    known = {(one.key, one.sample) for one in done}
    return {one: (key, one.sample) not in known for one, key in asked}, places


def report(argv: Sequence[str], state: PartialState) -> tuple[str, bool]:
    """What to print on the main process, and whether all questions have an answer."""
    request = parse_request(argv)
    recipe, rank, processes = request.recipe, state.process_index, state.num_processes
    if request.endpoint and processes > 1:
        raise ValueError(
            problem("endpoint", f"{processes} processes", "one, for it asks several at once", "do start one")
        )
    with state.main_process_first():
        photos = find_photos(recipe.data.photos)
    mixture = evaluation_mixture(recipe, photos, recipe.eval.final_count)
    protocol = protocol_of(recipe, served=request.endpoint is not None)
    if protocol.constrained:
        for posed in mixture:  # before anything is loaded
            grammar_of(posed)
    found = [name(request.checkpoint, request.endpoint, recipe)]
    if processes > 1:  # which checkpoint is a run's best may change at any moment
        broadcast_object_list(found)
    named = found[0]
    giver = Giver(named.model, named.step, protocol.name, recipe.eval.split)
    out = request.out or default_out(recipe, giver, named)
    journal = Journal(out, rank, named.source)
    questions, places = left_to_ask(journal, mixture, protocol, giver)
    backend: Backend | None = None  # nothing is loaded where nothing is left to ask
    if any(questions.values()) and request.endpoint:
        backend = Served(request.endpoint, recipe, protocol)
    elif any(questions.values()):
        backend = InProcess(named.place, recipe, protocol, state.device, rank, processes)
    state.wait_for_everyone()  # nobody writes before all have read

    if backend:
        with journal:
            backend.answer(mixture, questions, lambda answered: journal.add(_record(*one, giver) for one in answered))
    state.wait_for_everyone()
    if not state.is_main_process:
        return "", True
    records = journal.gather(places)
    missing = len(places) - len(records)
    said = [table(summarize(records)) if records else ""]
    if protocol.samples > 1 and not missing:
        said.append(several.describe(records))
    said += [f"{len(records)} of {len(places)} answers are in {out}", backend.describe() if backend else ""]
    return "\n".join(filter(None, said)), not missing


def _record(question: Question, posed: Posed, completion: Completion, giver: Giver) -> Record:
    return score_completion(
        posed, completion, model=giver.model, step=giver.step, protocol=giver.protocol, sample=question.sample
    )


def main(argv: Sequence[str]) -> int:
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    state = PartialState(
        cpu=parse_flag_from_env("ACCELERATE_USE_CPU") or not torch.cuda.is_available(),
        timeout=timedelta(days=1),  # processes wait for the one that reads photos, or has the longest share
    )

    def work(words: Sequence[str]) -> tuple[str, bool]:
        try:
            return report(words, state)
        except EndpointError as error:
            raise ValueError(f"{error}; what was answered is kept") from error

    status = run_command(argv, USAGE, work, stopped="what is answered is kept, and the same command continues")
    state.destroy_process_group()
    return status


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    sys.exit(main(sys.argv[1:]))
