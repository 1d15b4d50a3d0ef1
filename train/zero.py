"""DeepSpeed's ZeRO, set up without a file. deepspeed is imported only where a recipe asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from peft import PeftModel
from transformers.integrations.deepspeed import set_hf_deepspeed_config, unset_hf_deepspeed_config
from trl import SFTConfig
from trl.models.utils import add_hooks, remove_hooks


def zero_config(sharding: str) -> dict[str, Any] | None:
    """DeepSpeed's configuration for a sharding; None for those that are not its own."""
    stage = {"zero2": 2, "zero3": 3}.get(sharding)
    if stage is None:
        return None
    return {
        "zero_optimization": {
            "stage": stage,
            "overlap_comm": True,
            "contiguous_gradients": True,
            "stage3_gather_16bit_weights_on_model_save": True,
            "stage3_param_persistence_threshold": 0,  # what stays gathered must be of one type; adapters are of another
        },
        "bf16": {"enabled": "auto"},
        "data_types": {"grad_accum_dtype": "fp32"},
        "gradient_clipping": "auto",
        "gradient_accumulation_steps": "auto",
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
    }


@torch.no_grad()
def place(model: Any, args: SFTConfig) -> None:
    """Put the model, in place, where DeepSpeed's engine expects it: whole on the device, or for ZeRO-3 partitioned.

    For ZeRO-3 all processes call this, and the values are the first process's; on the others the parameters may be on
    the meta device.
    """
    set_hf_deepspeed_config(args.hf_deepspeed_config)
    if not args.hf_deepspeed_config.is_zero3():
        model.to(args.device)
        return
    from deepspeed import init_distributed
    from deepspeed.runtime.zero import Init

    init_distributed(dist_init_required=False)
    dtype = args.hf_deepspeed_config.dtype()
    if any(parameter.is_meta for parameter in model.parameters()):
        # memory that nobody has written to takes no room
        model._apply(lambda one: torch.empty_like(one, device="cpu", dtype=dtype) if one.is_meta else one)
        (model.get_base_model() if isinstance(model, PeftModel) else model).tie_weights()  # they are two by now
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)
    Init(module=model, config_dict_or_path=args.hf_deepspeed_config.config, dtype=dtype)


def leave_loading_alone() -> None:
    """Have the library load models as it does without DeepSpeed, until `place`."""
    unset_hf_deepspeed_config()


@contextmanager
def whole(engine: Any) -> Iterator[None]:
    """Every process has all weights while the block runs. All enter and leave together.

    Args:
        engine: DeepSpeed's, or a partitioned model that it does not have yet.
    """
    from deepspeed.runtime.zero import GatheredParameters

    with GatheredParameters(list(engine.parameters())):
        remove_hooks(engine)  # they would give the weights away after each use
        try:
            yield
        finally:
            add_hooks(engine)
