"""Answers per second and memory of an evaluation: eval_hooks.evaluate against generate one puzzle at a time, on a CPU.

    python benchmarks/evaluation.py recipe=quickstart checkpoint=runs/quickstart-... [puzzles=128] [rounds=3]
    python benchmarks/evaluation.py recipe=mixed_grid model=tiny_qwen3_vl [puzzles=6] [eval.batch=...]

Without a checkpoint the recipe's model answers untrained: it never ends its turn, so every answer is as long as its
limit. `puzzles` are asked of each part.

One at a time: the processor and the model's own generate, greedy, with its KV cache, images drawn just before, the same
token limit as ours. Both parse and score; that both give the same answers is checked. They take turns; ratios are
medians over the rounds. Memory: the peak of resident memory of a process that evaluates 20 puzzles of each part, and of
one that evaluates 200.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from statistics import median

import torch
import transformers

from data_mix.mixture import Mixture, evaluation_mixture
from data_mix.photos import find_photos
from eval_hooks.backends import load
from eval_hooks.evaluate import evaluate, plan_batches
from eval_hooks.records import Record, score_completion
from models.generation import Completion
from models.load import Loaded, load_model
from models.tokens import encode_prompt
from recipes.command import CommandLine
from recipes.schema import Recipe

OWN = ("checkpoint", "puzzles", "rounds", "peak")


def one_at_a_time(loaded: Loaded, mixture: Mixture, limits: Sequence[int]) -> list[Record]:
    """What a loop around the library's generate does."""
    records = []
    stop_ids = loaded.family.stop_token_ids(loaded.processor)
    for index, limit in enumerate(limits):
        posed = mixture[index]
        started = time.perf_counter()
        inputs = encode_prompt(loaded, posed.puzzle.messages, posed.example().images)
        batch = loaded.family.model_inputs(loaded.processor, dict(inputs))
        with torch.no_grad():
            sequence = loaded.model.generate(
                **batch, max_new_tokens=limit, do_sample=False, eos_token_id=stop_ids,
                pad_token_id=loaded.processor.tokenizer.pad_token_id,
                suppress_tokens=loaded.family.vision_token_ids(loaded.processor),
            )[0, batch["input_ids"].shape[1] :].tolist()  # fmt: skip
        ended = sequence[-1] in stop_ids
        text = loaded.processor.tokenizer.decode(sequence[:-1] if ended else sequence, skip_special_tokens=False)
        seconds = time.perf_counter() - started
        completion = Completion(text, "stop" if ended else "length", len(sequence), seconds)
        records.append(score_completion(posed, completion, model="model"))
    return records


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def peak_of_a_process(argv: Sequence[str], puzzles: int) -> float:
    """Of a process of its own that evaluates so many puzzles of each part."""
    words = [word for word in argv if not word.startswith(("puzzles=", "rounds="))]
    command = [sys.executable, __file__, *words, f"puzzles={puzzles}", "peak=yes"]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def ask_all(recipe: Recipe, loaded: Loaded, mixture: Mixture) -> list[Record]:
    return evaluate(loaded, mixture, batch=recipe.eval.batch, model_name="model", progress=False)


def main(argv: Sequence[str]) -> None:
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    line = CommandLine(argv, OWN)
    checkpoint, puzzles, rounds = line.text("checkpoint"), line.number("puzzles", 128), line.number("rounds", 3)
    recipe = line.recipe()
    mixture = evaluation_mixture(recipe, find_photos(recipe.data.photos), puzzles)
    loaded = load(checkpoint, recipe) if checkpoint else load_model(recipe.model, seed=0, dtype=torch.float32)
    loaded.model.eval()
    if line.text("peak"):
        ask_all(recipe, loaded, mixture)
        print(peak_mib())
        return
    limits = {batch.questions[0].position: batch.limits[0] for batch in plan_batches(loaded, mixture, 1)}
    print(f"{len(mixture)} puzzles, batches of {recipe.eval.batch}, {torch.get_num_threads()} thread(s)")
    ratios = []
    for number in range(rounds):
        times, found = {}, {}
        for name in ("one at a time", "ours") if number % 2 else ("ours", "one at a time"):
            started = time.perf_counter()
            if name == "ours":
                found[name] = ask_all(recipe, loaded, mixture)
            else:
                found[name] = one_at_a_time(loaded, mixture, [limits[index] for index in range(len(mixture))])
            times[name] = time.perf_counter() - started
        same = sum(ours.answer == other.answer for ours, other in zip(*found.values(), strict=True))
        ratios.append(times["one at a time"] / times["ours"])
        speeds = ", ".join(f"{name} {len(mixture) / took:.2f}/s" for name, took in sorted(times.items()))
        print(f"round {number + 1}: {speeds}: {ratios[-1]:.2f} times as fast; {same} of {len(mixture)} answers equal")
    print(f"median {median(ratios):.2f} times as fast")
    few, many = (peak_of_a_process(argv, puzzles) for puzzles in (20, 200))
    print(f"peak memory: {few:.0f} MiB for 20 puzzles a part, {many:.0f} MiB for 200: {many / few:.3f} times")


if __name__ == "__main__":
    main(sys.argv[1:])
