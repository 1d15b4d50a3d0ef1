"""What the plan says of memory beside PyTorch's own memory tracker, on tensors without values.

    python benchmarks/plan_memory.py [cases=full_16x16,lora_16x16,vision_16x16,full_4x4,gemma_lora]

The plan traces each tower apart, of the language tower a few layers, and puts the passes together by arithmetic. Here
the whole model takes one micro-step under torch.distributed._tools.mem_tracker.MemTracker, with gradients and AdamW's
state there already: vision tower, projector, embeddings, language tower, loss head, and back. No memory is allocated,
so the true sizes fit on a CPU.
"""

from __future__ import annotations

import copy
import sys
import time
import warnings
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import torch
import transformers
from torch._subclasses import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker
from torch.utils.hooks import RemovableHandle

from models.load import Loaded
from models.outline import outline
from models.towers import leave_inputs_alone, train_towers
from recipes.loader import load_recipe
from train.head import linear_nll
from train.memory import checkpointing_of, training_memory
from train.traced import _UNMASKED, Load, _to_fake, trace

GIB = 2**30


class Case(NamedTuple):
    recipe: tuple[str, ...]
    load: Load
    vision_only: bool = False


SHEET_16 = Load(rows=1, length=13_000, patches=206 * 208, answer=2_131)
CASES = {
    "full_16x16": Case(("recipe=mixed_grid",), SHEET_16),
    "lora_16x16": Case(("recipe=mixed_grid_lora",), SHEET_16),
    "vision_16x16": Case(("recipe=mixed_grid",), SHEET_16, vision_only=True),
    "full_4x4": Case(("recipe=mixed_grid",), Load(rows=1, length=850, patches=46 * 46, answer=103)),
    "gemma_lora": Case(("recipe=mixed_grid_lora", "model=gemma3_12b"), Load(1, 4_000, 64 * 64, 2_131)),
}


def tracked(loaded: Loaded, case: Case, checkpointing: dict[str, object] | None) -> dict[str, int]:
    """Bytes by kind at the peak, as the tracker names them."""
    load, config = case.load, loaded.model.config
    model = copy.deepcopy(loaded.model).train()
    with FakeTensorMode():
        _to_fake(model, None)
        if checkpointing is not None:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=checkpointing or None)
            leave_inputs_alone(model)
        mask = loaded.family.mask(config, load.rows, load.length)
        if mask is None:
            model.set_attn_implementation({"text_config": _UNMASKED})
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        for parameter in trained:
            parameter.grad = torch.zeros_like(parameter)
        optimizer = torch.optim.AdamW(trained, foreach=False)
        optimizer.step()
        embed, head = model.get_input_embeddings(), model.get_output_embeddings()
        tower = next(module for name, module in model.named_modules() if name.endswith("language_model"))
        tracker = MemTracker()
        idle = RemovableHandle(OrderedDict())
        for parameter in model.parameters():
            if not parameter.requires_grad:  # or the tracker would ask it to tell of its gradient, which it cannot
                tracker._param_to_grad_hook_handles[parameter] = (idle, idle)
        tracker.track_external(model, optimizer, *([*mask.values()] if mask else []))
        with tracker:
            with torch.autocast("cpu", torch.bfloat16):
                images, *others = loaded.family.see(model, load.patches)
                images = images.flatten(0, -2)
                outputs = [images, *others]
                if not case.vision_only:
                    texts = embed(torch.empty(1, load.length - len(images), dtype=torch.long))
                    states = torch.cat([images[None].to(texts.dtype), texts], dim=1)
                    hidden = tower(inputs_embeds=states, attention_mask=mask, use_cache=False).last_hidden_state
                    targets = torch.empty(load.answer, dtype=torch.long)
                    scored = linear_nll(hidden[0, -load.answer :], head.weight, targets, torch.empty(load.answer))
                    outputs = [scored.weighted_nll, *others]
                    del texts, states, hidden, images
            outputs = [output for output in outputs if output.requires_grad]
            torch.autograd.backward(outputs, [torch.empty_like(output) for output in outputs])
        return {str(kind): size for kind, size in tracker.get_tracker_snapshot("peak")[torch.device("cpu")].items()}


def main(argv: Sequence[str]) -> None:
    transformers.logging.set_verbosity_error()
    warnings.filterwarnings("ignore")
    given = dict(argument.split("=", 1) for argument in argv)
    print(f"{'GiB':<14}{'plan':>9}{'tracker':>9}{'ratio':>8}{'plan s':>8}{'tracker s':>11}   of the plan:")
    for name in given.get("cases", ",".join(CASES)).split(","):
        case = CASES[name]
        recipe = load_recipe(list(case.recipe))
        loaded = train_towers(outline(recipe.model).loaded, recipe.train)
        checkpointing = checkpointing_of(recipe)
        started = time.perf_counter()
        memory = training_memory(loaded, recipe, "none", 1, case.load)
        peak = memory.peak
        if case.vision_only:
            vision, _ = trace(loaded, case.load, bf16=True, narrow=False, checkpointing=checkpointing)
            peak = memory.standing + max(vision.forward, vision.backward)
        planned = time.perf_counter() - started
        started = time.perf_counter()
        found = tracked(loaded, case, None if checkpointing is None else dict(checkpointing))
        took = time.perf_counter() - started
        total = next(size for kind, size in found.items() if kind.endswith("Total"))
        print(
            f"{name:<14}{peak / GIB:>9.2f}{total / GIB:>9.2f}{peak / total:>8.3f}{planned:>8.1f}{took:>11.1f}   "
            f"standing {memory.standing / GIB:.2f}, forward {memory.forward / GIB:.2f}, "
            f"backward {memory.backward / GIB:.2f}"
        )
        print(
            f"{'':<14}tracker: {', '.join(f'{kind} {size / GIB:.2f}' for kind, size in found.items() if size)}",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
