"""What `trainer:` may hold: the names and types of TRL's SFTConfig, or of its GRPOConfig where a recipe has a reward,
less those that the recipe sets elsewhere.

trainer_fields.json is written by `python -m train.trainer_fields`; so nothing here needs torch.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from recipes.fields import did_you_mean, problem, shown

FIELDS_FILE = Path(__file__).parent / "trainer_fields.json"

SFT = "SFTConfig"
GRPO = "GRPOConfig"

_OWNERS: dict[str, str] = {
    "do set output_dir=... at the top of the recipe": "output_dir",
    "do nothing: the script trains, and evaluates by eval.count and eval.final_count": "do_train do_eval do_predict",
    "do leave it out: batches are padded to their longest example": "pad_to_multiple_of",
    "do set train.effective_batch; accumulation follows from it": "gradient_accumulation_steps",
    "do set eval.batch": "per_device_eval_batch_size",
    "do set train.precision": "bf16 fp16 bf16_full_eval fp16_full_eval",
    "do set train.checkpoint_every or train.keep_checkpoints; a checkpoint is always complete": (
        "save_strategy save_steps save_total_limit save_only_model save_on_each_node enable_jit_checkpoint "
        "restore_callback_states_from_checkpoint"
    ),
    "do set resume=true": "resume_from_checkpoint ignore_data_skip",
    "do set eval.*: every checkpoint is scored by free generation": (
        "eval_strategy eval_steps eval_delay eval_on_start eval_accumulation_steps eval_do_concat_batches "
        "eval_use_gather_object batch_eval_metrics include_for_metrics prediction_loss_only label_names "
        "load_best_model_at_end metric_for_best_model greater_is_better"
    ),
    "do set train.sharding; the processes come from accelerate launch": (
        "fsdp fsdp_config deepspeed parallelism_config accelerator_config local_rank ddp_backend "
        "ddp_broadcast_buffers ddp_bucket_cap_mb ddp_find_unused_parameters ddp_static_graph ddp_timeout"
    ),
    "do choose it with accelerate launch --config_file launch/accelerate/cpu2.yaml (or another)": "use_cpu",
    "do set seed=... at the top of the recipe": "seed data_seed",
    "do set wandb.mode, wandb.project or wandb.entity; the run bears the recipe's name": (
        "report_to run_name project trackio_space_id trackio_static_space_id trackio_bucket_id"
    ),
    "do set train.workers": "dataloader_num_workers",
    "do leave it out: the script sets it": ("disable_tqdm dataloader_pin_memory dataloader_multiprocessing_context"),
    "do set data.*: the mixture fixes which examples come, and in which order": (
        "remove_unused_columns length_column_name train_sampling_strategy shuffle_dataset dataloader_drop_last "
        "dataloader_in_order"
    ),
    "do set it in the model file, recipes/models/NAME.yaml": "model_init_kwargs use_cache",
    "do leave it out: code from a model's repository is never run": "trust_remote_code",
    "do leave it out: nothing is uploaded; push a finished checkpoint with the hub's own client": (
        "push_to_hub hub_model_id hub_strategy hub_token hub_private_repo hub_always_push hub_revision"
    ),
}
"""What to do -> keys of both, which then may not be given."""

_SFT_OWNERS: dict[str, str] = {
    "do set model.max_tokens; an example that does not fit is refused, never cut": "max_length truncation_mode",
    "do set train.batching: TRL packs no examples with images": "packing packing_strategy padding_free eval_packing",
    "do set train.micro_batch, or train.max_pack_tokens": "per_device_train_batch_size auto_find_batch_size",
    "do set data.*: the mixture fixes which examples come, and in which order": (
        "dataset_text_field dataset_kwargs dataset_num_proc"
    ),
    "do set train.predictable_weight or train.weighting: the loss is a weighted mean over a step's answer tokens": (
        "completion_only_loss assistant_only_loss loss_type label_smoothing_factor router_aux_loss_coef "
        "average_tokens_across_devices use_liger_kernel liger_kernel_config"
    ),
    "do set it in the model file, recipes/models/NAME.yaml": "chat_template_path eos_token pad_token",
}

_GRPO_OWNERS: dict[str, str] = {
    "do leave it out: it follows from the longest answer of the parts; prompt and answer fit in model.max_tokens": (
        "max_completion_length vllm_max_model_length"
    ),
    "do set train.effective_batch: every step asks its own completions": "generation_batch_size steps_per_generation",
    "do set train.micro_batch": "per_device_train_batch_size auto_find_batch_size",
    "do set eval.samples with eval.protocol=sampled": "num_generations_eval",
    "do set reward.*": "reward_weights",
    "do set trainer.loss_type: the loss is one of advantages": (
        "label_smoothing_factor average_tokens_across_devices router_aux_loss_coef"
    ),
    "do leave it out: TRL reads the probabilities of tokens from the model's own layers": (
        "use_liger_kernel liger_kernel_config"
    ),
    "do leave it out: a completion's probability must be the same when it is drawn and when it is trained on": (
        "neftune_noise_alpha"
    ),
    "do set train.lora.dropout, there is no other": "disable_dropout",
    "do set train.precision: trained weights are fp32": "cast_lm_head_to_fp32",
    "do leave it out: a checkpoint has no room for a reference model that changes": (
        "sync_ref_model ref_model_mixup_alpha ref_model_sync_steps"
    ),
    "do leave it out: the task writes the whole prompt, and no tool is called": (
        "chat_template_kwargs max_tool_calling_iterations"
    ),
    "do set rollouts.batch, or trainer.use_vllm: TRL batches no prompts with images in this way": (
        "use_transformers_continuous_batching transformers_continuous_batching_config use_transformers_paged"
    ),
    "do leave it out: the script gathers what a process needs to write": "ds3_gather_for_generation",
    "do leave it out: the script chooses the cache": "cache_implementation",
    "do set rollouts.constrained: training must know which tokens could be drawn": "vllm_structured_outputs_regex",
    "do set trainer.vllm_importance_sampling_clip_max": "vllm_importance_sampling_cap",
    "do set rollouts.write=true, which keeps every completion and what it earned in output_dir": (
        "log_completions log_completions_hub_repo log_multimodal log_unique_prompts num_completions_to_print"
    ),
}

OWNED: dict[str, dict[str, str]] = {
    config: {key: advice for advice, keys in [*_OWNERS.items(), *own.items()] for key in keys.split()}
    for config, own in ((SFT, _SFT_OWNERS), (GRPO, _GRPO_OWNERS))
}
"""Of each config, the keys that a recipe may not give under `trainer:` -> where to set them instead."""

_CHOICES: dict[str, list[str]] = {
    "loss_type": ["grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo", "luspo", "vespo"],
    "scale_rewards": ["group", "batch", "none"],
    "multi_objective_aggregation": ["sum_then_normalize", "normalize_then_sum"],
    "importance_sampling_level": ["token", "sequence"],
    "vllm_mode": ["colocate", "server"],
    "vllm_model_impl": ["vllm", "transformers"],
    "vllm_importance_sampling_mode": ["token_truncate", "token_mask", "sequence_truncate", "sequence_mask"],
}
"""Of GRPOConfig, which leaves these open and has the trainer refuse others, some in the first step."""

_WORDS = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "dict": "a mapping",
    "list": "a list",
    "null": "null",
}


@cache
def trainer_fields() -> dict[str, dict[str, dict[str, list[str]]]]:
    """Config -> name -> {"types": names of JSON types in Python's words, "choices": allowed texts, absent if free}."""
    return json.loads(FIELDS_FILE.read_text(encoding="utf-8"))


def trainer_problems(trainer: dict[str, Any], config: str) -> list[str]:
    """Every key of `trainer` that TRL does not know, that is ours, or whose value is of the wrong type.

    Args:
        config: SFT or GRPO.
    """
    fields, owned = trainer_fields()[config], OWNED[config]
    problems = []
    for key, value in trainer.items():
        place = ("trainer", key)
        if key in owned:
            got = "a secret" if key == "hub_token" else shown(value)
            problems.append(problem(place, got, "nothing, the recipe owns it", owned[key]))
        elif key not in fields:
            problems.append(problem(place, "an unknown name", f"the fields of TRL's {config}", _advice(key, config)))
        else:
            choices = {"choices": _CHOICES[key]} if config == GRPO and key in _CHOICES else {}
            problems += _value_problems(place, value, fields[key] | choices)
    return problems


def _advice(key: str, config: str) -> str:
    fields, owned = trainer_fields(), OWNED[config]
    if any(key in names for names in fields.values()):
        return "do remove it" + (", or set reward={} for GRPO" if config == SFT else ": it is of supervised training")
    free = [name for name in fields[config] if name not in owned]
    near = did_you_mean(key, [*free, *owned])
    return near if near.startswith("did") else f"do use one of {', '.join(free)}"


def _value_problems(place: tuple[str, str], value: Any, field: dict[str, list[str]]) -> list[str]:
    types, choices = field["types"], field.get("choices")
    kind = "null" if value is None else type(value).__name__
    if kind not in types and not (kind == "int" and "float" in types):
        allowed = ", or ".join(_WORDS[name] for name in types)
        whole = kind == "float" and "int" in types and value.is_integer()
        return [problem(place, shown(value), allowed, f"do write {int(value)}" if whole else "do change its type")]
    if choices and kind == "str" and value not in choices:
        return [problem(place, shown(value), " | ".join(choices), did_you_mean(value, choices))]
    return []
