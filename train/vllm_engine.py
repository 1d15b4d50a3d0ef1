"""Completions by vLLM, through TRL: weights handed over, prompts as vLLM wants them, and the proof that both fit."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import groupby
from typing import Any

import torch
from peft import PeftModel
from peft.tuners.lora import LoraLayer
from PIL import Image
from transformers.core_model_loading import revert_weight_conversion

from data_mix.prompt_batches import Asked
from models.family import token_id
from models.generation import Completion, cut
from models.load import Encoder, Loaded, merged_weight
from tasks.contract import Message
from train.guard import RunError
from train.rollout_proof import check_images, check_logps, check_prompts, is_proven
from train.rollouts import Prompt, Written

logger = logging.getLogger(__name__)

_PROVEN_ROWS = 8
"""Completions of each process whose log-probabilities are compared."""
_PLAIN = {"top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}
"""Drawing by temperature alone: anything else leaves log-probabilities that training does not have."""
_NEVER = -100.0
"""Added to the logit of a token that must not be drawn: vLLM's lowest."""


class VllmEngine:
    """Gets a step's completions out of vLLM. All processes call it together."""

    def __init__(
        self,
        generation: Any,
        loaded: Loaded,
        completions: int,
        logps: Callable[[Sequence[tuple[Prompt, Written]]], torch.Tensor],
    ) -> None:
        """
        Args:
            generation: TRL's VLLMGeneration.
            completions: of each group.
            logps: log-probability of each token by the model that trains, (rows, longest completion), nats.
        """
        self._generation = generation
        self._loaded = loaded
        self._completions = completions
        self._logps = logps
        self._step = -1
        self._rollout = 0
        # TRL's own names and merging fit neither Gemma3's files nor our shards
        generation._iter_named_params = partial(named_weights, loaded.model)
        barred = loaded.family.vision_token_ids(loaded.processor)
        generation.generation_kwargs = {
            **generation.generation_kwargs,
            "stop_token_ids": loaded.family.stop_token_ids(loaded.processor),
            "logit_bias": dict.fromkeys(barred, _NEVER),
        }
        self._barred = set(barred)

    def __call__(
        self, step: int, asked: Sequence[Asked], prompts: Sequence[Prompt], beat: Callable[[], None]
    ) -> list[tuple[Completion, Sequence[float] | None]]:
        fresh = step != self._step
        if fresh:
            self._generation.sync_weights()
            self._step, self._rollout = step, self._rollout + 1
            beat()
        proven = fresh and is_proven(self._rollout)
        with _drawn_plainly(self._generation) if proven else nullcontext():
            told, written = self._write(prompts)
        beat()
        if proven:
            self._prove(prompts, told, written)
            beat()
        return written

    def _write(self, prompts: Sequence[Prompt]) -> tuple[Any, list[tuple[Completion, Sequence[float] | None]]]:
        """The prompts as vLLM has read them, and a completion with its log-probabilities for each."""
        started, processor, family = time.perf_counter(), self._loaded.processor, self._loaded.family
        images = [[Image.fromarray(image) for image in one.images] or None for one in prompts]
        told, drawn, logps, _ = self._generation.generate(
            prompts=self._sent(prompts),
            images=images if any(images) else None,
            num_generations=self._completions,
        )
        seconds = (time.perf_counter() - started) / len(prompts)
        stop_ids = set(family.stop_token_ids(processor))
        written: list[tuple[Completion, Sequence[float] | None]] = []
        for prompt, ids, each in zip(prompts, drawn, logps, strict=True):
            completion = cut(processor, list(ids)[: prompt.limit], stop_ids, seconds)
            if self._barred.intersection(completion.ids):
                raise RunError(
                    "vLLM has drawn a token that stands for an image, which it was told not to (logit_bias); use the "
                    "versions of TRL and vLLM that docs/vllm.md names, or set trainer.use_vllm=false"
                )
            known = [math.nan if one[0] is None else one[0] for one in each[: completion.num_tokens]]
            written.append((completion, known))
        return told, written

    def _sent(self, prompts: Sequence[Prompt]) -> list[list[int]]:
        """A colocated vLLM expands images itself; a server is told where their tokens are."""
        if self._generation.mode == "server":
            return [_ids(one) for one in prompts]
        return [placeholder_ids(self._loaded, one.posed.puzzle.messages) for one in prompts]

    def _prove(
        self, prompts: Sequence[Prompt], told: Any, written: Sequence[tuple[Completion, Sequence[float] | None]]
    ) -> None:
        check_prompts([_ids(one) for one in prompts], told)
        if self._generation.mode == "server" and self._generation.accelerator.is_main_process:
            self._prove_images(prompts)  # its prompts come back as they were sent, whatever it makes of their images
        rows = [
            (prompt, Written(completion, {}, 0.0, 0.0, logps))
            for prompt, (completion, logps) in zip(prompts, written, strict=True)
        ][:: -(-len(prompts) // _PROVEN_ROWS)]
        found = self._logps(rows)
        ours = torch.cat([found[at, : each.completion.num_tokens] for at, (_, each) in enumerate(rows)]).cpu()
        theirs = torch.tensor([one for _, each in rows for one in each.logps or ()])
        difference = check_logps(self._rollout, self._generation.temperature, ours, theirs)
        logger.info(
            "rollout %s: vLLM reads %s prompts as training does; log-probabilities of %s tokens differ by %.4f",
            self._rollout, len(prompts), len(ours), difference,
        )  # fmt: skip

    def _prove_images(self, prompts: Sequence[Prompt]) -> None:
        image_token = token_id(self._loaded.processor, self._loaded.family.image_token)
        different = {tuple(image.shape for image in one.images): one for one in prompts if one.images}
        sent = [[Image.fromarray(image) for image in one.images] for one in different.values()]
        if not sent:
            return
        for one, features in zip(different.values(), self._generation.vllm_client.image_features(sent), strict=True):
            runs = [len(list(run)) for token, run in groupby(_ids(one)) if token == image_token]
            check_images(runs, [place["length"] for place in features["mm_placeholders"]["image"]])


def placeholder_ids(encoder: Encoder, messages: list[Message]) -> list[int]:
    """Tokens of a prompt, each image one placeholder, which vLLM replaces by as many tokens as the image has.

    Given the image tokens themselves it replaces the first of them: https://github.com/huggingface/trl/issues/6294
    """
    text = encoder.processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    return list(encoder.processor.tokenizer(text, add_special_tokens=False)["input_ids"])


@torch.no_grad()
def named_weights(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Each weight under the name that it has in the model's files, tied ones once, adapters merged into copies.

    Merging in place, as TRL does, would round the base once more with every step. The model is `unsharded`.
    """
    base = model.get_base_model() if isinstance(model, PeftModel) else model
    own = {
        name.replace(".base_layer.", ".").replace(".modules_to_save.default.", "."): parameter
        for name, parameter in base.named_parameters()
        if ".lora_" not in name and ".original_module." not in name
    }
    layers = {id(layer.get_base_layer().weight): layer for layer in base.modules() if isinstance(layer, LoraLayer)}
    for name, weight in revert_weight_conversion(base, own).items():
        layer: Any = layers.get(id(weight))
        if layer is None:
            yield name, weight.data
        else:
            yield name, merged_weight(layer, weight.dtype)


def _ids(prompt: Prompt) -> list[int]:
    return list(prompt.encoded["input_ids"][0].tolist())


@contextmanager
def _drawn_plainly(generation: Any) -> Iterator[None]:
    asked = {name: getattr(generation, name) for name in _PLAIN}
    vars(generation).update(_PLAIN)
    try:
        yield
    finally:
        vars(generation).update(asked)
