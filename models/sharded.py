"""Models whose parameters are spread over the processes (PyTorch's FSDP2): each holds a slice of every one."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from models.family import Family


def is_sharded(model: nn.Module) -> bool:
    """Whether `shard` has been here."""
    return isinstance(model, FSDPModule)


@torch.no_grad()
def shard(model: Any, family: Family, device: torch.device, *, bf16: bool) -> None:
    """Spread the parameters over all processes, in place, each process's slices on its device.

    All processes call this with models of one structure. The values are the first process's; on the others the
    parameters may be on the meta device. The layers of both towers, the embeddings and the head are gathered one by
    one while they are computed with; the rest is gathered for the whole of a step. Gradients are averaged over the
    processes, in float32.

    Args:
        model: plain, or a PeftModel.
        bf16: gather the weights as bfloat16; what is kept stays what it is.
    """
    first = dist.get_rank() == 0
    values = {name: parameter.data for name, parameter in model.named_parameters()} if first else {}
    # inputs are left alone, for autocast does what is needed and rotary angles stay exact
    policy = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16 if bf16 else None, reduce_dtype=torch.float32, cast_forward_inputs=False
    )
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    for unit in [*_units(model, family), model]:
        own = type(unit)
        fully_shard(unit, mesh=mesh, mp_policy=policy, reshard_after_forward=unit is not model)
        # transformers knows by its class what a model's weights are called in files
        type(unit).__name__, type(unit).__module__ = own.__name__, own.__module__
    if any(parameter.is_meta for parameter in model.parameters()):
        model._apply(lambda tensor: torch.empty_like(tensor, device=device) if tensor.is_meta else tensor)
    for name, parameter in model.named_parameters():
        if first:
            value = values.pop(name).to(device)
        else:
            value = torch.empty(parameter.shape, dtype=parameter.dtype, device=device)
        sent = distribute_tensor(value, parameter.device_mesh, parameter.placements, src_data_rank=0)
        parameter.to_local().copy_(sent.to_local())
    # the library also returns views of the image's embeddings, which nobody changes
    warnings.filterwarnings("ignore", message=r"FSDP2-wrapped module .* returned a view tensor")
    # or whichever module happened to be called first would count as the root
    fully_shard.state(model)._lazy_init()  # type: ignore[attr-defined]


def _units(model: Any, family: Family) -> list[nn.Module]:
    layers: list[nn.Module] = [module for module in model.modules() if type(module).__name__ in family.layers]
    embeddings, head = model.get_input_embeddings(), model.get_output_embeddings()
    return layers if embeddings.weight is head.weight else [*layers, embeddings, head]


@contextmanager
def unsharded(model: Any) -> Iterator[None]:
    """Every process has all weights while the block runs, so that each may call the model on its own.

    All processes enter and leave together; no gradients. A model that is not sharded is left as it is.
    """
    sharded = [module for module in model.modules() if isinstance(module, FSDPModule)]
    for module in sharded:
        module.set_reshard_after_forward(False, recurse=False)
        module.unshard()
    try:
        yield
    finally:
        for module in sharded:
            module.set_reshard_after_forward(module is not model, recurse=False)
        if sharded:  # backward passes would fetch the next layer by the order of these forward passes, too
            model.reset_iter_state()


@torch.no_grad()
def gathered(model: Any, *, trained_only: bool) -> dict[str, torch.Tensor]:
    """The parameters of a sharded model by name, whole and on the CPU, on the first process; nothing on the others.

    All processes call this. Names that are tied share their tensor.

    Args:
        trained_only: leave out what requires no gradient.
    """
    found: dict[int, torch.Tensor] = {}
    named = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if trained_only and not parameter.requires_grad:
            continue
        if id(parameter) not in found:
            value = parameter.full_tensor()
            found[id(parameter)] = value.cpu() if dist.get_rank() == 0 else value.new_empty(0)
        named[name] = found[id(parameter)]
    return named if dist.get_rank() == 0 else {}


def fill(parameter: torch.Tensor, value: torch.Tensor) -> None:
    """Copy a whole value into a parameter; into this process's slice of it where it is sharded."""
    if isinstance(parameter, DTensor):
        value = value.to(device=parameter.to_local().device, dtype=parameter.dtype)
        value = distribute_tensor(value, parameter.device_mesh, parameter.placements, src_data_rank=None)
    parameter.copy_(value)
