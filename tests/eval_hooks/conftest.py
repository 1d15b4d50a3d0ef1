"""A tiny model of the real classes and the smallest puzzles of two tasks."""

import json
import re
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch
from wandb.proto import wandb_internal_pb2 as pb

from data_mix.mixture import Mixture, Posed, evaluation_mixture
from data_mix.photos import PhotoSet, find_photos
from models.generation import Completion
from models.load import Loaded, load_model
from recipes.loader import load_recipe
from recipes.schema import Recipe

OVERRIDES = [
    "recipe=quickstart", "eval.require=null", "data.parts.2x2.count=4",
    "train.effective_batch=2", "train.micro_batch=2",
    "data.parts.missing={task: probes, count: 4, spec: {kind: grid_missing}}", "trainer.max_steps=2",
    "trainer.warmup_steps=0", "eval.batch=2", "eval.count=2", "eval.final_count=3", "eval.pictures=1",
]  # fmt: skip
"""The quickstart with a few puzzles of two tasks, one cut from photos and one drawn."""


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """So that this process adds floats in the same order as the subprocesses do."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("eval_hooks")


@pytest.fixture
def recipe_of(tmp_path: Path, shared_folder: Path) -> Callable[..., Recipe]:
    """`recipe_of(*overrides)`: the tiny recipe, its run folder in tmp_path."""

    def build(*overrides: str) -> Recipe:
        index = f"data.photos.index={shared_folder / 'photos.json'}"
        return load_recipe([*OVERRIDES, index, f"output_dir={tmp_path / 'run'}", *overrides])

    return build


@pytest.fixture(scope="session")
def photos(shared_folder: Path) -> PhotoSet:
    recipe = load_recipe([*OVERRIDES, f"data.photos.index={shared_folder / 'photos.json'}"])
    return find_photos(recipe.data.photos)


@pytest.fixture(scope="session")
def loaded() -> Loaded:
    return load_model(load_recipe(OVERRIDES).model, seed=0, dtype=torch.float32)


@pytest.fixture
def mixture_of(recipe_of: Callable[..., Recipe], photos: PhotoSet) -> Callable[..., Mixture]:
    """`mixture_of(count, *overrides)`: the first `count` evaluation puzzles of each part."""
    return lambda count, *overrides: evaluation_mixture(recipe_of(*overrides), photos, count)


@pytest.fixture
def posed(mixture_of: Callable[..., Mixture]) -> Posed:
    """The first 2x2 puzzle."""
    return mixture_of(1)[0]


@pytest.fixture(scope="session")
def completion_of() -> Callable[..., Completion]:
    """`completion_of(text, finish_reason="stop")`: a completion with made-up costs."""
    return lambda text, finish_reason="stop": Completion(
        text=text, finish_reason=finish_reason, num_tokens=len(text), seconds=0.25
    )


_BLOCK = 32 * 1024
_FULL, _LAST = 1, 4


def _messages(path: Path) -> Iterator[bytes]:
    data, position, whole = path.read_bytes(), 7, b""  # 7 bytes of file header
    while position + 7 <= len(data):
        left = _BLOCK - position % _BLOCK
        if left < 7:
            position += left
            continue
        _, length, kind = struct.unpack("<IHB", data[position : position + 7])
        if kind == 0:
            return
        whole += data[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (_FULL, _LAST):
            yield whole
            whole = b""


def _read_offline_runs(folder: Path) -> tuple[set[str], dict[str, Any], list[dict[str, Any]]]:
    """All offline runs below `folder`, oldest first: (run ids, config, history rows)."""
    ids, config, history = set(), {}, []
    for record in _offline_messages(folder):
        kind = record.WhichOneof("record_type")
        if kind == "run":
            ids.add(record.run.run_id)
            config |= {u.key or "/".join(u.nested_key): json.loads(u.value_json) for u in record.run.config.update}
        elif kind == "history":
            items = record.history.item
            history.append({"/".join(i.nested_key) or i.key: json.loads(i.value_json) for i in items})
    return ids, config, history


def _offline_messages(folder: Path) -> Iterator[pb.Record]:
    for path in sorted(folder.glob("wandb/offline-run-*/*.wandb")):
        for message in _messages(path):
            record = pb.Record()
            record.ParseFromString(message)
            yield record


@pytest.fixture(scope="session")
def read_offline_runs() -> Callable[[Path], tuple[set[str], dict[str, Any], list[dict[str, Any]]]]:
    """`read_offline_runs(folder)`: all offline W&B runs below a run folder as (ids, config, history rows)."""
    return _read_offline_runs


@pytest.fixture(scope="session")
def offline_messages() -> Callable[[Path], list[pb.Record]]:
    """`offline_messages(folder)`: all that the offline W&B runs below a folder hold, oldest first."""
    return lambda folder: list(_offline_messages(folder))


@pytest.fixture(scope="session")
def read_summary() -> Callable[[Path], dict[str, Any]]:
    """`read_summary(folder)`: the summary that all offline W&B runs below a folder come to, one after the other."""

    def read(folder: Path) -> dict[str, Any]:
        told: dict[str, Any] = {}
        for record in _offline_messages(folder):
            if record.WhichOneof("record_type") == "summary":
                told |= {u.key or "/".join(u.nested_key): json.loads(u.value_json) for u in record.summary.update}
        return told

    return read


@pytest.fixture
def no_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No W&B key anywhere, and nothing in the environment that changes W&B's mode."""
    for name in ("WANDB_API_KEY", "WANDB_BASE_URL", "WANDB_MODE", "WANDB_DIR", "WANDB_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture
def browse(tmp_path: Path) -> Callable[[str, int, str], Any]:
    """`browse(page, width, script)`: what `script` makes of `said` on a page so many px wide, in a real browser.

    The page must give the console nothing to say, with its own policy and, for the script, without.
    """
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine; apt-get install chromium, or Chrome, lets this run")

    def chromium(page: str) -> str:
        file = tmp_path / "browsed.html"
        file.write_text(page, encoding="utf-8")
        command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
        command += ["--enable-logging=stderr", "--dump-dom", "--window-size=1400,1000", file.as_uri()]
        result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        assert [line for line in result.stderr.splitlines() if "CONSOLE" in line] == []
        return result.stdout

    def tried(page: str, width: int, script: str) -> Any:
        assert "</html>" in chromium(page)
        page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
        tell = 'window.parent.document.body.textContent = "SAID" + JSON.stringify(said) + "END";'
        page = page.replace("</body>", f"<script>{{ const said = {{}}; {script}; {tell} }}</script></body>")
        # a frame, as Chromium's windows are at least 500 px wide
        frame = f'<iframe style="width:{width}px;height:900px;border:0" srcdoc="{escape(page)}"></iframe>'
        dumped = chromium(f"<!doctype html><meta charset=utf-8><body>{frame}")
        return json.loads(re.search("SAID(.*)END", dumped, re.DOTALL).group(1))

    return tried


class Page(HTMLParser):
    """A page's tags with their attributes, its words, and whether every tag is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "input", "br", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.words += data

    def of(self, tag: str) -> list[dict[str, str | None]]:
        """The attributes of each such tag."""
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="session")
def read_page() -> Callable[[str], Page]:
    """`read_page(text)`: the page taken apart; it is whole, and reaches for nothing outside of it."""

    def read(text: str) -> Page:
        page = Page(text)
        assert page.open == []
        assert not re.search(r"https?:|@import|url\(", text)
        for _, attributes in page.tags:
            assert not any(name.startswith("on") or name in ("href", "action", "srcset") for name in attributes)
            assert attributes.get("src", "data:").startswith("data:image/webp;base64,") or "src" not in attributes
        return page

    return read
