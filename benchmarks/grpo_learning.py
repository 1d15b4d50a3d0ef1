"""What GRPO learns on a CPU: from 2x2 puzzles half learnt, against a reward of pure noise; and on 3x3 by curriculum.

    .venv/bin/python benchmarks/grpo_learning.py what=noise seeds=0,1,2 output_dir=runs/grpo-learning
    .venv/bin/python benchmarks/grpo_learning.py what=curriculum seeds=0,1,2 output_dir=runs/grpo-learning

All runs are the real commands, one after the other; what is done already in output_dir is not done again. Supervised
training (recipe quickstart) is stopped early: `noise` starts at its first checkpoint with a PA of .35 or more on 64
held-out puzzles, or at the one before if that has .75 or more; `curriculum` at its first with .9, after further
supervised steps on 2x2 and 3x3 until a tenth of the answers to 64 3x3 puzzles is valid. Each seed has a model, photos'
crops and draws of its own. Prints held-out figures (250 puzzles per part) before and after, of greedy answers; for
`curriculum`, whose rollouts are constrained, as hardly a 3x3 answer is valid otherwise, of constrained ones.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eval_hooks.records import read_records
from eval_hooks.run_files import checkpoint_folders, evaluated_steps, records_file
from eval_hooks.summary import summarize
from recipes.command import CommandLine, run_command
from recipes.loader import load_recipe
from train.grpo import prepare
from train.script import run

ROOT = Path(__file__).resolve().parent.parent
HALF, TOO_MUCH, SOLVED, FORM = 0.35, 0.75, 0.9, 0.1
GRIDS = (2, 3)
ARMS = {
    "uniform": "null",
    "staged": "{stages: {first: {shares: {2x2: 1}, until: {2x2: 0.9}}, then: {shares: {2x2: 0.2, 3x3: 0.8}}}, "
    "groups: {every: 2, window: 16}, lag: 1}",
    "adaptive": "{adaptive: {floor: 0.2}, groups: {every: 2, window: 16}, lag: 1}",
}
"""Of equal budget: as many steps, each with as many completions."""


def main(argv: list[str]) -> int:
    if argv[:1] == ["--noise"]:
        return with_noise(argv[1:])
    return run_command(argv, __doc__ or "", measure)


def measure(argv: Sequence[str]) -> str:
    """The experiment that is asked for, seed by seed."""
    line = CommandLine(argv, ("what", "seeds", "output_dir", "steps"))
    experiments = {"noise": against_noise, "curriculum": by_curriculum}
    experiment, steps = experiments[line.choice("what", tuple(experiments), "noise")], line.number("steps", 60)
    folder = Path(line.text("output_dir") or "runs/grpo-learning").resolve()
    line.without_recipe()
    for seed in (line.text("seeds") or "0,1,2").split(","):
        experiment(folder / f"seed-{seed}", seed, str(steps))
    return f"runs and logs are in {folder}"


def against_noise(folder: Path, seed: str, steps: str) -> None:
    """GRPO with the default reward and with noise, from one half-learnt model."""
    start = half_learnt(folder / "sft", seed)
    common = ["recipe=quickstart_grpo", f"seed={seed}", f"train.start={start}", f"trainer.max_steps={steps}"]
    show(seed, f"start, {start.name}", judged(start, folder / "start.jsonl", ["recipe=quickstart", f"seed={seed}"]))
    for name, script in (("reward", ["train/grpo.py"]), ("noise", [str(Path(__file__).resolve()), "--noise"])):
        seconds = command([*script, *common, f"output_dir={folder / name}"], folder / name)
        show(seed, f"{name}, {steps} steps", scores_of(folder / name), curve(folder / name), seconds)


def by_curriculum(folder: Path, seed: str, steps: str) -> None:
    """The arms, from one model that has solved 2x2 and knows the form of 3x3."""
    solved = learnt(folder / "sft", seed)
    both = [f"seed={seed}", *parts()]
    supervised = ["trainer.learning_rate=5e-4", "trainer.warmup_steps=5", "trainer.lr_scheduler_type=constant"]
    train_until(
        folder / "form", "3x3", "valid", FORM,
        [*both, *supervised, f"train.start={solved}", "trainer.max_steps=200", "trainer.lr_scheduler_kwargs=null"],
    )  # fmt: skip
    start = checkpoint_folders(folder / "form")[first(folder / "form", "3x3", "valid", FORM)[-1][0]]
    asked = ["recipe=quickstart", *both, "eval.protocol=constrained"]
    show(seed, f"start, {start.name}", judged(start, folder / "form.jsonl", asked))
    common = ["recipe=quickstart_grpo", *both, f"train.start={start}", f"trainer.max_steps={steps}"]
    common += ["rollouts.constrained=true", "trainer.learning_rate=1e-4", "eval.count=0"]
    for arm, curriculum in ARMS.items():
        run = folder / arm
        seconds = command(["train/grpo.py", *common, f"data.curriculum={curriculum}", f"output_dir={run}"], run)
        last = list(checkpoint_folders(run).values())[-1]
        show(seed, f"{arm}, {steps} steps", judged(last, folder / f"{arm}.jsonl", asked), curve(run), seconds)


def parts() -> list[str]:
    """The quickstart's puzzle at both grids, half each."""
    spec = load_recipe(["recipe=quickstart"]).data.parts["2x2"].spec
    return [
        f"data.parts.{grid}x{grid}={json.dumps({'task': 'jigshape', 'count': 24_000, 'spec': {**spec, 'grid': grid}})}"
        for grid in GRIDS
    ]


