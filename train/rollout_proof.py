"""Proof, while a run goes on, that another engine sees the prompts and has the weights that training has."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from train.guard import RunError

NOISE = 0.1
"""Largest mean difference of a token's log-probability between two engines with the same weights, nats.

A logit between 16 and 32 has steps of 1/8 in bfloat16, so it is up to 1/16 off when it is rounded once, and two
engines round independently: a few hundredths on average. docs/vllm.md has what tiny models measure on either side of
it. One update may be less than it: see `is_proven`."""


def is_proven(rollout: int) -> bool:
    """Whether a rollout is among those that are looked at: 1, before the first update, 2, 4, 8, ...

    One update can change less than bfloat16 resolves. What has not arrived adds up, and is seen at a later one.

    Args:
        rollout: of this process, from 1.
    """
    return rollout & (rollout - 1) == 0


def check_prompts(ours: Sequence[Sequence[int]], theirs: Sequence[Sequence[int]]) -> None:
    """
    Args:
        ours: tokens of each prompt, as training has them.
        theirs: as the engine says that it read them.

    Raises:
        RunError: a prompt differs.
    """
    for own, other in zip(ours, theirs, strict=True):
        if list(own) != list(other):
            at = next((at for at, pair in enumerate(zip(own, other, strict=False)) if pair[0] != pair[1]), None)
            raise RunError(
                f"vLLM reads a prompt as {len(other):,} tokens, which is {len(own):,} tokens in training, and they "
                f"differ from number {min(len(own), len(other)) if at is None else at} on: its completions would be "
                "answers to something else; an image is expanded twice, or not as training has it; use the versions of "
                "TRL and vLLM that docs/vllm.md names, or set trainer.use_vllm=false"
            )


def check_images(ours: Sequence[int], theirs: Sequence[int]) -> None:
    """
    Args:
        ours: image tokens of each image of a prompt.
        theirs: how many the engine has made of each.

    Raises:
        RunError: they differ.
    """
    if list(ours) != list(theirs):
        raise RunError(
            f"vLLM makes {list(theirs)} tokens of a prompt's images, and training {list(ours)}: it would answer to "
            "something else; serve the model from a folder whose processor has the limits of model.image, see "
            "docs/vllm.md, or set trainer.use_vllm=false"
        )


def check_logps(rollout: int, temperature: float, ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """
    Args:
        rollout: of this process, from 1.
        ours: log-probability of each token of some completions, nats, (tokens,).
        theirs: by the engine that drew them; NaN where it does not say.

    Returns:
        Mean absolute difference, nats.

    Raises:
        RunError: it is more than NOISE, or not known.
    """
    difference = float((ours - theirs).abs().nanmean())
    if difference <= NOISE:
        return difference
    stale = (
        "the weights have not arrived: vLLM answers with older ones (it does not take this model's weights under "
        "these names)"
    )
    raw = (
        f"or its log-probabilities are not those at trainer.temperature={temperature:g} (a server needs "
        "--logprobs-mode processed_logprobs; penalties in trainer.generation_kwargs change them, too)"
    )
    raise RunError(
        f"rollout {rollout}: the log-probability of a token by vLLM and by training differs by {difference:.3f} on "
        f"average, more than the {NOISE:g} that rounding explains: {stale}{'' if rollout > 1 else f', {raw}'}; "
        "nothing was trained on these completions: correct it or set trainer.use_vllm=false, then continue from the "
        "newest checkpoint before (resume=true)"
    )
