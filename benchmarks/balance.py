"""How evenly the mixed grid's steps are shared between processes, on a Qwen3-VL-8B and a Gemma3-12B, by arithmetic.

    python benchmarks/balance.py [processes=8] [max_pack_tokens=N]    # N: the model file's max_tokens

All 6,500 puzzles of recipes/mixed_grid.yaml are posed and counted; nothing is rendered or run. Image tokens, patches
and sizes of the layers are the model's own; where its tokenizer is not on this machine, the text is counted by a small
one, which takes some hundred tokens more for a prompt. Imbalance of a step: the busiest process's FLOPs over the mean,
less one; "in lockstep" is the same if processes wait for each other after every micro-step, as sharded weights make
them, and "for lockstep" are the arrangements that such runs get.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import numpy as np
from PIL import Image

from data_mix.order import EpochOrder
from data_mix.streams import stream
from models.flops import example_flops
from models.lengths import example_lengths
from models.load import Loaded
from models.outline import outline
from recipes.loader import load_recipe
from tasks import TASKS
from tasks.photo import ImagePhoto
from train.balance import Arrangement, Plain, balanced
from train.bins import Cost, bin_work, makespan

MODELS = ("qwen3_vl_8b", "gemma3_12b")


def costs_of_the_mixed_grid(loaded: Loaded) -> dict[int, Cost]:
    """Of every example, by its position in the run's order."""
    parts = load_recipe(["recipe=mixed_grid"]).data.parts
    costs: list[Cost] = []
    print(f"{'part':<8}{'tokens':>10}{'TFLOP':>9}{'of it: text':>14}{'text att.':>11}{'vision':>9}{'vision att.':>13}")
    for name, part in parts.items():
        task = TASKS[part.task]
        spec = task.Spec.model_validate(part.spec)
        board = task.board(spec)
        photo = ImagePhoto(Image.new("RGB", (board.width, board.height)))
        puzzles = [task.pose(spec, photo, seed) for seed in range(part.count)]
        lengths = example_lengths(loaded, puzzles)
        flops = [
            example_flops(loaded, loaded.model.config, length, puzzle.image_sizes)
            for length, puzzle in zip(lengths, puzzles, strict=True)
        ]
        costs += [Cost(length.total, one.total) for length, one in zip(lengths, flops, strict=True)]
        text, attention, vision, vision_attention, head = np.mean(flops, axis=0) / 1e12
        tokens = np.mean([length.total for length in lengths])
        print(
            f"{name:<8}{tokens:>10,.0f}{text + attention + vision + vision_attention + head:>9.1f}{text:>14.1f}"
            f"{attention:>11.1f}{vision:>9.1f}{vision_attention:>13.1f}"
        )
    return {int(at): cost for at, cost in zip(stream("mixed").permutation(len(costs)), costs, strict=True)}


def report(
    name: str, arrange: Arrangement, steps: Sequence[Sequence[int]], costs: dict[int, Cost], padded: bool
) -> None:
    started = time.perf_counter()
    arranged = [arrange(examples) for examples in steps]
    took = (time.perf_counter() - started) / len(steps)
    mean = np.array([sum(costs[one].flops for one in examples) for examples in steps]) / arrange.processes
    work = [[bin_work(bin_, costs, padded=False) for bin_ in bins] for bins in arranged]
    apart, together = (
        np.array([makespan(bins, arrange.processes, lockstep=lockstep) for bins in work]) / mean - 1
        for lockstep in (False, True)
    )
    lengths = [[costs[one].tokens for one in bin_] for bins in arranged for bin_ in bins if bin_]
    computed = sum(len(bin_) * max(bin_) if padded else sum(bin_) for bin_ in lengths)
    print(
        f"{name:<34}{apart.mean():>8.1%}{np.percentile(apart, 95):>8.1%}{apart.max():>8.1%}"
        f"{together.mean():>12.1%}"
        f"{arrange.micro_steps:>8}{sum(map(sum, lengths)) / computed:>10.1%}{took * 1e3:>10.2f}"
    )


def main(argv: Sequence[str]) -> None:
    given = dict(argument.split("=", 1) for argument in argv)
    processes = int(given.get("processes", 8))
    for model in MODELS:
        recipe = load_recipe(["recipe=mixed_grid", f"model={model}"])
        max_tokens = int(given.get("max_pack_tokens", recipe.model.max_tokens))
        print(f"\n{model}")
        compare(
            costs_of_the_mixed_grid(outline(recipe.model).loaded), processes, max_tokens,
            recipe.train.effective_batch, packs=recipe.model.family != "gemma3",
        )  # fmt: skip


def compare(costs: dict[int, Cost], processes: int, max_tokens: int, batch: int, *, packs: bool) -> None:
    order = EpochOrder(len(costs), batch, seed=0)
    steps = list(order.possible_steps(order.steps_per_epoch))
    print(f"\n{len(steps)} steps of {batch} on {processes} processes, at most {max_tokens:,} tokens in a bin")
    print(f"{'':<34}{'mean':>8}{'p95':>8}{'max':>8}{'in lockstep':>12}{'bins':>8}{'useful':>10}{'ms/step':>10}")
    tokens_only = {position: Cost(cost.tokens, cost.tokens) for position, cost in costs.items()}
    kinds = [("balanced", costs, True, False), ("balanced, for lockstep", costs, True, True)]
    if packs:
        kinds = [
            ("packed", costs, False, False), ("packed, for lockstep", costs, False, True),
            ("packed, by tokens alone", tokens_only, False, False), *kinds,
        ]  # fmt: skip
    for name, known, padded, lockstep in kinds:
        arrange = balanced(known, steps, max_tokens=max_tokens, padded=padded, processes=processes, lockstep=lockstep)
        report(name, arrange, steps, costs, padded)
    for micro_batch in (1, batch // processes):
        micro_steps = batch // (micro_batch * processes)
        report(f"plain, micro-batch {micro_batch}", Plain(micro_batch, micro_steps, processes), steps, costs, True)


if __name__ == "__main__":
    main(sys.argv[1:])
