"""What a run with vLLM is refused for before its model is loaded, and what vLLM is told of its lengths."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any

import httpx
import torch
from trl import GRPOConfig

from eval_hooks.evaluate import answer_limit
from models.load import Loaded
from recipes.fields import problem, shown
from recipes.schema import Recipe
from train.check import Measured

logger = logging.getLogger(__name__)

SERVE = (
    'VLLM_SERVER_DEV_MODE=1 vllm serve {model} --enable-scale-out --weight-transfer-config \'{{"backend": "nccl"}}\' '
    "--logprobs-mode processed_logprobs --max-logprobs -1"
)
"""Starts a server that training can use, see docs/vllm.md."""
_SET_ELSEWHERE = (
    "n", "max_tokens", "logprobs", "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "stop_token_ids",
    "logit_bias",
)  # fmt: skip
"""What `trainer.generation_kwargs` would override of what TRL or `train.vllm_engine` hands to vLLM."""
_ANSWER_S = 5.0
"""Longest wait for a server's answer."""
_BYTES = 2
"""Of a weight, key or value in bfloat16."""


def check_vllm(recipe: Recipe, args: GRPOConfig, processes: int, rank: int) -> None:
    """Everything that needs neither model nor puzzles.

    Raises:
        ValueError: vLLM could not be used here, or not with this recipe.
    """
    problems = [*_here_problems(args, processes), *_recipe_problems(recipe, args)]
    if problems:
        raise ValueError("\n".join(problems))
    if args.vllm_mode == "server" and rank == 0:  # the only process that talks to it
        _check_server(recipe, args)


def plan_vllm(recipe: Recipe, args: GRPOConfig, loaded: Loaded, measured: Iterable[Measured], rank: int) -> None:
    """Tell vLLM the longest sequence, by `args.vllm_max_model_length`.

    Args:
        args: with `max_completion_length` as the puzzles need it.
        loaded: on any device, sharded or not.
        measured: the examples that the run may see.

    Raises:
        ValueError: vLLM would see other images than training does, or has no memory for one sequence.
    """
    measured = list(measured)
    check_images(recipe, loaded, {size for one in measured for size in one.image_sizes})
    # vLLM is asked for max_completion_length tokens whatever the prompt, and cut by us at each one's own limit
    args.vllm_max_model_length = max(one.lengths.prompt for one in measured) + args.max_completion_length
    if args.vllm_mode == "server":
        if rank == 0:
            _check_server_length(recipe, args)
        return
    longest = max(one.lengths.prompt + answer_limit(one.lengths, loaded.max_tokens) for one in measured)
    weights = _BYTES * sum(getattr(one, "ds_numel", one.numel()) for one in loaded.model.parameters())
    kept = kv_bytes_per_token(loaded.model.config.text_config)
    check_kv_memory(args, longest, weights, kept, torch.cuda.mem_get_info()[1])


def kv_bytes_per_token(text_config: Any) -> int:
    """Keys and values of one token in all layers, bfloat16. An upper bound: sliding layers keep fewer tokens."""
    return 2 * text_config.num_hidden_layers * text_config.num_key_value_heads * text_config.head_dim * _BYTES


