"""Advantages that vary along a completion: what an answer has earned so far is no merit of the tokens after it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from statistics import fmean
from typing import Literal

import torch
from torch.nn.utils.rnn import pad_sequence

from data_mix.mixture import Mixture, Posed
from recipes.schema import Recipe

Credit = Sequence[tuple[int, float]]
"""[(character, reward that is decided from there on), ...], from (0, 0.0) on."""


def along(
    rewards: torch.Tensor,
    credits: Sequence[Credit | None],
    rows: Mapping[int, Sequence[int]],
    *,
    scale_rewards: Literal["batch", "none"],
) -> torch.Tensor:
    """Advantages of some completions, token by token, (rows, tokens of the longest).

    Before stretch c of a completion a part p of its reward is decided, which a token of c cannot change. So its
    advantage is

        A = R - mean(R) - (p - mean(p)),

    where mean(R) is the group's, mean(p) that of its completions that have a stretch c. What p adds follows from the
    text before the token and from other completions, so it is a baseline: the expected gradient is that of R - mean(R),
    and so is the optimum. That is exact with scale_rewards none, and nearly so with batch, where all is divided by the
    spread of all rewards. A group's own spread depends on what the token leads to, so with it p would be none. Past a
    completion's end values mean nothing.

    Args:
        rewards: (P, G), P groups of G completions.
        credits: of each completion, group by group; None: nothing is decided before the end.
        rows: of those that are wanted, by their number in credits: at which character each token starts.
        scale_rewards: as TRL has it.
    """
    size = rewards.shape[1]
    known = [credit or [(0, 0.0)] for credit in credits]
    means = {}
    for group in {row // size for row in rows}:
        by_stretch = zip_longest(*[[share for _, share in one] for one in known[group * size : (group + 1) * size]])
        means[group] = [fmean(share for share in shares if share is not None) for shares in by_stretch]
    excesses = []
    for row, starts in rows.items():
        characters = [character for character, _ in known[row]]
        stretches = [bisect_right(characters, start) - 1 for start in starts]
        excesses.append([known[row][stretch][1] - means[row // size][stretch] for stretch in stretches])
    decided = pad_sequence([rewards.new_tensor(one) for one in excesses], batch_first=True)
    wanted = list(rows)
    advantages = (rewards - rewards.mean(dim=1, keepdim=True)).flatten()[wanted, None] - decided
    if scale_rewards == "none":
        return advantages
    spread = rewards.std()
    return advantages / (spread + 1e-4) if spread > 0 else torch.zeros_like(advantages)


def credit_of(posed: Posed, text: str, per: Literal["row", "piece"], weights: Mapping[str, float]) -> Credit | None:
    """Of a completion; None where its task gives none for such puzzles.

    Args:
        weights: of the reward, by score entry.
    """
    task, weight = posed.task, weights.get(posed.task.primary, 0.0)
    if task.credit is None or (found := task.credit(text, posed.puzzle.spec, posed.puzzle.target, per)) is None:
        return None
    return [(character, weight * share) for character, share in found]


def check_credit(recipe: Recipe, mixture: Mixture) -> None:
    """
    Raises:
        ValueError: credit along the answer is asked for, and no part has it, or what is asked besides rules it out.
    """
    per = recipe.reward.along if recipe.reward else "answer"
    if per == "answer":
        return
    firsts = [mixture[positions[0]] for positions in mixture.positions().values()]
    if all(credit_of(one, "", per, {}) is None for one in firsts):
        raise ValueError(
            f"reward.along: got {per}, but no part's answers are decided bit by bit; allowed then: answer; set "
            "reward.along=answer, or spec.answer_format=by_cell in jigshape parts"
        )
    scaling = recipe.trainer.get("scale_rewards", "group")
    if scaling not in ("batch", "none"):
        raise ValueError(
            f"reward.along: got {per} with trainer.scale_rewards={scaling}; allowed then: none, batch, as a group's "
            "spread depends on each of its answers; set trainer.scale_rewards=none"
        )
    if recipe.trainer.get("multi_objective_aggregation", "sum_then_normalize") != "sum_then_normalize":
        raise ValueError(
            f"reward.along: got {per} with trainer.multi_objective_aggregation=normalize_then_sum, where entries have "
            "no common scale; allowed then: answer; set reward.along=answer, or leave that out"
        )
