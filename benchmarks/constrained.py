"""Forward passes of a constrained JigShape answer with a real tokenizer, without a model.

    python benchmarks/constrained.py tokenizer=Qwen/Qwen3-VL-8B-Instruct [answers=3]

`tokenizer` is a hub name or a folder. A random right answer is taken token by token as the tokenizer writes it, and
every token of it must be one that the grammar allows. Told are its tokens, how many of them are chosen by the model
(its forward passes; the first is the prompt's), and the grammar's own time for each.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from transformers import AutoTokenizer

from models import FAMILIES
from models.constrained import Answer
from models.spelling import Speller
from models.tokens import answer_ids
from tasks import TASKS
from tasks.grammar import Grammar

TASK = TASKS["jigshape"]


def passes(encoder: Any, grammar: Grammar, text: str) -> tuple[int, int]:
    """Tokens of a text, end of turn included, and how many of them a model chooses.

    Raises:
        ValueError: the grammar allows another spelling alone.
    """
    ids = answer_ids(encoder, text)
    answer = Answer(Speller(encoder, grammar), encoder.family.stop_token_ids(encoder.processor))
    chosen, written = 0, list(answer.unread)
    while not answer.done:
        if ids[: len(written)] != written or ids[len(written)] not in answer.choices:
            raise ValueError(f"got {text[:60]!r}, of which token {len(written)} is not allowed")
        chosen += 1
        answer.take(ids[len(written)])
        written += answer.unread
    return len(ids), chosen


def main(argv: Sequence[str]) -> None:
    given = dict(argument.split("=", 1) for argument in argv)
    tokenizer = AutoTokenizer.from_pretrained(given["tokenizer"], trust_remote_code=False)
    encoder = SimpleNamespace(processor=SimpleNamespace(tokenizer=tokenizer), family=FAMILIES["qwen3_vl"])
    passes(
        encoder, TASK.grammar(TASK.Spec(grid=2), {}), TASK.write([[0, 0], [0, 1], [1, 0], [1, 1]], TASK.Spec(grid=2))
    )
    rng = random.Random(0)  # the vocabulary is read by now, once for all
    print(f"{'format':<16}{'N':>4}{'tokens':>8}{'passes':>8}{'after the prompt':>18}{'grammar, ms per pass':>22}")
    for answer_format in ("by_id", "by_cell", "cells_then_ids"):
        for grid in (4, 8, 12, 16):
            spec = TASK.Spec(grid=grid, answer_format=answer_format)
            found = []
            started = time.perf_counter()
            for _ in range(int(given.get("answers", 3))):
                cells = [[row, column] for row in range(grid) for column in range(grid)]
                rng.shuffle(cells)
                found.append(passes(encoder, TASK.grammar(spec, {}), TASK.write(cells, spec)))
            took = (time.perf_counter() - started) / sum(chosen for _, chosen in found) * 1e3
            tokens, chosen = (max(numbers) for numbers in zip(*found, strict=True))
            print(f"{answer_format:<16}{grid:>4}{tokens:>8}{chosen:>8}{chosen - 1:>18}{took:>22.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
