"""Let programs that have learnt nothing solve a recipe's held-out puzzles, so that no score stands alone.

    python -m eval_hooks.baselines recipe=mixed_grid [split=eval] [count=250] [workers=2] [dotted.key=value ...]

The answers are records like a model's. They are kept by puzzle in .cache/baselines.jsonl: none is asked for twice, a call
that was stopped goes on where it was, and every table of a run shows the programs that have solved all its puzzles.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tqdm import tqdm

from data_mix.mixture import Posed, evaluation_mixture
from data_mix.photos import find_photos
from eval_hooks.records import Record, append_records, read_records, score_completion
from eval_hooks.summary import Solved, summarize, table
from models.generation import Completion
from recipes.loader import RecipeError

FILE = Path(".cache", "baselines.jsonl")
PROTOCOL = "solver"

USAGE = """\
usage: python -m eval_hooks.baselines recipe=NAME [split=eval] [count=N] [workers=2] [dotted.key=value ...]
  recipe      as for a run; python -m recipes --help lists what can be changed
  split       eval or test
  count       puzzles per part; default: eval.final_count
  workers     processes"""


def read_solved(file: Path = FILE) -> Solved:
    """What the programs earned so far; nothing where there is no file yet.

    Raises:
        ValueError: the file holds something else than records.
    """
    records = read_records(file).records if file.is_file() else []
    return {(record.model, record.key): record.scores for record in records}


def solve(posed: Posed, program: str) -> Record:
    """One program's answer to one puzzle."""
    started = time.perf_counter()
    text = posed.task.solvers[program](posed.puzzle, posed.photo)
    completion = Completion(text, "stop", 0, time.perf_counter() - started)
    return score_completion(posed, completion, model=program, protocol=PROTOCOL)
