"""python -m data_mix.show: the page, its files, and what is refused."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image

from data_mix.mixture import first_puzzles, training_mixture
from data_mix.page import ImageTokens, Picture, Shown, Tokens, page
from data_mix.photos import find_photos
from data_mix.show import main, parse_request, write_example
from models.load import load_encoder
from recipes.loader import load_recipe
from tasks import TASKS

ROOT = Path(__file__).resolve().parents[2]
TINY = ["recipe=quickstart", "data.photos.index=index.jsonl"]
MIXED = [
    "recipe=mixed_grid", "model=tiny_qwen3_vl", "data.photos.use=reuse", "data.photos.index=index.jsonl",
    *(f"data.parts.{name}.spec.piece_px=24" for name in ("4x4", "8x8", "12x12", "16x16")),
]  # fmt: skip
VOID = {"meta", "img"}


class Parsed(HTMLParser):
    """The tags and the text of a page; an element that is closed wrongly fails the test."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.marked: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data
        if "mark" in self.open:
            self.marked.append(data)

    def files(self) -> list[str]:
        """Every file that the page shows or links to."""
        named = [value for _, attrs in self.tags for name, value in attrs.items() if name in ("src", "href") and value]
        return [value for value in named if not value.startswith("#")]


def read(folder: Path) -> Parsed:
    parsed = Parsed((folder / "index.html").read_text(encoding="utf-8"))
    assert parsed.files()
    assert [name for name in parsed.files() if "/" in name or not (folder / name).is_file()] == []
    return parsed


def articles(parsed: Parsed) -> int:
    return sum(tag == "article" for tag, _ in parsed.tags)


def first(recipe, split, count):
    return list(first_puzzles(recipe, find_photos(recipe.data.photos), split, count))


def test_the_command_writes_a_page_and_names_it(tmp_path):
    command = [sys.executable, "-m", "data_mix.show", *TINY, "count=2"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("train part 2x2: 2 puzzles of jigshape")
    assert "\npage: shown/quickstart-train/index.html\n" in done.stdout
    assert "drawing examples" in done.stderr
    assert re.search(r"^2x2 +2 +75 of 2,048$", done.stdout, re.MULTILINE)
    parsed = read(tmp_path / "shown" / "quickstart-train")
    assert articles(parsed) == 2
    assert "image 1: 64 × 64 px, not scaled; image tokens: 4, one covers 32 × 32 px of it" in parsed.text


def test_every_part_of_a_mixture_is_shown_with_its_counts(in_tmp_path, capsys):
    assert main([*MIXED, "count=1", "out=here", "model.max_tokens=1000"]) == 0
    parsed = read(in_tmp_path / "here")
    assert articles(parsed) == 4
    assert {attrs.get("id") for tag, attrs in parsed.tags if tag == "section"} == {"4x4", "8x8", "12x12", "16x16"}
    assert '{"grid": 4, "piece_px": 24}' in parsed.text
    assert "Too long: a run with this example is refused." in parsed.text
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[6:]] == ["4x4", "8x8", "12x12", "16x16"]


def test_images_are_full_size_and_what_the_model_is_shown(in_tmp_path, capsys):
    assert main([*TINY, "count=1", "out=here"]) == 0
    (posed,) = first(load_recipe(TINY), "train", 1)
    with Image.open("here/2x2-0000-image1.png") as shown:
        assert shown.tobytes() == posed.example().images[0].tobytes()


def test_shown_puzzles_are_those_of_the_run(in_tmp_path):
    recipe = load_recipe([*TINY, "data.parts.2x2.count=40"])
    run = {posed.index: posed.puzzle.key for posed in training_mixture(recipe, find_photos(recipe.data.photos))}
    shown = first(recipe, "train", 3)
    assert [posed.index for posed in shown] == [0, 1, 2]
    assert [posed.puzzle.key for posed in shown] == [run[index] for index in range(3)]
    assert len(first(recipe, "train", 50)) == 40


def test_a_held_out_split_shows_the_parts_that_are_evaluated(in_tmp_path):
    recipe = load_recipe(
        [*TINY, "data.photos.shares.test=0.2", "eval.parts={probe: {task: probes, count: 1}}", "eval.require=null"]
    )
    for split in ("eval", "test"):
        shown = first(recipe, split, 2)
        assert [(posed.part, posed.split, posed.index) for posed in shown] == [("probe", split, 0), ("probe", split, 1)]


def test_the_informative_characters_are_marked(in_tmp_path, capsys):
    assert main([*TINY, "count=1", "out=here"]) == 0
    (posed,) = first(load_recipe(TINY), "train", 1)
    assert read(in_tmp_path / "here").marked == [str(n) for cell in posed.puzzle.target["cells"] for n in cell]


