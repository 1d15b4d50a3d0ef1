"""Say what of this machine would stand in a run's way, with advice.

    python -m train.doctor [recipe=NAME ...] [hub=true]

Looks at this machine alone; only with hub=true at the network, too. Exit status: 0, or 1 when a line says bad.
"""

from __future__ import annotations

import os
import shutil
import sys
import tomllib
import warnings
from collections.abc import Container, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import httpx
import torch
import transformers
from huggingface_hub import constants
from huggingface_hub.errors import HFValidationError
from transformers.utils import is_flash_attn_2_available

from eval_hooks.wandb_log import has_key
from models import FAMILIES
from models.at_hand import is_whole
from models.outline import outline
from models.towers import train_towers
from recipes.command import CommandLine, run_command
from recipes.schema import Model, Recipe
from train.cost import checkpoint_bytes, checkpoints_at_once
from train.finding import Finding, page
from train.packages import versions

USAGE = """\
usage: python -m train.doctor [recipe=NAME] [hub=false] [dotted.key=value ...]
  recipe      also look at what this recipe needs: its model, its disk space, its W&B mode
  hub         true: also try to reach the model hub; without it nothing here needs a network"""
FREE_BYTES = 20 * 10**9
"""Of disk, below which a line says so where no recipe says how much is needed."""


class Gpu(NamedTuple):
    name: str
    memory: int
    """Bytes."""
    capability: tuple[int, int]


def gpus(
    found: Sequence[Gpu],
    nccl: tuple[int, ...] | None,
    *,
    flash: bool,
    precision: str | None = None,
    cuda: str | None = None,
    device_files: bool = False,
) -> Iterator[Finding]:
    """
    Args:
        found: those that torch can use.
        nccl: its version; None where torch has none.
        flash: whether the flash-attn package is installed.
        precision: the recipe's train.precision; None without a recipe.
        cuda: that torch is built for; None: a build without.
        device_files: whether the machine has those of an NVIDIA GPU, which are not hidden on purpose.
    """
    if not found:
        if device_files and cuda is None:
            told = "this machine has one, but torch is a build without CUDA"
            yield Finding("bad", "GPUs", told, "do install a CUDA build of torch and of torchvision, from one index")
        elif device_files:
            told = f"this machine has one, but torch for CUDA {cuda} sees none"
            yield Finding("bad", "GPUs", told, "do check with nvidia-smi that the driver works and is new enough")
        else:
            advice = (
                "training runs on the CPU: good for quickstart and the tiny models; on a GPU machine, check the driver"
            )
            yield Finding("note", "GPUs", "none that torch can use", advice)
        if flash:
            yield Finding("note", "flash-attn", "installed, but it needs a GPU", "sdpa is used instead")
        return
    for number, gpu in enumerate(found):
        about = f"{gpu.name}, {gpu.memory / 2**30:.1f} GiB, compute capability {'.'.join(map(str, gpu.capability))}"
        if gpu.capability < (8, 0) and precision == "fp32":
            yield Finding("ok", f"GPU {number}", f"{about}: no BF16, which train.precision=fp32 does not need")
        elif gpu.capability < (8, 0):
            yield Finding(
                "bad", f"GPU {number}", f"{about}: no BF16", "do set train.precision=fp32, or take a newer GPU"
            )
        else:
            yield Finding("ok", f"GPU {number}", f"{about}, BF16")
    if len({gpu.memory for gpu in found}) > 1:
        yield Finding("note", "GPUs", "of different sizes", "every process gets equal work: plan for the smallest")
    if nccl is not None:
        yield Finding("ok", "NCCL", ".".join(map(str, nccl)))
    elif len(found) > 1:
        yield Finding("bad", "NCCL", "none in this torch", "several GPUs cannot talk; do install a CUDA build of torch")
    if flash and any(gpu.capability < (8, 0) for gpu in found):
        advice = "sdpa is used instead with train.precision=fp32, which such a GPU needs anyway"
        yield Finding("note", "flash-attn", "installed, but it does not run below compute capability 8.0", advice)
    elif flash:
        yield Finding("ok", "flash-attn", "installed")
    else:
        advice = "sdpa is used instead, which is slower on long rows; do: pip install --no-build-isolation -e '.[gpu]'"
        yield Finding("note", "flash-attn", "not installed", advice)


def disk(folder: Path, needed: int | None) -> Finding:
    """
    Args:
        folder: where a run writes; the nearest folder above it that exists is looked at.
        needed: bytes that its checkpoints take; None: not known.
    """
    there = next(path for path in (folder.resolve(), *folder.resolve().parents) if path.exists())
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        found = f"nothing can be written in {there}"
        return Finding("bad", "disk", found, "do choose another output_dir, or mend the rights of that one")
    free = shutil.disk_usage(there).free
    found = f"{free / 1e9:,.0f} GB free in {there}"
    if needed is not None and free < needed:
        advice = "do choose another output_dir, or fewer train.keep_checkpoints"
        return Finding("bad", "disk", f"{found}; the run's checkpoints take up to {needed / 1e9:,.0f} GB", advice)
    if needed is None and free < FREE_BYTES:
        return Finding("note", "disk", found, "a checkpoint of an 8B model takes 105 GB, of its adapter 0.5 GB")
    return Finding("ok", "disk", found)


