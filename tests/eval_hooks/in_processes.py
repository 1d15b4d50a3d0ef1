"""Started by test_evaluate.py through torch.distributed.run: evaluates on all processes, writes what each returns."""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from data_mix.mixture import evaluation_mixture
from data_mix.photos import find_photos
from eval_hooks.evaluate import evaluate
from eval_hooks.records import write_records
from models.load import load_model
from recipes.loader import load_recipe

if __name__ == "__main__":
    torch.set_num_threads(1)
    out, counts, *argv = sys.argv[1:]
    dist.init_process_group("gloo")
    recipe = load_recipe(argv)
    photos = find_photos(recipe.data.photos)
    loaded = load_model(recipe.model, seed=0, dtype=torch.float32)
    for count in map(int, counts.split(",")):
        mixture = evaluation_mixture(recipe, photos, count)
        records = evaluate(loaded, mixture, batch=2, model_name="m", step=1, progress=False)
        write_records(Path(out) / f"{count}-of-rank-{os.environ['RANK']}.jsonl", records)
    dist.destroy_process_group()
