"""The batch files, run by bash with programs in place of Slurm's that start two tasks on this machine."""

import os
import subprocess

import pytest

from tests.entry.conftest import ROOT

BATCH_FILES = sorted((ROOT / "launch/slurm").glob("*.sbatch"))

SRUN = """\
#!/bin/bash
while [[ $1 == --* ]]; do shift; done
status=0
for task in 0 1; do SLURM_PROCID=$task SLURM_LOCALID=$task "$@" || status=$?; done
exit $status
"""
SCONTROL = """\
#!/bin/bash
if [[ $1 == show ]]; then printf 'first\\nsecond\\n'; else echo "$@" >> "$SAID"; fi
"""
PYTHON = """\
#!/bin/bash
echo "$RANK of $WORLD_SIZE, $LOCAL_RANK here, meets at $MASTER_ADDR:$MASTER_PORT: $*" >> "$SAID"
exit "$ENDS_WITH"
"""


@pytest.mark.parametrize("file", BATCH_FILES, ids=lambda file: file.name)
@pytest.mark.parametrize(("status", "requeued"), [(0, False), (3, True), (4, False)])
def test_a_job_starts_a_task_for_each_gpu_and_queues_again_only_after_a_signal(file, status, requeued, tmp_path):
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL), ("python", PYTHON)):
        (tmp_path / name).write_text(text, encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    said = tmp_path / "said"
    slurm = {
        "SLURM_SUBMIT_DIR": str(ROOT), "SLURM_JOB_ID": "123456", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_NTASKS": "2",
        "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHON": str(tmp_path / "python"), "SAID": str(said),
        "ENDS_WITH": str(status),
    }  # fmt: skip
    arguments = ["recipe=mixed_grid", "data.photos.folder=my photos"]
    done = subprocess.run(["bash", str(file), *arguments], env=slurm, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    tasks = [f"{task} of 2, {task} here, meets at first:23456: train/{file.stem}.py recipe=mixed_grid "
             "data.photos.folder=my photos resume=true" for task in (0, 1)]  # fmt: skip
    assert said.read_text().splitlines() == [*tasks, *(["requeue 123456"] if requeued else [])]
    assert done.stdout == ""


OPTIONS = {
    "job-name", "nodes", "ntasks-per-node", "gpus-per-node", "cpus-per-task", "mem", "exclusive", "time", "signal",
    "requeue", "open-mode", "output",
}  # fmt: skip
"""Of sbatch, as its manual names those that we use."""


@pytest.mark.parametrize("file", BATCH_FILES, ids=lambda file: file.name)
def test_sbatch_reads_every_option(file):
    """It stops at the first line that is no comment."""
    lines = file.read_text(encoding="utf-8").splitlines()
    told = [number for number, line in enumerate(lines) if line.startswith("#SBATCH ")]
    assert all(line.startswith("#") for line in lines[: told[-1]])
    named = [lines[number].split()[1].removeprefix("--").partition("=")[0] for number in told]
    assert len(set(named)) == len(named)
    assert set(named) <= OPTIONS
    assert {"requeue", "signal"} <= set(named)