def wandb_login(mode: str | None) -> Finding:
    """
    Args:
        mode: the recipe's wandb.mode; None without a recipe.
    """
    if has_key():
        return Finding("ok", "W&B", f"a key is there{f'; wandb.mode is {mode}' if mode else ''}")
    if mode == "online":
        advice = "do export WANDB_API_KEY, or set wandb.mode=offline and run `wandb sync` later"
        return Finding("bad", "W&B", "no key, and wandb.mode is online", advice)
    return Finding("ok", "W&B", f"no key; wandb.mode={mode or 'offline'} needs none")


def model_files(model: Model) -> Finding:
    """Whether a run finds its model without a network."""
    if model.scratch is not None:
        return Finding("ok", "model", f"{model.name} is made from scratch: nothing to download")
    name = str(model.pretrained)
    folder = Path(name).is_dir()
    where = f"the folder {name}" if folder else f"{name} in the hub's cache"
    try:
        if is_whole(name, model.revision):
            return Finding("ok", "model", f"{where} has config and weights")
    except HFValidationError:
        return Finding("bad", "model", f"{name}: no folder here, nor a name on the hub", "do correct model.pretrained")
    if folder:
        return Finding("bad", "model", f"{where} lacks its config or weights", "do give the folder of a whole model")
    advice = f"do run: hf download {name} (and hf auth login, if its licence asks for it)"
    offline = constants.HF_HUB_OFFLINE
    found = f"{where} is incomplete or absent" + (", and HF_HUB_OFFLINE is set" if offline else "")
    return Finding("bad" if offline else "note", "model", found, advice)


def choices(recipe: Recipe, installed: Container[str], *, flash: bool) -> Iterator[Finding]:
    """What a recipe insists on, and this machine does not have.

    Args:
        installed: packages.
        flash: whether Flash Attention can run here.
    """
    sharding = recipe.train.sharding
    if sharding.startswith("zero") and "deepspeed" not in installed:
        advice = "do run: pip install -e '.[deepspeed]', or set train.sharding=fsdp2"
        yield Finding("bad", "deepspeed", f"not installed, and train.sharding is {sharding}", advice)
    try:
        FAMILIES[recipe.model.family].resolve_attention(recipe.model.attention, flash=flash)
    except ValueError as error:
        yield Finding("bad", "attention", str(error))


def hub() -> Finding:
    """One request without a name or a token."""
    if constants.HF_HUB_OFFLINE:
        return Finding("note", "hub", "HF_HUB_OFFLINE is set", "nothing is asked of it; models come from the cache")
    try:
        httpx.head(constants.ENDPOINT, timeout=5, follow_redirects=True)
    except httpx.HTTPError as error:
        advice = "do set HF_HUB_OFFLINE=1, so that no run waits for it, and download elsewhere; or check the proxy"
        return Finding("note", "hub", f"{constants.ENDPOINT} cannot be reached ({type(error).__name__})", advice)
    return Finding("ok", "hub", f"{constants.ENDPOINT} answers")


def examine(argv: Sequence[str]) -> list[Finding]:
    """
    Raises:
        RecipeError: every problem of the command line and of the recipe at once.
    """
    line = CommandLine(argv, ("hub",))
    ask = line.choice("hub", ("false", "true"), "false") == "true"
    recipe = None
    if any(not token.startswith("hub=") for token in argv):
        recipe = line.recipe()
    else:
        line.without_recipe()
    installed = {str(one.metadata["Name"]).lower().replace("_", "-"): one.version for one in metadata.distributions()}
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    here = [torch.cuda.get_device_properties(number) for number in range(torch.cuda.device_count())]
    nccl = torch.cuda.nccl.version() if here and torch.distributed.is_nccl_available() else None
    flash = is_flash_attn_2_available()
    return [
        *versions(installed, project["dependencies"]),
        *gpus(
            [Gpu(one.name, one.total_memory, (one.major, one.minor)) for one in here],
            nccl,
            flash="flash-attn" in installed or flash,
            precision=recipe.train.precision if recipe else None,
            cuda=torch.version.cuda,
            device_files=Path("/dev/nvidiactl").exists() and os.environ.get("CUDA_VISIBLE_DEVICES") not in ("", "-1"),
        ),
        *(choices(recipe, installed, flash=flash) if recipe else ()),
        disk(Path(recipe.output_dir if recipe else "."), _needed(recipe) if recipe else None),
        wandb_login(recipe.wandb.mode if recipe else None),
        *([model_files(recipe.model)] if recipe else []),
        hub() if ask else _hub_unasked(),
    ]


def _needed(recipe: Recipe) -> int | None:
    """Bytes of the checkpoints that are on disk at once, at the most; of a run that keeps all, of two: how many it
    makes is not known here."""
    try:
        loaded = train_towers(outline(recipe.model).loaded, recipe.train)
    except ValueError:  # another line says what is wrong with the model
        return None
    keep = recipe.train.keep_checkpoints
    return checkpoints_at_once(recipe, saves=keep + 2 if keep else 2) * checkpoint_bytes(loaded.model, recipe)


def _hub_unasked() -> Finding:
    offline = "; HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE or os.environ.get("TRANSFORMERS_OFFLINE") else ""
    return Finding("ok", "hub", f"not asked (hub=true does); cache: {constants.HF_HUB_CACHE}{offline}")


def main(argv: Sequence[str]) -> int:
    transformers.logging.set_verbosity_error()
    warnings.filterwarnings("ignore", message=".*activation_checkpointing.*")
    found: list[Finding] = []

    def work(words: Sequence[str]) -> str:
        found.extend(examine(words))
        return page(found)

    return run_command(argv or ["hub=false"], USAGE, work) or int(any(one.level == "bad" for one in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