def test_a_task_that_draws_no_pictures_has_no_truth_on_the_page(in_tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(TASKS, "jigshape", replace(TASKS["jigshape"], picture=None))
    assert main([*TINY, "count=1", "out=here"]) == 0
    assert set(read(in_tmp_path / "here").files()) == {"2x2-0000-image1.png"}


def test_a_model_whose_files_are_not_here_still_gives_a_page(in_tmp_path, capsys):
    assert main([*TINY, "count=1", "out=here", "model.scratch=null", "model.pretrained=nowhere/there"]) == 0
    assert "tokens: not known here (got model 'nowhere/there'" in capsys.readouterr().out
    assert "tokens: not known here (got model 'nowhere/there'" in read(in_tmp_path / "here").text


def test_a_prompt_that_the_model_cannot_take_is_said_in_place_of_its_tokens(in_tmp_path):
    recipe = load_recipe(TINY)
    (real,) = first(recipe, "train", 1)
    messages = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "<|image_pad|>"}]}]
    posed = replace(real, puzzle=replace(real.puzzle, messages=messages))
    written = write_example(posed, load_encoder(recipe.model), in_tmp_path)
    assert "got 1 images for a prompt with 2 places" in str(written.tokens)


def test_every_problem_of_the_command_line_is_told(in_tmp_path, capsys):
    assert main(["recipe=quickstar", "split=dev", "split", "count=0", "out="]) == 2
    lines = capsys.readouterr().err.splitlines()
    places = [line.removeprefix("error: ").split(":")[0].strip() for line in lines]
    assert places == ["5 problems in the recipe", "split", "out", "split", "count", "recipe"]


def test_the_pages_folder_is_named_after_recipe_and_split():
    assert parse_request([*TINY, "name=mine", "split=eval"]).out == Path("shown/mine-eval")


def test_a_folder_that_cannot_be_written_is_refused(in_tmp_path, capsys):
    Path("taken").write_text("a file")
    assert main([*TINY, "count=1", "out=taken"]) == 2
    assert re.search(r"^error: out: got taken \(.*\); allowed: a folder", capsys.readouterr().err, re.MULTILINE)


def test_help_prints_the_usage(capsys):
    assert main(["--help"]) == 0
    assert "usage: python -m data_mix.show" in capsys.readouterr().out


def hostile(place: str) -> str:
    """A text for one place of a page: HTML, quotes, characters that cannot be seen or encoded."""
    return f"{place}</p><script>alert(1)</script><img src=x onerror='x' alt=\"\">&lt;\x00\u202e\ud800"


@pytest.fixture
def shown(in_tmp_path) -> Shown:
    """An example that is hostile wherever a text can stand."""
    (real,) = first(load_recipe(TINY), "train", 1)
    messages = [
        {"role": hostile("role"), "content": hostile("text")},
        {"role": "user", "content": [{"type": "text", "text": hostile("text")}, {"type": "image"}]},
    ]
    target = real.puzzle.target | {"cells": [[hostile("cell"), 0]]}
    puzzle = replace(real.puzzle, messages=messages, target=target, photo_id=hostile("photo"))
    posed = replace(real, part=hostile("part"), split=hostile("split"), puzzle=puzzle)
    return Shown(posed, True, (Picture("a.png", 8, 8),), None, hostile("tokens"))


def test_no_text_becomes_html(shown):
    text = page(hostile("title"), [hostile("about")], [shown])
    assert {char for char in text if not char.isprintable()} == {"\n"}
    parsed = Parsed(text)
    assert "script" not in {tag for tag, _ in parsed.tags}
    assert {name for _, attrs in parsed.tags for name in attrs if name.startswith("on")} == set()
    assert parsed.files() == ["a.png", "a.png"]
    for place in ("title", "about", "part", "split", "role", "text", "photo", "tokens"):
        assert hostile(place).partition("\x00")[0] + r"\x00\u202e\ud800" in parsed.text


def test_a_text_that_an_earlier_example_of_the_part_holds_is_folded_away(shown):
    assert page("t", [], [shown]).count("<details>") == 1  # both of its messages have the same text
    assert page("t", [], [shown, shown]).count("<details>") == 3


def test_images_that_cost_the_same_share_a_line(shown):
    piece, sheet = ImageTokens((40, 40), (32, 64), 2), ImageTokens((32, 32), (32, 32), 1)
    tokens = Tokens((sheet, piece, piece), prompt=25, answer=5, allowed=29)
    parsed = Parsed(page("t", [], [replace(shown, tokens=tokens)]))
    assert "image 1: 32 × 32 px, not scaled; image tokens: 1, one covers 32 × 32 px of it" in parsed.text
    assert (
        "images 2 to 3, each: 40 × 40 px, scaled to 32 × 64 px; image tokens: 2, one covers 40 × 20 px" in parsed.text
    )
    assert "Too long" in parsed.text
