"""What `python -m eval_hooks.watch` is asked for."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from eval_hooks.run_files import RECIPE
from eval_hooks.vllm_server import Server, server_problems
from eval_hooks.wandb_log import check_wandb
from recipes.command import CommandLine
from recipes.fields import problem
from recipes.loader import RecipeError, load_recipe
from recipes.schema import Recipe

USAGE = """\
usage: python -m eval_hooks.watch run=DIR eval.count=N [every=30] [once=true] [launch=WORDS] [dotted.key=value ...]
       python -m eval_hooks.watch run=DIR eval.count=N server="vllm serve" [start_s=600] [dotted.key=value ...]
  run         the folder of a run that trains with eval.count=0, or has trained
  eval.count  puzzles of each part that a checkpoint is asked; other values of the run's recipe can be changed, too
  every       seconds between two looks for checkpoints
  once        true: judge what is there, and leave
  launch      what starts an evaluation, before -m: "accelerate launch --num_processes 2"; default: this Python
  server      what serves a model, before the model's folder: "vllm serve --max-model-len 16384", from any environment
  start_s     longest time until the server answers, seconds"""
OWN = ("run", "every", "once", "launch", "server", "start_s")
_DAY_S = 86_400


@dataclass(frozen=True)
class Request:
    """What the command line asks for."""

    run: Path
    recipe: Recipe
    """The run's, with the overrides; eval.count is what each checkpoint is asked."""
    overrides: tuple[str, ...]
    every_s: float
    once: bool
    launch: tuple[str, ...]
    server: Server | None


def parse_request(argv: Sequence[str]) -> Request:
    """
    Raises:
        RecipeError: every problem of the command line and of the recipe at once.
    """
    run = _run(CommandLine(argv, OWN))
    overrides = tuple(token for token in argv if token.partition("=")[0] not in OWN)
    line = CommandLine([*argv, f"recipe={run / RECIPE}"], OWN)
    if any(token.startswith("recipe=") for token in overrides):
        line.problems.append(problem("recipe", "another recipe", "the run's own", "do leave recipe= out"))
    every_s = line.decimal("every", 30, most=_DAY_S)
    start_s = line.decimal("start_s", 600, most=_DAY_S)
    once = line.choice("once", ("true", "false"), "false") == "true"
    launch, served = _program(line, "launch"), _program(line, "server")
    if launch and served:
        line.problems.append(problem("launch", "it beside server", "one of them", "do remove one"))
    recipe, stored = line.recipe(), load_recipe([f"recipe={run / RECIPE}"])
    problems = _count_problems(stored, recipe) + (server_problems(recipe) if served else [])
    if problems:
        raise RecipeError(problems)
    check_wandb(recipe)
    server = Server(served, start_s) if served else None
    return Request(run, recipe, overrides, every_s, once, launch or (sys.executable,), server)


def _run(line: CommandLine) -> Path:
    run = Path(line.required("run", "the folder of a run")).expanduser()
    if not line.problems and not (run / RECIPE).is_file():
        advice = "do name the output_dir of a training that has begun"
        line.problems.append(problem("run", str(run), f"the folder of a run (it holds {RECIPE})", advice))
    if line.problems:
        raise RecipeError(line.problems)
    return run


def _program(line: CommandLine, name: str) -> tuple[str, ...]:
    """The words of a command; none where it is left out."""
    try:
        words = tuple(shlex.split(line.text(name) or ""))
    except ValueError as error:  # a quote that is not closed
        line.problems.append(problem(name, str(error), "words as in a shell", "do close it"))
        return ()
    if words and shutil.which(words[0]) is None:
        advice = "do give its path, or install it"
        line.problems.append(problem(name, f"{words[0]}, which is no program here", "a program and its words", advice))
    return words


def _count_problems(stored: Recipe, asked: Recipe) -> list[str]:
    if stored.eval.count:
        got, allowed = f"{stored.eval.count} in the run's recipe", "0: its training judges the same checkpoints"
        return [problem("eval.count", got, allowed, "do train with eval.count=0, and give eval.count=32 here")]
    if not asked.eval.count:
        return [problem("eval.count", "nothing", "a whole number >= 1", "do write eval.count=32")]
    if asked.eval.final_count != stored.eval.final_count:
        advice = f"do write eval.count={asked.eval.final_count}"
        return [problem("eval.final_count", "it", "eval.count, for all checkpoints alike", advice)]
    return []
