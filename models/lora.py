"""LoRA adapters on the language tower."""

from __future__ import annotations

from dataclasses import replace

from peft import LoraConfig, get_peft_model

from models.load import Loaded
from recipes.schema import Lora


def add_lora(loaded: Loaded, lora: Lora) -> Loaded:
    """The model with trainable fp32 adapters on `family.lora_targets`; the base is frozen in the dtype it has.

    The model is changed in place and wrapped in a PeftModel. B starts at zero, so outputs are those of the base; A is
    drawn from torch's global random state.
    """
    config = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,  # type: ignore[arg-type]  # peft divides it by r; no whole number needed
        lora_dropout=lora.dropout,
        target_modules=loaded.family.lora_targets,
        task_type="CAUSAL_LM",
    )
    return replace(loaded, model=get_peft_model(loaded.model, config, autocast_adapter_dtype=True))
