"""Tokens per second and MFU of train/sft.py's trainer on the mixed grid, on one GPU: plain, balanced, packed batches.

    .venv/bin/python benchmarks/gpu_throughput.py [size=1b] [steps=4] [batch=64] [batching=plain,balanced,packed]
        [peak_tflops=989] [dotted.key=value of the recipe ...]
    .venv/bin/python benchmarks/gpu_throughput.py size=tiny batch=8        # on a CPU: shows that the script runs

recipes/mixed_grid.yaml in the published shares and sizes on a Qwen3-VL of 1.4e9 random parameters: fp32 weights and
AdamW, BF16 compute, activation checkpointing as in the recipe, worker processes that render. The first step is not
timed. MFU is three times the forward FLOPs of models/flops.py, vision tower and its attention included, over time and
peak_tflops (989: dense BF16 of an H100); what activation checkpointing computes again does not count. Plain is one
example per forward, as the recipe has it. On a CPU compute is fp32, and the MFU means nothing.
"""

from __future__ import annotations

import gc
import sys
import tempfile
from collections.abc import Sequence
from statistics import mean
from typing import Any

import torch
from sft_throughput import Clock, ComputedTokens, mixed_grid
from transformers import PrinterCallback
from transformers.utils import is_flash_attn_2_available

from data_mix.mixture import Mixture, training_mixture
from data_mix.order import EpochOrder
from data_mix.photos import find_photos
from data_mix.scores import Scores
from models import FAMILIES
from models.load import Loaded
from models.scratch import scratch_processor
from recipes.schema import Model, Recipe
from train.arguments import sft_arguments
from train.balance import step_batches
from train.check import Measured, measure_examples
from train.packing import packs
from train.trainer import PuzzleTrainer
from train.weighting import PartWeights

SIZES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "1b": (
        {
            "vocab_size": 151936,
            "hidden_size": 1536,
            "intermediate_size": 4608,
            "num_hidden_layers": 20,
            "num_attention_heads": 12,
            "num_key_value_heads": 4,
            "head_dim": 128,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 5e6,
                "mrope_section": [24, 20, 20],
                "mrope_interleaved": True,
            },
        },
        {
            "hidden_size": 1024,
            "intermediate_size": 4096,
            "depth": 24,
            "num_heads": 16,
            "out_hidden_size": 1536,
            "deepstack_visual_indexes": [5, 11, 17],
        },
    ),
    "tiny": ({}, {}),
}
"""What differs from the tiny model from scratch: language tower, vision tower."""

OVERRIDES = {
    "1b": ("model.image.max_px=16777216",),
    "tiny": tuple(f"data.parts.{grid}x{grid}.spec.piece_px=16" for grid in (4, 8, 12, 16)),
}


def random_model(model: Model, size: str, cuda: bool) -> Loaded:
    """A Qwen3-VL of one of SIZES with the processor of a model from scratch."""
    family = FAMILIES[model.family]
    processor, config = scratch_processor(model)
    text, vision = SIZES[size]
    config.text_config.update(text)
    config.vision_config.update(vision)
    attention, lines = family.resolve_attention(model.attention, flash=cuda and is_flash_attn_2_available())
    print("\n".join(lines))
    built = family.model_class(config)
    built.set_attn_implementation(attention)
    print(f"{sum(parameter.numel() for parameter in built.parameters()):,} parameters")
    return Loaded(processor, family, model.max_tokens, built)


def line(recipe: Recipe, loaded: Loaded, mixture: Mixture, measured: dict[int, Measured], peak_tflops: float) -> str:
    """One way of batching: trains, and gives a row of the table."""
    batch = recipe.train.effective_batch
    args = sft_arguments(recipe, processes=1)
    args.save_strategy = "no"
    costs = {position: one.cost for position, one in measured.items()}
    order = EpochOrder(len(mixture), batch, recipe.seed)
    batches = step_batches(recipe, order, order.steps_per_epoch, 1, costs, packed=packs(recipe, loaded))
    trainer = PuzzleTrainer(recipe, loaded, mixture, batches, PartWeights(recipe, Scores()), args)
    clock, computed = Clock(), ComputedTokens(trainer.model)
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(clock)
    trainer.train()
    seconds = clock.stopped[-1][0] - clock.stopped[0][0]
    timed = [measured[position] for position in range(batch, len(mixture))]
    tokens, flops = sum(one.lengths.total for one in timed), 3 * sum(one.flops for one in timed)
    useful = sum(one.lengths.total for one in measured.values()) / computed.count
    waited = mean(logged["data_wait"] for logged in trainer.state.log_history[1:] if "data_wait" in logged)
    memory_gb = torch.cuda.max_memory_allocated() / 1e9 if torch.cuda.is_available() else float("nan")
    return (
        f"{recipe.train.batching:<10}{batches.arrange.micro_steps:>13}{tokens / seconds:>10,.0f}{useful:>9.1%}"
        f"{flops / seconds / (peak_tflops * 1e12):>8.1%}{waited:>11.1%}{memory_gb:>11.1f}"
    )


def main(argv: Sequence[str]) -> None:
    given = dict(argument.split("=", 1) for argument in argv)
    size, steps, batch = given.pop("size", "1b"), int(given.pop("steps", 4)), int(given.pop("batch", 64))
    batchings, peak_tflops = given.pop("batching", "plain,balanced,packed"), float(given.pop("peak_tflops", 989))
    cuda = torch.cuda.is_available()
    with tempfile.TemporaryDirectory() as folder:
        overrides = [
            "model=tiny_qwen3_vl", f"train.precision={'bf16' if cuda else 'fp32'}", f"train.effective_batch={batch}",
            f"output_dir={folder}", *OVERRIDES[size], *(f"{key}={value}" for key, value in given.items()),
        ]  # fmt: skip
        recipe = mixed_grid(steps * batch, *overrides)
        mixture = training_mixture(recipe, find_photos(recipe.data.photos))
        loaded = random_model(recipe.model, size, cuda)
        measured = measure_examples(loaded, mixture, range(len(mixture)), rank=0, processes=1)
        print("batching  micro-batches  tokens/s   useful     MFU  data wait  memory GB")
        for batching in batchings.split(","):
            recipe = mixed_grid(steps * batch, *overrides, f"train.batching={batching}")
            print(line(recipe, loaded, mixture, measured, peak_tflops), flush=True)
            gc.collect()  # the trainer's optimizer state
            if cuda:
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()


if __name__ == "__main__":
    main(sys.argv[1:])
