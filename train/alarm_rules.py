"""What is wrong with a GRPO run, judged by its log alone: pure rules over windows of log entries.

A rule compares the newest window with earlier ones of the same run and tells what it found, or None. A value that the
log lacks makes no alarm. What a healthy run does is none either: lengths that change as answers become valid, entropy
and spread that go as puzzles are solved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from train.alarm_window import Entry, Level, Window, change, risen

WINDOW = 20
"""Log entries that are judged together: single steps have a few groups of chance each."""

PATIENCE = 5
"""Windows in a row in which nothing may be learnt: learning begins slowly where few completions earn anything."""
FORM = 0.9
"""Valid share from which on the form is no longer what is learnt."""
AT_CHANCE = 1.1
"""Primary score, as a multiple of chance, up to which a part is at chance."""
GAIN = 0.15
"""Rise of reward, relative to what it was, that wants a cause: below, it may be another score entry that rises on the
way."""
PRIMARY_SHARE = 0.1
"""Rise of the primary score, relative to that of reward, which is too little to be the cause."""
JUDGED = 0.2
"""Valid share from which on what a valid answer earns is compared: of fewer it is a few lucky ones."""
KL_NATS = 0.7
"""KL per token that is never too high: who becomes sure of one of the N²! arrangements that the start held all equally
possible is ln(N²!) away from it. Per token of an answer that names each piece and its cell, a token for a digit, that
is .13 / .30 / .47 / .55 / .64 for N = 2 / 4 / 8 / 16 / 32."""
KL_ENTROPIES = 3.0
"""The same for any form of answer, as a multiple of the start's entropy: who becomes sure of what the start held
possible is about one entropy away from it."""
COLLAPSED = 0.1
"""Entropy relative to the start's, of which a solved puzzle takes its share with it, ..."""
COLLAPSED_NATS = 0.05
"""... and in nats per token below which completions of a puzzle are copies of each other."""
SOLVED = 0.9
"""Primary score from which on little entropy and spread are to be expected."""
NO_SPREAD = 0.8
"""Share of groups without spread, which cost their rollouts and teach nothing."""
DRIFT = 1.5
"""Factor by which lengths may differ: answers to one kind of puzzle are all about as long."""
MORE_VALID = 0.05
"""Rise of the valid share that explains another length: the form is being learnt."""
MORE_CUT = 0.1
"""Rise of the share of completions that are cut at the limit."""
SURE, LIKELY = 4.0, 2.0
"""Standard errors: no chance although it is looked for at every step, and hardly chance."""

Rule = Callable[[Window, Sequence[Window], Mapping[str, float]], str | None]
"""`rule(now, earlier, chance)`: what is wrong.

Args:
    earlier: windows of WINDOW entries, from the run's first entry on, none of which is in `now`.
    chance: {part: primary score of an honest guesser}.
"""


def only_form(now: Window, earlier: Sequence[Window], chance: Mapping[str, float]) -> str | None:
    """Over PATIENCE windows answers are valid, no part is above chance, and reward has not risen."""
    windows = [*earlier[1 - PATIENCE :], now]
    if len(windows) < PATIENCE or _earns_more(windows[0].reward, now.reward):
        return None
    for window in windows:
        if not window.valid >= FORM or not window.parts:
            return None
        for part, level in window.parts.items():
            if level.mean > AT_CHANCE * chance.get(part, 0.0) + LIKELY * level.error:
                return None
    scores = ", ".join(f"{part} {level.mean:.3g} ({chance.get(part, 0):.3g})" for part, level in now.parts.items())
    return (
        f"{now.valid:.0%} of the answers are valid, but since step {windows[0].steps[0]} no part has scored above "
        f"chance (primary score, chance in brackets: {scores}): all that is learnt is the form. Usually scores leave "
        "chance soon after answers are valid. Do begin from more SFT or with easier parts (clues, smaller grids), or "
        "ask for more completions per puzzle (trainer.num_generations)."
    )


def gamed(now: Window, earlier: Sequence[Window], chance: Mapping[str, float]) -> str | None:
    """Since some earlier window of the same mix a valid answer earns more and is no better."""
    for window in _same_mix(now, earlier):
        if not (window.valid >= JUDGED and now.valid >= JUDGED):
            continue
        before, after = window.per_answer(window.reward), now.per_answer(now.reward)
        if not _earns_more(before, after):
            continue
        primary = change(window.per_answer(window.primary), now.per_answer(now.primary))
        if primary.mean <= max(primary.error, PRIMARY_SHARE * (after.mean - before.mean)):
            return (
                f"a valid answer earns {after.mean:.3g}, up from {before.mean:.3g} in steps {_span(window)}, but its "
                f"primary score went from {window.per_answer(window.primary).mean:.3g} to "
                f"{now.per_answer(now.primary).mean:.3g}. Usually both rise together; here answers may please another "
                "score entry instead. Do look at rewards/*/mean and at some answers, and give less weight to the entry "
                "that rises (python -m train.rewards tries weights without a model)."
            )
    return None


def far_away(now: Window, earlier: Sequence[Window], chance: Mapping[str, float]) -> str | None:
    """The KL is above what becoming sure can explain."""
    start = (earlier[0] if earlier else now).entropy
    limit = KL_NATS if math.isnan(start) else max(KL_NATS, KL_ENTROPIES * start)
    if not now.kl > limit:
        return None
    return (
        f"the KL from the reference model is {now.kl:.3g} nats per token. Usually it stays below {limit:.3g}, more "
        "than becoming sure of one's answers takes. Do lower trainer.learning_rate or raise trainer.beta, and go on "
        "from a checkpoint of before."
    )


