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

from eval_hooks.records import read_records
from eval_hooks.summary import summarize

ROOT = Path(__file__).resolve().parent.parent


def main(argv: list[str]) -> int:
    options = {"seeds": "0,1,2", "output_dir": "runs/quickstart-seeds"} | dict(token.split("=", 1) for token in argv)
    missed = 0
    print(f"{os.cpu_count()} cores, {os.environ.get('OMP_NUM_THREADS', 'default')} threads")
    print("seed   seconds   tokens/s   exact match by step (held-out photos, free generation)")
    for seed in options["seeds"].split(","):
        run = Path(options["output_dir"]) / f"seed-{seed}"
        started = time.monotonic()
        launched = [sys.executable, "-m", "accelerate.commands.launch", "--num_processes", "1", "train/sft.py"]
        done = subprocess.run(
            [*launched, "recipe=quickstart", f"seed={seed}", f"output_dir={run.resolve()}"],
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
    for file in sorted((run / "records").glob("*.jsonl")):
        for part, summary in summarize(read_records(file)).items():
            points.append(f"{file.stem.removeprefix('step-').lstrip('0')}:{summary.means['em']:.3f} ({part})")
    return "  ".join(points)


def tokens_per_second(run: Path) -> float:
    """Median over the logged steps; tokens are image, prompt and answer tokens without padding."""
    states = sorted(run.glob("checkpoint-*/trainer_state.json"), key=lambda path: int(path.parent.name.split("-")[1]))
    if not states:
        return float("nan")
    rates = sorted(
        entry["tokens_per_second"]
        for entry in json.loads(states[-1].read_text())["log_history"]
        if "tokens_per_second" in entry
    )
    return rates[len(rates) // 2]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
