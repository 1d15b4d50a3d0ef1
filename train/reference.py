"""What a GRPO run's KL is measured from: the model as it is before the first step."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from peft import PeftModel
from trl import GRPOConfig

from models.load import Loaded


def check_reference(beta: float, sharding: str) -> None:
    """
    Args:
        sharding: as it will be, see `train.sharding.choose_sharding`.

    Raises:
        ValueError: there could be no reference.
    """
    if beta and sharding not in ("none", "ddp"):
        raise ValueError(
            f"trainer.beta: got {beta:g} with train.sharding={sharding}; allowed there: 0, as each process would need "
            "the first model whole, beside its share of the one that trains; set trainer.beta=0, or train.sharding=ddp "
            "with train.method=lora, whose first adapter is small"
        )


def reference_of(loaded: Loaded, args: GRPOConfig) -> Any:
    """A copy that stays as it is, in the precision that is computed in; None where TRL keeps one by itself (of an
    adapter), or none is needed."""
    if not args.beta or isinstance(loaded.model, PeftModel):
        return None
    copy = deepcopy(loaded.model).requires_grad_(False).eval()
    return copy.to(torch.bfloat16) if args.bf16 else copy
