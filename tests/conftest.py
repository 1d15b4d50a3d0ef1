"""What all tests need: no network, no threads beyond one core, nothing written into the clone."""

from __future__ import annotations

import os
import signal

import pytest

# a shell that starts the tests in the background has them ignore Ctrl-C, and with them all that they start
signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_OFFLINE"] = "1"
os.environ["WANDB_MODE"] = "offline"
os.environ["WANDB_SILENT"] = "true"
os.environ["TOKENIZERS_PARALLELISM"] = "false"


@pytest.fixture
def in_tmp_path(tmp_path, monkeypatch):
    """The test runs in an empty folder, which it gets."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def two_images(tmp_path_factory):
    """The override that adds a part whose prompts have one image, or two."""
    from tests.two_images import part, save

    return part(save(tmp_path_factory.mktemp("rows")))
