"""What trains of a model, by tower: all of it, adapters on its linear layers, or nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import torch
from peft import LoraConfig, PeftModel

from models.family import Family
from models.load import Loaded, with_adapter
from recipes.fields import did_you_mean, problem, shown
from recipes.schema import Train


def load_dtype(train: Train) -> torch.dtype:
    """The dtype in which to load a model for `train_towers`.

    float32 where the model's own towers train, for bfloat16 weights would lose most of each small step.
    """
    return frozen_dtype(train) if "lora" in train.methods().values() else torch.float32


def frozen_dtype(train: Train) -> torch.dtype:
    """The dtype of what does not train: the compute precision."""
    return torch.bfloat16 if train.precision == "bf16" else torch.float32


def train_towers(loaded: Loaded, train: Train) -> Loaded:
    """The model, changed in place, of which only what the recipe says requires gradients.

    With lora in any tower it is a PeftModel with one adapter, in which a projector that trains in full is a whole
    module beside its untouched self. B starts at zero, so outputs stay those of the base; A is drawn from torch's
    global random state. What trains is float32, the rest `frozen_dtype`.

    Raises:
        ValueError: see `check_towers`.
    """
    check_towers(loaded.family, train)
    methods, model = train.methods(), loaded.model
    if "lora" in methods.values():
        model = with_adapter(model, _lora_config(loaded.family, model, train))
    else:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(methods[loaded.family.tower_of(name)] == "full")
    for parameter in model.parameters():  # not .to(dtype): it would round the rotary frequencies, too
        parameter.data = parameter.data.to(torch.float32 if parameter.requires_grad else frozen_dtype(train))
    return replace(loaded, model=model)


def check_towers(family: Family, train: Train) -> None:
    """Needs no model.

    Raises:
        ValueError: adapters are asked for on a tower without linear layers, or on layers that it does not have; all
            problems at once, as path: got; allowed; do.
    """
    problems = []
    for name, tower in train.towers:
        if train.methods()[name] != "lora":
            continue
        place, linears = f"train.towers.{name}", family.linears.get(name)
        if linears is None:
            allowed = f"full | frozen for the {name} of {family.name}, which has no linear layers"
            problems.append(problem(f"{place}.method", "lora", allowed, f"do set {place}.method=full"))
            continue
        problems += [
            problem(f"{place}.targets", shown(target), ", ".join(linears.names), did_you_mean(target, linears.names))
            for target in tower.targets or ()
            if target not in linears.names
        ]
    if problems:
        raise ValueError("\n".join(problems))


def leave_inputs_alone(model: Any) -> None:
    """Gradients end where nothing below trains, whatever the library asks for later.

    For gradient checkpointing it has embeddings require gradients, which reentrant passes need and others do not; in
    Gemma3 those of image patches, too, so that a frozen vision tower would be kept and differentiated for nothing.
    """
    inner: Any = model.get_base_model() if isinstance(model, PeftModel) else model
    inner.disable_input_require_grads()
    inner.enable_input_require_grads = lambda: None


def _lora_config(family: Family, model: Any, train: Train) -> LoraConfig:
    methods = train.methods()
    targets = [
        rf"{family.linears[name].inside}\.(?:{'|'.join(tower.targets or family.linears[name].names)})"
        for name, tower in train.towers
        if methods[name] == "lora"
    ]
    projector = re.compile(family.towers["projector"])
    whole = [name for name, _ in model.named_modules() if projector.fullmatch(name)]
    return LoraConfig(
        r=train.lora.rank,
        lora_alpha=train.lora.alpha,  # type: ignore[arg-type]  # peft divides it by r; no whole number needed
        lora_dropout=train.lora.dropout,
        target_modules="|".join(targets),
        modules_to_save=whole if methods["projector"] == "full" else None,
        task_type="CAUSAL_LM",
    )
