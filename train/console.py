"""What a person sees while a run goes on."""

from __future__ import annotations

import logging
import sys
import warnings
from io import TextIOWrapper

import datasets
import transformers
from tqdm import tqdm


class _AroundProgressBars(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes a log line without tearing a progress bar."""

    def emit(self, record: logging.LogRecord) -> None:
        tqdm.write(self.format(record), file=self.stream)


def set_up_logging(main_process: bool) -> None:
    """Our lines at INFO on the main process, only errors of the others; the libraries' own at WARNING."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # lines reach a file or a pipe when they are written
    handler = _AroundProgressBars()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname).1s %(name)s: %(message)s", "%H:%M:%S"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    level = logging.INFO if main_process else logging.ERROR
    for package in ("tasks", "recipes", "data_mix", "models", "eval_hooks", "train"):
        logging.getLogger(package).setLevel(level)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    datasets.disable_progress_bars()
    # nothing that a user could act on
    for known in (".*pin_memory.*", ".*activation_checkpointing.*", ".*rollout_func.*experimental.*"):
        warnings.filterwarnings("ignore", message=known)


def refusal(error: BaseException, status: int = 2) -> int:
    """Say why a run is refused or ends, in the error's own words; the exit status. The traceback is a debug line."""
    logging.getLogger("train").debug("refused", exc_info=error)
    tqdm.write(f"error: {error}", file=sys.stderr)  # not behind a progress bar, on its line
    return status
