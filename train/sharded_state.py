"""The optimizer state of a sharded model: every process writes and reads its own slices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)

FOLDER = "optimizer"
"""Inside a checkpoint. Its files fit any number of processes."""

_BY_NAME = StateDictOptions(flatten_optimizer_state_dict=True)


def save_optimizer(checkpoint: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """All processes call this, on one file system."""
    state = get_optimizer_state_dict(model, optimizer, options=_BY_NAME)
    dcp.save(state, checkpoint_id=checkpoint / FOLDER)


def load_optimizer(checkpoint: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """All processes call this, with an optimizer that has not stepped."""
    state: dict[str, Any] = get_optimizer_state_dict(model, optimizer, options=_BY_NAME)
    dcp.load(state, checkpoint_id=checkpoint / FOLDER)
    set_optimizer_state_dict(model, optimizer, state, options=_BY_NAME)
