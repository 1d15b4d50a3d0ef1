"""What a GRPO run's own groups tell of its parts: the scores that its curriculum is decided by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean, pstdev
from typing import Any, NamedTuple

from data_mix.phases import phases
from data_mix.scores import Scores
from recipes.schema import Curriculum

_EQUAL = 1e-6
"""Rewards that differ by less are equal sums in another order."""


class Group(NamedTuple):
    """The completions that one puzzle was asked for in one step. Their order does not matter."""

    position: int
    """The puzzle's, in the mixture."""
    part: str
    primary: Sequence[float]
    """Primary score of each completion, in [0, 1]."""
    rewards: Sequence[float]

    @property
    def score(self) -> float:
        """Mean primary score."""
        return fmean(self.primary)

    @property
    def spread(self) -> float:
        """Standard deviation of the rewards."""
        return pstdev(self.rewards)

    @property
    def teaches(self) -> bool:
        """Whether rewards differ; else every advantage is 0."""
        return max(self.rewards) - min(self.rewards) > _EQUAL


class GroupScores:
    """What the newest groups of each part have found, every so many steps.

    For an adaptive curriculum that is the mean spread of rewards, of as many groups as there are up to `window`; else
    the mean primary score of `window` groups, none older than the phase: what was asked before a change does not
    decide the next one.
    """

    def __init__(self, curriculum: Curriculum, parts: Sequence[str]) -> None:
        """
        Args:
            curriculum: see `data_mix.phases.prompt_curriculum`.
            parts: names of all training parts.
        """
        self.scores = Scores()
        """For the order of prompts. Evaluations have others."""
        self._curriculum = curriculum
        self._adaptive = curriculum.adaptive is not None
        self._parts = parts
        self._steps = 0
        self._phase_start = 0
        self._newest: dict[str, list[float]] = {part: [] for part in parts}

    def add(self, step: int, groups: Iterable[Group]) -> None:
        """Take up all groups of a step, those of every process and those that were replaced, in any order.

        Args:
            step: counted from 0; each is added once, after the one before.

        Raises:
            RuntimeError: it is another step's turn.
        """
        if step != self._steps:
            raise RuntimeError(f"groups of step {step} were added when those of step {self._steps} were due")
        self._steps += 1
        told = phases(self._curriculum, self._parts, self.scores)
        start = max(phase.start for phase in told if phase.start <= step)
        if start != self._phase_start and not self._adaptive:
            self._newest = {part: [] for part in self._parts}
        self._phase_start = start
        window, every = self._curriculum.groups.window, self._curriculum.groups.every
        # sorted, for which groups are the newest must not depend on the order of the processes
        for _, part, score, spread in sorted((one.position, one.part, one.score, one.spread) for one in groups):
            self._newest[part] = [*self._newest[part], spread if self._adaptive else score][-window:]
        if self._steps % every == 0:
            enough = 1 if self._adaptive else window
            found = {part: fmean(values) for part, values in self._newest.items() if len(values) >= enough}
            self.scores.add(self._steps, found)

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds, as JSON: with it a run goes on as if it had never stopped."""
        return {
            "adaptive": self._adaptive,
            "steps": self._steps,
            "phase_start": self._phase_start,
            "newest": dict(self._newest),
            "scores": [[step, found] for step, found in self.scores],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, before anything was added.

        Raises:
            ValueError: it holds spreads where this curriculum needs primary scores, or the other way round.
        """
        if state["adaptive"] != self._adaptive:
            kinds = ("stages or ladder", "adaptive")
            raise ValueError(
                f"data.curriculum: got {kinds[self._adaptive]}; allowed: {kinds[state['adaptive']]}, which the groups "
                "of the checkpoint were measured for; set it as it was, or start anew with model.pretrained=CHECKPOINT"
            )
        self._steps, self._phase_start = state["steps"], state["phase_start"]
        self._newest = {part: list(state["newest"].get(part, [])) for part in self._parts}
        for step, found in state["scores"]:
            self.scores.add(step, found)


def group_metrics(groups: Iterable[Group]) -> Iterator[tuple[str, float]]:
    """What a log says of one or more steps' groups, by part: share that teaches, mean primary score, mean reward and
    its mean spread."""
    by_part: dict[str, list[Group]] = {}
    for group in groups:
        by_part.setdefault(group.part, []).append(group)
    for part, own in sorted(by_part.items()):
        yield f"teaching/{part}", fmean(group.teaches for group in own)
        yield f"primary/{part}", fmean(group.score for group in own)
        yield f"reward/{part}", fmean(fmean(group.rewards) for group in own)
        yield f"spread/{part}", fmean(group.spread for group in own)
