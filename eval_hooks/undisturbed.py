"""What is computed in the middle of training, or before it, leaves no trace in it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn

from models.generation import evaluating


@contextmanager
def kept_random_state() -> Iterator[None]:
    """The global random states of Python, numpy, torch and every CUDA device are afterwards what they were."""
    python, numbers, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numbers)
        torch.set_rng_state(cpu)
        if devices:
            torch.cuda.set_rng_state_all(devices)


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Run a block with the model in eval mode and without gradients, then put back what it may have changed.

    Put back: random states; each module's own training flag; `use_cache` of the model's configs.
    """
    configs = {id(module.config): module.config for module in model.modules() if hasattr(module, "config")}.values()
    use_cache = [(config, config.use_cache) for config in configs if hasattr(config, "use_cache")]
    try:
        with kept_random_state(), evaluating(model), torch.no_grad():
            yield
    finally:
        for config, value in use_cache:
            config.use_cache = value
