"""How reliably and how fast the quickstart learns: the real command, one seed after the other.

    .venv/bin/python benchmarks/quickstart_seeds.py seeds=0,1,2 output_dir=runs/quickstart-seeds

Prints, for each seed, held-out exact match at every checkpoint, the final figure and the wall time, then how many
seeds reached the recipe's own requirement. Exit status 1 when one did not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from eval_hooks.records import read_records
from eval_hooks.run_files import checkpoints, evaluated_steps, records_file
from eval_hooks.summary import summarize

ROOT = Path(__file__).resolve().parent.parent


def main(argv: list[str]) -> int:
    options = {"seeds": "0,1,2", "output_dir": "runs/quickstart-seeds"}
    for token in argv:
        name, equals, value = token.partition("=")
        if name not in options or not equals:
            print(f"got {token}; allowed: {', '.join(f'{known}=...' for known in options)}", file=sys.stderr)
            return 2
        options[name] = value
    missed = 0
    print(f"{os.cpu_count()} cores, {os.environ.get('OMP_NUM_THREADS', 'default')} threads")
    print("seed   seconds   tokens/s   exact match by step (held-out photos, free generation)")
    for seed in options["seeds"].split(","):
        run = Path(options["output_dir"]) / f"seed-{seed}"
        started = time.monotonic()
        launcher = [sys.executable, "-m", "accelerate.commands.launch", "--quiet", "--num_processes", "1"]
        done = subprocess.run(
            [*launcher, "train/sft.py", "recipe=quickstart", f"seed={seed}", f"output_dir={run.resolve()}"],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        seconds = time.monotonic() - started
        missed += done.returncode != 0
        print(f"{seed:>4} {seconds:>9.0f} {tokens_per_second(run):>10,.0f}   {curve(run)}", flush=True)
        if done.returncode not in (0, 1):
            print(done.stderr[-4000:])
    print(f"{len(options['seeds'].split(',')) - missed} of {len(options['seeds'].split(','))} seeds met eval.require")
    return 1 if missed else 0


def curve(run: Path) -> str:
    """`step:exact match` of every evaluation of a run, the last one marked final."""
    points = []
    for step in [*evaluated_steps(run), None]:
        file = records_file(run, step)
        if file.is_file():
            summary = summarize(read_records(file).records)["2x2"]
            points.append(f"{'final' if step is None else step}:{summary.means['em']:.3f}")
    return "  ".join(points)


def tokens_per_second(run: Path) -> float:
    """Median over the logged steps; tokens are image, prompt and answer tokens without padding."""
    folders = list(checkpoints(run).values())
    if not folders:
        return float("nan")
    history = json.loads((folders[-1] / "trainer_state.json").read_text())["log_history"]
    return median(entry["tokens_per_second"] for entry in history if "tokens_per_second" in entry)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