def check_kv_memory(args: GRPOConfig, longest: int, weights: int, per_token: int, gpu_bytes: int) -> None:
    """Log how many of the longest sequences a GPU of a colocated vLLM has room for at once.

    Args:
        longest: tokens of prompt and answer.
        weights: bytes of the model in bfloat16.
        per_token: see `kv_bytes_per_token`.
        gpu_bytes: of one GPU.

    Raises:
        ValueError: for none.
    """
    share, gpus = args.vllm_gpu_memory_utilization, args.vllm_tensor_parallel_size
    room = share * gpu_bytes - weights / gpus
    sequence = longest * per_token / gpus
    gib = 2**30
    told = (
        f"{share:g} x {gpu_bytes / gib:.1f} GiB of a GPU - {weights / gpus / gib:.2f} GiB of weights = "
        f"{room / gib:.2f} GiB for keys and values; the longest sequence, {longest:,} tokens x {per_token / gpus:,.0f} "
        f"bytes, needs {sequence / gib:.2f} GiB"
    )
    if room < sequence:
        needed = (weights / gpus + sequence) / gpu_bytes
        more = f"trainer.vllm_gpu_memory_utilization={needed + 0.05:.2f} or more" if needed < 0.9 else "a smaller model"
        advice = f"do set {more}, or trainer.vllm_tensor_parallel_size, or use trainer.vllm_mode=server"
        allowed = f"a share with room for one sequence; {told}"
        raise ValueError(problem("trainer.vllm_gpu_memory_utilization", f"{share:g}", allowed, advice))
    logger.info("vLLM: %s: %s of them fit at once, less what vLLM itself takes", told, int(room // sequence))


def check_images(recipe: Recipe, loaded: Loaded, sizes: Iterable[tuple[int, int]]) -> None:
    """vLLM's processor is the folder's; ours has the recipe's limits, which are nowhere on disk.

    Args:
        sizes: (width, height) in px of the images that the run may see.

    Raises:
        ValueError: they scale an image differently.
    """
    family, name = loaded.family, recipe.model.pretrained
    theirs = family.processor_class.from_pretrained(name, trust_remote_code=False)
    for size in sorted(sizes):
        (ours, told), (other, seen) = (
            (family.scaled_size(each, *size), family.image_tokens(each, *size)) for each in (loaded.processor, theirs)
        )
        if (ours, told) != (other, seen):
            got = f"limits by which an image of {size[0]}x{size[1]} px is {told} tokens, of {ours[0]}x{ours[1]} px"
            allowed = f"those of the processor in {name}, which vLLM reads: {seen} tokens, of {other[0]}x{other[1]} px"
            advice = (
                "do set model.image to what its preprocessor_config.json says, or set model.pretrained to a checkpoint "
                "that was saved with these limits (full weights, or an adapter merged by python -m models.merge)"
            )
            raise ValueError(problem("model.image", got, allowed, advice))


def _here_problems(args: GRPOConfig, processes: int) -> list[str]:
    problems = []
    if find_spec("vllm") is None:
        advice = "do install it into a second environment and start the run there, see docs/vllm.md"
        allowed = "false in an environment without vLLM"
        problems.append(problem("trainer.use_vllm", "true", allowed, advice))
    if args.vllm_mode == "colocate":
        if not torch.cuda.is_available():
            advice = "do set trainer.use_vllm=false, or trainer.vllm_mode=server"
            problems.append(problem("trainer.vllm_mode", "colocate", "server without a CUDA GPU", advice))
        if processes % args.vllm_tensor_parallel_size:
            got, allowed = str(args.vllm_tensor_parallel_size), f"a divisor of the {processes} process(es)"
            problems.append(problem("trainer.vllm_tensor_parallel_size", got, allowed, "do set it to 1, or a divisor"))
    return problems


def _recipe_problems(recipe: Recipe, args: GRPOConfig) -> list[str]:
    problems, save = [], "do save it, and set model.pretrained=FOLDER (with model.scratch=null)"
    if recipe.model.pretrained is None:
        allowed = "pretrained weights: vLLM loads the model by name"
        problems.append(problem("model.scratch", "a model from scratch", allowed, save))
    if recipe.model.revision is not None:
        allowed = "none where trainer.use_vllm is true: TRL does not tell vLLM"
        advice = "do download it, and set model.pretrained=FOLDER"
        problems.append(problem("model.revision", shown(recipe.model.revision), allowed, advice))
    for name in sorted(set(args.generation_kwargs or {}) & set(_SET_ELSEWHERE)):
        allowed = "what is not set already"
        advice = "do remove it; temperature, top_p, top_k, min_p and repetition_penalty belong under trainer"
        problems.append(
            problem(f"trainer.generation_kwargs.{name}", shown(args.generation_kwargs[name]), allowed, advice)
        )
    return problems


def _base_url(args: GRPOConfig) -> str:
    return args.vllm_server_base_url or f"http://{args.vllm_server_host}:{args.vllm_server_port}"


def _server_model(recipe: Recipe, args: GRPOConfig) -> dict[str, Any]:
    """What a server says of its model. ValueError where it says nothing."""
    url, start = _base_url(args), f"do start it: {SERVE.format(model=recipe.model.pretrained)}"
    try:
        httpx.get(f"{url}/health", timeout=_ANSWER_S).raise_for_status()
        answer = httpx.get(f"{url}/server_info", params={"config_format": "json"}, timeout=_ANSWER_S)
        answer.raise_for_status()
        return dict(answer.json()["vllm_config"]["model_config"])
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError) as error:
        got = f"{url}, where {error or type(error).__name__}"
        allowed = "the address of a running vLLM with VLLM_SERVER_DEV_MODE=1"
        raise ValueError(problem("trainer.vllm_server_base_url", got, allowed, start)) from error


def _check_server(recipe: Recipe, args: GRPOConfig) -> None:
    model, name = _server_model(recipe, args), recipe.model.pretrained
    wanted = {"logprobs_mode": "processed_logprobs", "model": name}
    for key, value in wanted.items():
        if model.get(key) != value:
            got = f"{_base_url(args)}, whose {key} is {shown(model.get(key))}"
            advice = f"do start it so: {SERVE.format(model=name)}"
            raise ValueError(problem("trainer.vllm_server_base_url", got, f"a server with {shown(value)}", advice))


def _check_server_length(recipe: Recipe, args: GRPOConfig) -> None:
    there, needed = _server_model(recipe, args).get("max_model_len"), args.vllm_max_model_length
    if there is None or there < needed:
        got = f"{_base_url(args)}, whose max_model_len is {there}"
        advice = f"do start it with --max-model-len {needed}"
        raise ValueError(problem("trainer.vllm_server_base_url", got, f"{needed:,} tokens or more", advice))
