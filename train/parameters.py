"""What trains: as the optimizer's groups, as a table, and in bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from models.family import Family
from recipes.schema import Towers, Train
from recipes.text_table import aligned

GRADIENT_BYTES = 4
"""Per trained parameter."""
ADAMW_BYTES = 8
"""Of the optimizer's two moments, per trained parameter."""
_HOW = ("lora", "full", "frozen", "start")


def learning_rates(train: Train, otherwise: float) -> dict[str, float]:
    """Tower -> its learning rate at the top of the schedule; of the towers that train, the language tower first.

    Args:
        otherwise: that of towers without one of their own.
    """
    methods = train.methods()
    return {name: tower.learning_rate or otherwise for name, tower in train.towers if methods[name] != "frozen"}


def group_by_tower(
    optimizer: torch.optim.Optimizer, model: nn.Module, family: Family, rates: Mapping[str, float]
) -> None:
    """Split the groups of an optimizer that has not stepped yet, so that each is of one tower and has its rate.

    Groups stand in the order of `rates`, those of a tower as they were: a continued run finds them as it left them.
    """
    towers = {parameter: family.tower_of(name) for name, parameter in model.named_parameters()}
    split = []
    for tower, rate in rates.items():
        for group in optimizer.param_groups:
            if parameters := [parameter for parameter in group["params"] if towers[parameter] == tower]:
                split.append({**group, "params": parameters, "lr": rate})
    optimizer.param_groups = split


@dataclass(frozen=True)
class _Parameter:
    tower: str
    how: str
    module: str
    """Full name of the module that owns it, or that its adapter is on."""
    value: nn.Parameter

    @property
    def trained(self) -> int:
        return self.value.numel() if self.value.requires_grad else 0


def describe_parameters(model: nn.Module, family: Family, rates: Mapping[str, float]) -> str:
    """A table of what trains: a row for each tower and way, and the bytes that it takes.

    "start" is what PEFT keeps of a module that trains in full beside adapters. Gradients and AdamW's state are counted
    in float32.

    Args:
        rates: of the towers that train, see `learning_rates`.
    """
    every = [_described(name, parameter, family) for name, parameter in model.named_parameters()]
    heads = ("parameters", "trained", "dtype", "rate", "weights", "gradients", "AdamW")
    table = [(f"{'tower':<11}{'how':<8}modules", *heads)]
    for tower in Towers.model_fields:
        for how in _HOW:
            if rows := [one for one in every if (one.tower, one.how) == (tower, how)]:
                dtypes = ", ".join(sorted({str(one.value.dtype).removeprefix("torch.") for one in rows}))
                rate = f"{rates[tower]:.3g}" if how in ("lora", "full") else "-"
                table.append((f"{tower:<11}{how:<8}{_modules(model, how, rows)}", *_counts(rows, dtypes, rate)))
    table.append(("all", *_counts(every, "", "")))
    return aligned([(first, *(f" {cell}" for cell in rest)) for first, *rest in table])


def _described(name: str, parameter: nn.Parameter, family: Family) -> _Parameter:
    module, is_adapter, _ = name.partition(".lora_")
    if is_adapter:
        return _Parameter(family.tower_of(name), "lora", module, parameter)
    how = "full" if parameter.requires_grad else "start" if ".original_module." in name else "frozen"
    return _Parameter(family.tower_of(name), how, name.rpartition(".")[0], parameter)


def _modules(model: nn.Module, how: str, rows: Sequence[_Parameter]) -> str:
    """`36 x 7 linear layers, rank 16`, or `253 linear layers, 146 others`."""
    modules = {one.module: model.get_submodule(one.module) for one in rows}
    if how == "lora":
        names = {name.rpartition(".")[2] for name in modules}
        rank = next(iter(modules.values())).r["default"]
        return f"{len(modules) // len(names)} x {len(names)} linear layers, rank {rank}"
    linear = sum(isinstance(module, nn.Linear) for module in modules.values())
    return f"{linear} linear layers, {len(modules) - linear} others"


def _counts(rows: Sequence[_Parameter], dtypes: str, rate: str) -> tuple[str, ...]:
    trained = sum(one.trained for one in rows)
    weights = sum(one.value.numel() * one.value.element_size() for one in rows)
    sizes = (_size(weights), _size(GRADIENT_BYTES * trained), _size(ADAMW_BYTES * trained))
    return (f"{sum(one.value.numel() for one in rows):,}", f"{trained:,}", dtypes, rate, *sizes)


def _size(num_bytes: int) -> str:
    """Bytes as MiB or GiB."""
    if num_bytes == 0:
        return "0"
    return f"{num_bytes / 2**30:,.2f} GiB" if num_bytes >= 2**30 else f"{num_bytes / 2**20:,.2f} MiB"


@dataclass(frozen=True)
class TrainingState:
    """Bytes of a whole model in training, activations apart."""

    weights: int
    gradients: int
    optimizer: int

    @property
    def total(self) -> int:
        return self.weights + self.gradients + self.optimizer


def training_state(model: nn.Module) -> TrainingState:
    """Gradients and AdamW's state are counted in float32."""
    parameters = list(model.parameters())
    trained = sum(parameter.numel() for parameter in parameters if parameter.requires_grad)
    weights = sum(parameter.numel() * parameter.element_size() for parameter in parameters)
    return TrainingState(weights, GRADIENT_BYTES * trained, ADAMW_BYTES * trained)
