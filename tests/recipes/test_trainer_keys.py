import ast
import re

import pytest
from trl import GRPOConfig

from recipes.grpo_checks import NUM_GENERATIONS
from recipes.trainer_keys import _CHOICES, FIELDS_FILE, GRPO, OWNED, SFT, trainer_fields, trainer_problems
from train.trainer_fields import fields_text

CONFIGS = pytest.mark.parametrize("config", [SFT, GRPO])


def test_the_list_is_that_of_the_installed_trl():
    assert FIELDS_FILE.read_text(encoding="utf-8") == fields_text(), "run: python -m train.trainer_fields"


@CONFIGS
def test_every_owned_key_is_one_of_trl_s(config):
    assert sorted(set(OWNED[config]) - set(trainer_fields()[config])) == []


@CONFIGS
@pytest.mark.parametrize(
    "prefix",
    ["eval_", "save_", "fsdp", "ddp_", "hub_", "trackio_", "packing", "dataset_", "per_device_", "ref_model_",
     "use_transformers_", "log_completions_"],
)  # fmt: skip
def test_families_of_keys_are_owned_whole(config, prefix):
    fields = trainer_fields()[config]
    assert [name for name in fields if name.startswith(prefix) and name not in OWNED[config]] == []


def test_what_both_configs_own_is_the_same_but_for_loss_and_lengths():
    shared = trainer_fields()[SFT].keys() & trainer_fields()[GRPO].keys()
    differing = {name for name in shared if (name in OWNED[SFT]) != (name in OWNED[GRPO])}
    assert differing == {"loss_type", "neftune_noise_alpha"}


def test_what_grpo_leaves_to_the_recipe_is_known_key_by_key():
    """So that a new version of TRL brings no key that nobody has thought through."""
    free = trainer_fields()[GRPO].keys() - OWNED[GRPO].keys() - trainer_fields()[SFT].keys()
    assert sorted(free) == [
        "beta", "delta", "entropy_coef", "entropy_coef_delta", "entropy_coef_max", "entropy_coef_min",
        "entropy_target", "epsilon", "epsilon_high", "generation_kwargs", "importance_sampling_level",
        "mask_truncated_completions", "min_p",
        "multi_objective_aggregation", "num_generations", "num_iterations",
        "off_policy_mask_threshold", "repetition_penalty", "sapo_temperature_neg", "sapo_temperature_pos",
        "scale_rewards", "temperature", "top_entropy_quantile", "top_k", "top_p", "use_adaptive_entropy",
        "use_bias_correction_kl", "use_vllm", "vespo_k_neg", "vespo_k_pos", "vespo_lambda_neg", "vespo_lambda_pos",
        "vllm_enable_sleep_mode", "vllm_gpu_memory_utilization", "vllm_group_port",
        "vllm_importance_sampling_clip_max", "vllm_importance_sampling_clip_min",
        "vllm_importance_sampling_correction", "vllm_importance_sampling_mode", "vllm_mode", "vllm_model_impl",
        "vllm_server_base_url", "vllm_server_host", "vllm_server_port", "vllm_server_timeout",
        "vllm_tensor_parallel_size",
    ]  # fmt: skip


@pytest.mark.parametrize(("function", "config"), [("sft_arguments", SFT), ("grpo_arguments", GRPO)])
def test_what_the_script_sets_over_the_recipe_is_owned(request, function, config):
    tree = ast.parse((request.config.rootpath / "train" / "arguments.py").read_text(encoding="utf-8"))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    dicts = [
        node.value
        for name in ("_owned", function)
        for node in ast.walk(functions[name])
        if (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "owned")
        or (isinstance(node, ast.Return) and isinstance(node.value, ast.Dict))
    ]
    assert len(dicts) == 2
    keys = {key.value for one in dicts for key in one.keys if isinstance(key, ast.Constant)}
    assert keys - set(OWNED[config]) == set()