def half_learnt(run: Path, seed: str) -> Path:
    """The checkpoint of a supervised run to start from."""
    learnt(run, seed)
    steps = first(run, "2x2", "pa", HALF)
    return checkpoint_folders(run)[steps[-2 if steps[-1][1] >= TOO_MUCH else -1][0]]


def learnt(run: Path, seed: str) -> Path:
    """The checkpoint of that run at which 2x2 is solved."""
    train_until(run, "2x2", "pa", SOLVED, [f"seed={seed}"])
    return checkpoint_folders(run)[first(run, "2x2", "pa", SOLVED)[-1][0]]


def train_until(run: Path, part: str, entry: str, least: float, words: Sequence[str]) -> None:
    """Supervised training that is stopped when a part's mean of an entry is there."""
    if first(run, part, entry, least):
        return
    fixed = ["recipe=quickstart", "train.checkpoint_every=5", "train.keep_checkpoints=null", "eval.final_count=0",
             "eval.require=null", "wandb.mode=disabled", f"output_dir={run}"]  # fmt: skip
    with log_of(run).open("w") as log:
        training = subprocess.Popen(
            [sys.executable, "train/sft.py", *fixed, *words], cwd=ROOT, stdout=log, stderr=subprocess.STDOUT
        )
        while training.poll() is None and not first(run, part, entry, least):
            time.sleep(2)
        training.terminate()
        training.wait()


def first(run: Path, part: str, entry: str, least: float) -> list[tuple[int, float]]:
    """(step, mean of the entry) of each evaluation up to the first that has it; nothing if none has."""
    told = []
    for step in evaluated_steps(run):
        if records := read_records(records_file(run, step)).records:
            told.append((step, summarize(records)[part].means[entry]))
            if told[-1][1] >= least:
                return told
    return []


def log_of(run: Path) -> Path:
    run.parent.mkdir(parents=True, exist_ok=True)
    return run.with_suffix(".log")


def command(words: Sequence[str], run: Path) -> float:
    """Seconds that a training took; 0 if it was done already."""
    if records_file(run, None).is_file():
        return 0.0
    started = time.monotonic()
    with log_of(run).open("w") as log:
        subprocess.run(
            [sys.executable, *words, "wandb.mode=disabled", "eval.final_count=250", "eval.require=null"],
            cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, check=True,
        )  # fmt: skip
    return time.monotonic() - started


def judged(checkpoint: Path, records: Path, words: Sequence[str]) -> Mapping[str, Mapping[str, float]]:
    """Scores of a checkpoint by part, {part: {entry: mean}}."""
    asked = ["-m", "eval_hooks.run", *words, f"checkpoint={checkpoint}", f"out={records}"]
    subprocess.run([sys.executable, *asked], cwd=ROOT, check=True, capture_output=True)
    return {part: of.means for part, of in summarize(read_records(records).records).items()}


def scores_of(run: Path) -> Mapping[str, Mapping[str, float]]:
    """The same of a run's final evaluation."""
    return {part: of.means for part, of in summarize(read_records(records_file(run, None)).records).items()}


def curve(run: Path) -> str:
    """Mean primary score of the completions of every tenth step, of the last part."""
    state = json.loads((list(checkpoint_folders(run).values())[-1] / "trainer_state.json").read_text())
    told = [(entry["step"], {name: value for name, value in entry.items() if name.startswith("primary/")})
            for entry in state["log_history"]]  # fmt: skip
    return " ".join(f"{step}:{list(of.values())[-1]:.2f}" for step, of in told if of and step % 10 == 0)


def show(
    seed: str, name: str, scores: Mapping[str, Mapping[str, float]], points: str = "", seconds: float = 0.0
) -> None:
    told = [f"{part} PA {100 * of['pa']:5.1f} EM {100 * of['em']:5.1f} valid {100 * of['valid']:5.1f}"
            for part, of in scores.items()]  # fmt: skip
    print(f"seed {seed}  {name:24}  {'  '.join(told)}  {seconds:5.0f} s  {points}", flush=True)


def with_noise(argv: list[str]) -> int:
    """train/grpo.py whose rewards are drawn at random."""
    prepared = prepare(argv)
    drawn = np.random.default_rng(prepared.recipe.seed)
    functions: list[Any] = prepared.trainer.reward_funcs  # type: ignore[attr-defined]
    functions[0] = lambda scores, **others: drawn.random(len(scores)).tolist()
    functions[1:] = [lambda scores, **others: [0.0] * len(scores)] * (len(functions) - 1)
    return run(*prepared)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
