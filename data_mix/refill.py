"""Dynamic sampling: groups that teach nothing are replaced by groups of other puzzles of the same part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import count, cycle, islice
from typing import NamedTuple

from data_mix.groups import Group
from data_mix.streams import stream


class Filled(NamedTuple):
    """A step's groups after replacement."""

    asked: list[Group]
    """Every group that was asked, in the order asked: the step's own first."""
    chosen: list[int]
    """For each place of the step which of these it has; one that teaches nothing where none was found."""
    tries: int
    """Rounds of asking after the first."""

    def metrics(self) -> dict[str, float]:
        """Counts for the log."""
        places = len(self.chosen)
        return {
            "refill/asked": len(self.asked) - places,
            "refill/replaced": sum(at >= places for at in self.chosen),
            "refill/left": sum(not self.asked[at].teaches for at in self.chosen),
            "refill/tries": self.tries,
        }


class Refill:
    """Further puzzles for a step, a function of seed, step and what the step has asked.

    They are drawn beside the order of prompts, which goes on as if nothing had been replaced; so what is prepared ahead
    stays as it is, and a puzzle that refilled a step may come in its own turn, too.
    """

    def __init__(self, positions: Mapping[str, Sequence[int]], seed: int, tries: int) -> None:
        """
        Args:
            positions: part -> where in the mixture its puzzles are.
            tries: most rounds of asking after the first, in each step.
        """
        self._positions = positions
        self._seed = seed
        self._tries = tries

    def further(self, step: int, part: str, asked: Sequence[int], number: int) -> list[int]:
        """`number` puzzles of a part, those first that the step has asked least often.

        Args:
            asked: positions that the step has asked, each as often as it has.
        """
        positions, often = self._positions[part], Counter(asked)
        order = stream("refill", self._seed, part, step).permutation(len(positions))
        return list(islice(cycle(sorted((positions[at] for at in order), key=often.__getitem__)), number))

    def fill(self, step: int, groups: Sequence[Group], ask: Callable[[list[int]], Sequence[Group]]) -> Filled:
        """Ask until every group teaches, or no try is left.

        Args:
            groups: of all processes, one for each place of the step.
            ask: positions -> their groups, in the same order; every process calls it alike.
        """
        asked, chosen, tries = list(groups), list(range(len(groups))), 0
        while tries < self._tries and (empty := [at for at, which in enumerate(chosen) if not asked[which].teaches]):
            tries += 1
            wanted, seen = Counter(groups[at].part for at in empty), [group.position for group in asked]
            further = {part: iter(self.further(step, part, seen, number)) for part, number in wanted.items()}
            found = ask([next(further[groups[at].part]) for at in empty])
            for at, which, group in zip(empty, count(len(asked)), found, strict=False):
                if group.teaches:
                    chosen[at] = which
            asked += found
        return Filled(asked, chosen, tries)
