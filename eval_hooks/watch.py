"""Judge each new checkpoint of a training beside it, on another GPU or another machine that sees the same folder.

    python -m eval_hooks.watch run=runs/mixed_grid eval.count=32 [every=30] [once=true] [dotted.key=value ...]
    python -m eval_hooks.watch run=runs/mixed_grid eval.count=32 server="vllm serve"

The training has eval.count=0. Checkpoints are judged in the order of their steps, each once, each by a process of its
own (eval_hooks.run); records, best.json and the tables are those that the training itself would make. It ends when the
run's last step is judged. Exit status: 0, 1 when a checkpoint could not be judged, 2 when it was refused, 130 after
Ctrl-C or SIGTERM.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from data_mix.mixture import Mixture, evaluation_mixture
from data_mix.photos import find_photos
from eval_hooks.baselines import solved_or_nothing
from eval_hooks.children import StalledError, check_alive, last_lines, started, wait
from eval_hooks.held import Held, holding
from eval_hooks.journal import Journal
from eval_hooks.model_card import or_warn, write_card
from eval_hooks.percent import percent
from eval_hooks.protocol import protocol_of
from eval_hooks.records import Giver, read_records
from eval_hooks.run import left_to_ask
from eval_hooks.run_files import RECIPE, checkpoints, evaluated_steps, keep_best, read_best, records_file
from eval_hooks.summary import summarize, table
from eval_hooks.vllm_server import HOST, ServerError, serving
from eval_hooks.wandb_beside import log_beside
from eval_hooks.wandb_log import standing
from eval_hooks.watch_request import USAGE, Request, parse_request
from recipes.command import run_command
from recipes.fields import problem

_TRIES = 2


class Watch:
    """One watch of one run."""

    def __init__(self, request: Request, mixture: Mixture, held: Held, say: Callable[[str], None]) -> None:
        """
        Args:
            mixture: the puzzles that each checkpoint is asked.
        """
        self._request, self._mixture, self._held, self._say = request, mixture, held, say
        self._run, self._recipe = request.run, request.recipe
        self._protocol = protocol_of(self._recipe, served=request.server is not None)
        self._solved = solved_or_nothing()
        self._done: set[int] = set()
        self._tries: Counter[int] = Counter()
        self._missed: set[int] = set()
        self._judged: int | None = None
        """The step that is being judged: with its records on disk it may still turn out to be the best."""

    def go(self) -> list[int]:
        """Judge until the run's last step is judged, or, with once, all that is there.

        Returns:
            The steps that could not be judged.
        """
        for step in evaluated_steps(self._run):
            if self._is_done(step):
                self._take_in(step)
        self.look()
        steps = self.waiting()
        while True:
            for step in steps:
                self._judge(step)
                self.look()
            steps = [step for step in self.waiting() if not self._request.once or step in steps]
            if not steps and (self._request.once or self._at_the_end()):
                return sorted(step for step in self._tries if not self._is_done(step))
            if not self._request.once and all(self._tries[step] for step in steps):
                time.sleep(self._request.every_s)
                self.look()
                steps = self.waiting()

    def look(self) -> None:
        """Hold what is to be judged and the best one, let go of all else, and give back a best one that is gone."""
        there, best = checkpoints(self._run), read_best(self._run)
        newest = max(there, default=0)  # what lies behind it is of a training that has gone back
        wanted = {step for step in {*there, *self._held.complete()} if step <= newest and self._is_open(step)}
        wanted |= {step for step in (best and best.step, self._judged) if step is not None}
        for step in wanted & there.keys():
            self._held.take(there[step])
        self._held.keep_only(wanted)
        if best and self._held.restore(best.step):
            self._say(f"step {best.step} is the best so far, and training had removed it: it is back")
        self._tell_missed(newest)

    def waiting(self) -> list[int]:
        """The steps that are there to be judged, in their order."""
        there = {*checkpoints(self._run), *self._held.complete()}
        return sorted(step for step in there if self._is_open(step))

    def _is_open(self, step: int) -> bool:
        return self._tries[step] < _TRIES and not self._is_done(step)

    def _is_done(self, step: int) -> bool:
        """Whether each puzzle's answer by this checkpoint is on disk."""
        file = records_file(self._run, step)
        if not file.is_file():  # a training that has gone back has set it aside
            self._done.discard(step)
        elif step not in self._done:
            giver = Giver(self._recipe.model.name, step, self._protocol.name, self._recipe.eval.split)
            try:
                questions, _ = left_to_ask(Journal(file, 0), self._mixture, self._protocol, giver)
            except ValueError as error:
                got = f"{file}, which another evaluation than this one has written"
                advice = f"do move it away, or repeat that one's eval.* ({error})"
                raise ValueError(problem("run", got, "records of the same puzzles and protocol", advice)) from error
            if not any(questions.values()):
                self._done.add(step)
        return step in self._done

    def _at_the_end(self) -> bool:
        """Whether the run has saved its last step."""
        newest = max(checkpoints(self._run).items(), default=None)
        if newest is None:
            return False
        step, folder = newest
        try:
            state = json.loads((folder / "trainer_state.json").read_text(encoding="utf-8"))
        except FileNotFoundError:  # it is just being saved again
            return False
        return state["max_steps"] <= step

    def _judge(self, step: int) -> None:
        place = self._held.complete().get(step) or checkpoints(self._run).get(step)
        if place is None:  # it could not be held
            return
        self._tries[step] += 1
        self._judged = step
        self._say(f"step {step}: judging {place.name}")
        trouble = self._evaluate(step, place) or "the evaluation left puzzles out"
        done = self._is_done(step)
        if done:
            self._say(self._take_in(step))
        self._judged = None
        if not done:
            again = "it is tried once more" if self._is_open(step) else "it is given up; start again to try it again"
            self._say(f"step {step}: {trouble}\n{again}")

    def _evaluate(self, step: int, place: Path) -> str | None:
        """Ask one checkpoint in a process of its own; gives what went wrong."""
        request, log = self._request, self._held.log("evaluation.log")
        words = [*request.launch, "-m", "eval_hooks.run", f"recipe={self._run / RECIPE}", *request.overrides]
        words += [f"eval.final_count={self._recipe.eval.count}", f"checkpoint={place}"]
        words += [f"out={records_file(self._run, step)}"]
        alive, environment, patience_s = _nothing, None, self._recipe.train.stall_timeout_s
        with ExitStack() as stack:
            try:
                if request.server:
                    serves = serving(
                        request.server, self._recipe, place, place.name, self._held.log("server.log"), self.look
                    )
                    url, alive = stack.enter_context(serves)
                    words += [f"endpoint={url}", f"endpoint_model={place.name}"]
                    environment = _unproxied()

                def meanwhile() -> None:
                    alive()
                    if patience_s:
                        check_alive(log, patience_s)
                    self.look()

                process = stack.enter_context(started(words, log, signal.SIGINT, environment))
                status = wait(process, request.every_s, meanwhile)
            except (ServerError, StalledError) as error:
                return str(error)
        return f"the evaluation ended with status {status}; its last words:\n{last_lines(log)}" if status else None

    def _take_in(self, step: int) -> str:
        """Compare a judged checkpoint with the best one, write its card, and log it; gives its table."""
        records = read_records(records_file(self._run, step)).records
        summary = summarize(records, self._solved)
        best = keep_best(self._run, step, summary)
        for folder in filter(None, (place.get(step) for place in (checkpoints(self._run), self._held.complete()))):
            with or_warn(folder):
                write_card(folder, records, self._recipe, self._run, self._solved)
        log_beside(self._recipe, self._run, step, standing("eval", summary, best), records)
        return (
            f"\nevaluation at step {step} ({records[0].split} split, %)\n{table(summary)}\n"
            f"best so far: step {best.step}, mean primary {percent(best.score)}\n"
        )

    def _tell_missed(self, newest: int) -> None:
        """Say which checkpoints training has removed before they could be held."""
        every = self._recipe.train.checkpoint_every
        there = {*checkpoints(self._run), *self._held.complete(), *self._tries, *self._missed}
        missed = [s for s in range(every, newest, every) if s not in there and not records_file(self._run, s).is_file()]
        if missed:
            self._missed |= set(missed)
            self._say(
                f"gone before they could be judged: steps {', '.join(map(str, missed))}; do start the watch with the "
                "training, look more often (every=), or keep more (train.keep_checkpoints)"
            )