def collapsed(now: Window, earlier: Sequence[Window], chance: Mapping[str, float]) -> str | None:
    """Entropy has gone while much is left to be solved, and no more of it is."""
    same = _same_mix(now, earlier)
    if not same or not same[0].primary.mean < 1:
        return None
    left = (1 - now.primary.mean) / (1 - same[0].primary.mean)
    if not now.entropy < min(COLLAPSED * left * same[0].entropy, COLLAPSED_NATS):
        return None
    if now.primary.mean >= SOLVED or risen(same[-1].primary, now.primary, errors=LIKELY):
        return None
    return (
        f"entropy fell to {now.entropy:.2g} nats per token, from {same[0].entropy:.2g} in steps {_span(same[0])}, at a "
        f"primary score of {now.primary.mean:.3g} that does not rise. Usually entropy goes as puzzles are solved; here "
        "the completions of a puzzle are copies of each other, and nothing else is tried. Do raise "
        "trainer.temperature, trainer.beta or trainer.epsilon_high, or lower trainer.learning_rate, and go on from a "
        "checkpoint of before."
    )


def without_spread(now: Window, earlier: Sequence[Window], chance: Mapping[str, float]) -> str | None:
    """Most groups teach nothing, though not because all is solved."""
    if not now.no_spread >= NO_SPREAD or now.primary.mean >= SOLVED:
        return None
    told = [f"{part} {score.mean:.3g} ({now.teaching[part]:.0%})" for part, score in now.parts.items()]
    parts = f" (primary score, share of groups that teach in brackets: {', '.join(told)})" if told else ""
    return (
        f"in {now.no_spread:.0%} of the groups all completions earn the same, which teaches nothing{parts}. Usually it "
        f"is below {NO_SPREAD:.0%} until puzzles are solved. Do give solved and hopeless parts less of each step "
        "(data.curriculum), replace such groups (data.refill_tries), or raise trainer.temperature or "
        "trainer.num_generations."
    )


def length_drift(now: Window, earlier: Sequence[Window], chance: Mapping[str, float]) -> str | None:
    """More is cut than at the start, or lengths have changed and nothing got better by it."""
    same = _same_mix(now, earlier)
    if not same:
        return None
    before = same[0]
    factor = now.length / before.length if before.length > 0 else math.nan
    better = now.valid - before.valid >= MORE_VALID or risen(before.primary, now.primary, errors=LIKELY)
    changed = (factor >= DRIFT or factor <= 1 / DRIFT) and not better
    if not changed and not now.cut - before.cut >= MORE_CUT:
        return None
    return (
        f"completions have {now.length:.4g} tokens and {now.cut:.0%} are cut at the limit; in steps {_span(before)} it "
        f"was {before.length:.4g} and {before.cut:.0%}. Usually answers to the same puzzles stay about as long. Do "
        "look at some completions, then lower trainer.learning_rate or raise trainer.beta, and go on from a checkpoint "
        "of before."
    )


RULES: Mapping[str, Rule] = {
    "only the form is learnt": only_form,
    "reward rises, the primary score does not": gamed,
    "far from the reference model": far_away,
    "entropy has collapsed": collapsed,
    "most groups teach nothing": without_spread,
    "lengths drift": length_drift,
}


class Alarm(NamedTuple):
    """What a person is told once."""

    title: str
    text: str


class Watch:
    """Takes up a run's log, entry by entry. It is a function of the entries, so a resumed run goes on from its log."""

    def __init__(self, chance: Mapping[str, float]) -> None:
        """
        Args:
            chance: {part: primary score of an honest guesser}; 0 for parts that are not named.
        """
        self._chance = chance
        self._newest: list[Entry] = []
        self._windows: list[Window] = []
        self._taken = 0
        self._quiet: dict[str, int] = {}
        """{title: entries in a row in which its rule has found nothing}; of a rule that never has, enough."""

    def add(self, entry: Entry) -> list[Alarm]:
        """What is to be told after this entry. A rule that goes on finding something is told once, and again only
        after it has found nothing in WINDOW entries in a row. Entries that are of no training step tell nothing."""
        if "reward" not in entry:
            return []
        self._newest = [*self._newest, entry][-WINDOW:]
        self._taken += 1
        if self._taken < WINDOW:
            return []
        now, earlier = Window.of(self._newest), self._windows[: self._taken // WINDOW - 1]
        if self._taken % WINDOW == 0:
            self._windows.append(now)
        alarms = []
        for title, rule in RULES.items():
            found = rule(now, earlier, self._chance)
            quiet = self._quiet.get(title, WINDOW)
            if found is not None and quiet >= WINDOW:
                alarms.append(Alarm(title, f"steps {_span(now)}: {found}"))
            self._quiet[title] = quiet + 1 if found is None else 0
        return alarms


def _earns_more(before: Level, after: Level) -> bool:
    return risen(before, after, errors=SURE) and after.mean - before.mean >= GAIN * before.mean


def _same_mix(now: Window, earlier: Sequence[Window]) -> list[Window]:
    return [window for window in earlier if now.comparable(window)]


def _span(window: Window) -> str:
    return f"{window.steps[0]} to {window.steps[1]}"
