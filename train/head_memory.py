"""What the LM head and the work on its logits hold on a GPU, by arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

from trl.kernels.chunked_logprob import TOKEN_CHUNK_SIZE
from trl.trainer.utils import _CHUNKED_LOGPROB_CHUNK_SIZE

from train.head import CHUNK_BYTES


@dataclass(frozen=True)
class Head:
    """Bytes of the LM head and what is computed of its logits."""

    forward: int
    kept: int
    """What waits for the backward pass."""
    backward: int
    """Most at once in its backward pass, what was kept included."""


def loss_head(answer: int, hidden: int, vocabulary: int, *, trained: bool, wide: bool, bf16: bool) -> Head:
    """As `train.head.linear_nll` computes the loss, with all gradients beside it.

    Args:
        answer: tokens that it scores.
        trained: whether its weight is.
        wide: whether its weight is float32.
        bf16: under autocast.
    """
    rows = min(answer, max(1, CHUNK_BYTES // (4 * vocabulary)))
    width = 2 if bf16 or not wide else 4
    states = answer * hidden * width
    kept = states + (4 * vocabulary * hidden if trained else 0)
    copied = vocabulary * hidden * 2 if bf16 and wide else 0  # the weight in 16 bits
    chunk = rows * vocabulary * (4 if width == 4 else 2 + 4)  # products, and logits in float32
    return Head(states + copied + chunk + kept, kept, kept)


def log_prob_head(
    answer: int,
    hidden: int,
    vocabulary: int,
    *,
    trained: bool,
    weight_width: int,
    states_width: int,
    gathered: bool,
    tiled: bool,
    bf16: bool,
) -> Head:
    """As TRL's fused head computes log-probabilities, in tiles that its backward pass computes again; or
    `train.decided.decided_logps` those among a few allowed tokens.

    Args:
        answer: tokens that it scores.
        trained: whether its weight is.
        weight_width: bytes of an element of its weight.
        states_width: bytes of an element of what the language tower hands on.
        gathered: whether its weight is put together from all processes' slices, and kept so for the backward pass.
        tiled: over the whole vocabulary; False: among a few allowed tokens.
        bf16: under autocast.
    """
    width = 2 if bf16 else states_width
    states, gradient = answer * hidden * states_width, 4 * vocabulary * hidden if trained else 0
    if not tiled:
        return Head(states, states, states + answer * hidden * states_width + gradient)
    rows, columns = min(answer, TOKEN_CHUNK_SIZE), _CHUNKED_LOGPROB_CHUNK_SIZE
    tile = rows * columns * width  # as wide, however small a vocabulary is
    copied = rows * hidden * width if states_width != width else 0
    copied += min(columns, vocabulary) * hidden * width if weight_width != width else 0
    kept = states + (vocabulary * hidden * weight_width if gathered else 0)
    summed = answer * hidden * (4 if states_width == 4 else 4 + states_width)  # in float32, and then rounded
    return Head(kept + tile + copied, kept, kept + tile + copied + summed + gradient)
