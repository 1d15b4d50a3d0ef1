#!/bin/bash
# What the batch files here do, in their clone: a process of a script on each GPU, and the job again after a signal.
#   launch/slurm/tasks.bash train/sft.py recipe=mixed_grid ...
set -euo pipefail

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
export MASTER_ADDR=${nodes[0]}
export MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000))
export WORLD_SIZE=$SLURM_NTASKS
export OMP_NUM_THREADS=1
export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-8}  # srun does not take it over by itself in Slurm 22.05 and later
export PYTHON=${PYTHON:-.venv/bin/python}

# No launcher in between: each process gets Slurm's signals itself. After the first has ended, the others have a
# quarter of an hour, so that one that failed does not leave the rest waiting.
status=0
# shellcheck disable=SC2016  # expanded in each task, not here
srun --kill-on-bad-exit=0 --wait=900 bash -c '
  export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID
  exec "$PYTHON" "$@" resume=true
' task "$@" || status=$?

if [ "$status" -eq 3 ]; then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
