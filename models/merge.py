"""A full model out of a checkpoint that is an adapter.

    python -m models.merge checkpoint=runs/mixed_grid_lora/checkpoint-100 out=merged

What is written loads with transformers alone: weights, config and processor.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from peft import PeftModel
from peft.tuners.lora import LoraLayer

from eval_hooks.baselines import read_solved
from eval_hooks.model_card import or_warn, records_of, write_card
from eval_hooks.run_files import find_checkpoint
from models.load import ADAPTER_CONFIG, load_checkpoint, merged_weight
from models.towers import frozen_dtype
from recipes.command import CommandLine, run_command
from recipes.fields import problem

USAGE = """\
usage: python -m models.merge checkpoint=DIR out=DIR
  checkpoint  a run folder (its best checkpoint, else its newest), or one checkpoint folder in it; an adapter
  out         the folder to write, which must not be there yet"""


@torch.no_grad()
def merged(model: PeftModel) -> Any:
    """The base model, changed in place, with what the adapter learnt in its weights.

    Computed in float32; each parameter is rounded once, to the dtype that the base has.
    """
    adapted: Any = model  # attributes of a module may be anything
    dtype = adapted.get_base_model().get_input_embeddings().weight.dtype  # never adapted
    for layer in model.modules():
        if isinstance(layer, LoraLayer):
            layer.get_base_layer().weight.data = merged_weight(layer, dtype)
    base = adapted.unload()
    for parameter in base.parameters():  # those of modules that were trained whole are float32
        parameter.data = parameter.data.to(dtype)
    return base


def merge_checkpoint(checkpoint: Path, out: Path) -> str:
    """Write the merged model of a run's checkpoint to the folder `out`, which appears when it is complete. Where the
    checkpoint was evaluated, a card comes along: its scores are the adapter's.

    Returns:
        A line that says what was written.

    Raises:
        ValueError: `out` is there already, `checkpoint` is none or no adapter, or its weights do not match the base.
    """
    if out.exists():
        raise ValueError(problem("out", f"{out}, which exists", "a folder that is not there yet", "do name another"))
    folder, recipe, step = find_checkpoint(checkpoint)
    if not (folder / ADAPTER_CONFIG).is_file():
        got = f"{folder}, which holds a full model"
        raise ValueError(problem("checkpoint", got, "an adapter", "do use that folder as it is"))
    loaded = load_checkpoint(folder, recipe.model, seed=recipe.seed, dtype=frozen_dtype(recipe.train))
    model = merged(loaded.model)
    aside = out.with_name(f".{out.name}.partial")
    try:
        model.save_pretrained(aside)
        loaded.processor.save_pretrained(aside)
        with or_warn(out):
            if records := records_of(folder.parent, step):
                write_card(aside, records, recipe, folder.parent, read_solved())
        aside.rename(out)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return f"step {step} of {recipe.name}, merged into {recipe.model.name}: {out}"


def merge(argv: Sequence[str]) -> str:
    """What the command does, and says."""
    line = CommandLine(argv, ("checkpoint", "out"))
    checkpoint = line.required("checkpoint", "a run or checkpoint folder")
    out = line.required("out", "a folder to write")
    line.without_recipe()
    return merge_checkpoint(Path(checkpoint), Path(out))


def main(argv: Sequence[str]) -> int:
    transformers.logging.disable_progress_bar()
    return run_command(argv, USAGE, merge, stopped="nothing was written")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