def _nothing() -> None:
    """For an evaluation that needs no server."""


def _unproxied() -> dict[str, str]:
    """No proxy stands between an evaluation and a server on this machine."""
    return {name: ",".join(filter(None, (os.environ.get(name), HOST))) for name in ("no_proxy", "NO_PROXY")}


def watch(request: Request, say: Callable[[str], None]) -> tuple[str, bool]:
    """What to say at the end, and whether all could be judged.

    Raises:
        ValueError: another watch judges this run, its records are of another evaluation, or the photos do not serve.
    """
    recipe = request.recipe
    mixture = evaluation_mixture(recipe, find_photos(recipe.data.photos), recipe.eval.count)
    with holding(request.run) as held:
        try:
            given_up = Watch(request, mixture, held, say).go()
        except KeyboardInterrupt:
            lost = sorted(held.complete().keys() - checkpoints(request.run).keys())
            if lost:
                say(f"let go, and removed by training: steps {', '.join(map(str, lost))}")
            raise
    best = read_best(request.run)
    told = [f"not judged: step {step}" for step in given_up]
    told += [f"best: step {best.step}, mean primary {percent(best.score)}"] if best else ["nothing is judged"]
    return "\n".join(told), not given_up


def main(argv: Sequence[str]) -> int:
    logging.basicConfig(format="%(message)s")
    for number in (signal.SIGINT, signal.SIGTERM):  # also where a shell has started this in the background
        signal.signal(number, signal.default_int_handler)

    def work(words: Sequence[str]) -> tuple[str, bool]:
        return watch(parse_request(words), lambda line: print(line, flush=True))

    return run_command(argv, USAGE, work, stopped="what is judged is kept, and the same command continues")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
