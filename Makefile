# One entry point for people and machines: `make` lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CORES := $(shell nproc 2>/dev/null || echo 2)
export OMP_NUM_THREADS ?= $(CORES)
export TOKENIZERS_PARALLELISM ?= false
RUN := runs/quickstart-$(shell date -u +%Y%m%d-%H%M%S)

.PHONY: help install quickstart test test-slow lint format clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1 - /'
	@echo "  variables: PYTHON=python3.12 (what .venv is made from), ARGS='seed=1' (added to quickstart, test)"

install: $(STAMP) ## make .venv and install; does nothing when nothing has changed
	@echo "$(VENV) is ready"

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "failed: got $$($(PYTHON) --version 2>&1 | head -n 1); allowed: Python 3.11 or later; do: make $(or $(MAKECMDGOALS),install) PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python && $(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV) || { \
	  echo "failed: no virtual environment; do: install your system's python3-venv package, then run make again"; exit 1; }
	@echo "installing into $(VENV): about 6 GB, some minutes"
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet -e '.[dev]' || { \
	  echo "failed: pip install; do: read the lines above (network? disk: df -h .), then run make again"; exit 1; }
	@touch $@

quickstart: $(STAMP) ## learn 2x2 puzzles from real photos on this machine's CPU, and score it
	@echo "quickstart: checkpoints, records and log go to $(RUN)"
	@$(BIN)/accelerate launch --quiet --num_processes 1 --num_machines 1 --mixed_precision no --dynamo_backend no --num_cpu_threads_per_process $(OMP_NUM_THREADS) \
	  train/sft.py recipe=quickstart output_dir=$(RUN) $(ARGS) || { \
	  echo "failed: quickstart, see above; do: look into $(RUN), then run make quickstart again (it takes a new folder)"; exit 1; }

test: $(STAMP) ## install what is missing and run the tests
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(CORES) --dist worksteal -m "not gpu and not slow" $(ARGS) || { \
	  echo "failed: tests; do: make test ARGS='--lf -x' runs the failed ones again"; exit 1; }

test-slow: $(STAMP) ## the tests that take minutes: kills, full disks, no network
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(CORES) --dist worksteal -m "slow and not gpu" $(ARGS) || { \
	  echo "failed: slow tests; do: make test-slow ARGS='--lf -x' runs the failed ones again"; exit 1; }

lint: $(STAMP) ## ruff, mypy and shellcheck
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/shellcheck .ci/run launch/slurm/* || { \
	  echo "failed: lint; do: make format, then mend by hand what is still said"; exit 1; }

format: $(STAMP) ## mend what ruff can mend
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

clean: ## remove .venv and all caches; runs/ stays
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .cache build *.egg-info
	find . -name __pycache__ -not -path './runs/*' -prune -exec rm -rf {} +