def test_a_group_is_as_large_as_trl_makes_it():
    assert GRPOConfig.__dataclass_fields__["num_generations"].default == NUM_GENERATIONS
    assert GRPOConfig.__dataclass_fields__["num_iterations"].default == 1


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("lerning_rate", 1, "trainer.lerning_rate: got an unknown name; .*did you mean learning_rate"),
        ("warmup_ratio", 0.1, "did you mean warmup_steps"),
        ("zzz", 1, "do use one of .*learning_rate"),
        ("max_length", 5, "trainer.max_length: got 5; allowed: nothing, the recipe owns it; do set model.max_tokens"),
        ("output_dir", "x", "do set output_dir"),
        ("gradient_accumulation_steps", 2, "do set train.effective_batch"),
        ("seed", 1, "do set seed"),
        ("learning_rate", "fast", 'got "fast"; allowed: a number; do change its type'),
        ("learning_rate", True, "got true; allowed: a number"),
        ("max_steps", 1e2, "got 100.0; allowed: a whole number; do write 100"),
        ("max_steps", None, "got null; allowed: a whole number"),
        ("optim", "adamw_torsh", "did you mean adamw_torch"),
        ("lr_scheduler_type", "linaer", "got \"linaer\"; allowed: linear .*did you mean linear"),
        ("gradient_checkpointing", "true", "allowed: true or false"),
    ],
)  # fmt: skip
def test_a_wrong_key_or_value_is_told(key, value, said):
    (line,) = trainer_problems({key: value}, SFT)
    assert re.search(said, line), line


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("bta", 0.1, "trainer.bta: got an unknown name; allowed: the fields of TRL's GRPOConfig; did you mean beta"),
        ("assistant_only_loss", True, "GRPOConfig; do remove it: it is of supervised training"),
        ("max_completion_length", 9, "got 9; allowed: nothing, the recipe owns it; do leave it out: it follows from"),
        ("steps_per_generation", 4, "do set train.effective_batch"),
        ("reward_weights", [1.0], "do set reward"),
        ("use_transformers_continuous_batching", True, "do set rollouts.batch, or trainer.use_vllm"),
        ("vllm_structured_outputs_regex", ".*", "do set rollouts.constrained"),
        ("sync_ref_model", True, "do leave it out: a checkpoint has no room"),
        ("loss_type", "dapp", 'got "dapp"; allowed: grpo .* vespo; did you mean dapo'),
        ("scale_rewards", True, "got true; allowed: text"),
        ("scale_rewards", "nothing", "allowed: group | batch | none"),
        ("vllm_mode", "serve", "did you mean server"),
        ("beta", "0.1", 'got "0.1"; allowed: a number'),
    ],
)
def test_a_key_that_grpo_does_not_take_is_told(key, value, said):
    (line,) = trainer_problems({key: value}, GRPO)
    assert re.search(said, line), line


def test_a_key_of_grpo_is_refused_in_sft_with_what_makes_it_one():
    (line,) = trainer_problems({"beta": 0.1}, SFT)
    assert line.endswith("the fields of TRL's SFTConfig; do remove it, or set reward={} for GRPO")


def test_the_choices_of_grpo_are_those_that_trl_names():
    for name, choices in _CHOICES.items():
        told = GRPOConfig.__dataclass_fields__[name].metadata["help"]
        assert [choice for choice in choices if choice not in told] == [], name
        assert GRPOConfig.__dataclass_fields__[name].default in choices


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("learning_rate", 1),
        ("num_train_epochs", 0.5),
        ("tf32", None),
        ("optim", "sgd"),
        ("lr_scheduler_kwargs", {"a": 1}),
    ],
)
def test_right_values_pass(key, value):
    assert trainer_problems({key: value}, SFT) == []
    assert trainer_problems({key: value}, GRPO) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("loss_type", "dr_grpo"),
        ("scale_rewards", "none"),
        ("beta", 0),
        ("epsilon_high", 0.28),
        ("num_iterations", 2),
        ("temperature", 0.7),
        ("use_vllm", True),
        ("vllm_server_base_url", "http://localhost:8000"),
    ],
)
def test_right_values_of_grpo_pass(key, value):
    assert trainer_problems({key: value}, GRPO) == []
