"""The form for people, and their answers as records."""

import base64
import io
import json

import numpy as np
import pytest
from PIL import Image

from data_mix.mixture import first_puzzles
from eval_hooks.people import form, main, parse_request, read_answers, score
from eval_hooks.records import prompt_hash, read_records
from recipes.loader import to_yaml


@pytest.fixture
def recipe(recipe_of):
    return recipe_of()


@pytest.fixture
def puzzles(recipe, photos):
    return first_puzzles(recipe, photos, "eval", 2)


@pytest.fixture
def saved(tmp_path, puzzles):
    """`saved(*texts, **changes)`: the file of a form with two puzzles per part; the other answers are empty."""

    def build(*texts, **changes):
        texts = [*texts, *[" "] * len(puzzles)][: len(puzzles)]
        answers = [{"key": p.puzzle.key, "text": text} for p, text in zip(puzzles, texts, strict=True)]
        file = tmp_path / "answers-ann.json"
        stored = {"name": "ann", "split": "eval", "count": 2, "answers": answers} | changes
        file.write_text(json.dumps(stored), encoding="utf-8")
        return file

    return build


def test_the_form_shows_the_pixels_and_words_of_the_puzzles_and_no_solution(recipe, puzzles, read_page):
    text = form(recipe, "eval", 2)
    page = read_page(text)
    assert [box["data-key"] for box in page.of("textarea")] == [posed.puzzle.key for posed in puzzles]
    shown = [base64.b64decode(image["src"].partition("base64,")[2]) for image in page.of("img")]
    asked = [pixels for posed in puzzles for pixels in posed.example().images]
    assert len(shown) == len(asked)
    for content, pixels in zip(shown, asked, strict=True):
        assert np.array_equal(Image.open(io.BytesIO(content)), pixels)
    for posed in puzzles:
        said = [part["text"] for m in posed.puzzle.messages for part in m["content"] if part["type"] == "text"]
        assert all(words in page.words for words in said)
    assert puzzles[0].task.gold(puzzles[0].puzzle.target) not in text
    assert puzzles[0].puzzle.photo_id.split("@")[0] not in text


def test_a_persons_answers_become_records_like_a_models(saved, recipe, puzzles, tmp_path, in_tmp_path, capsys):
    right = puzzles[0].task.gold(puzzles[0].puzzle.target)
    file = saved(right, "I give up </script>")
    (tmp_path / "recipe.yaml").write_text(to_yaml(recipe), encoding="utf-8")
    assert main([f"answers={file}", f"recipe={tmp_path / 'recipe.yaml'}"]) == 0
    said = capsys.readouterr().out
    assert "left empty, and not counted: 2 of 4 puzzles" in said
    records = read_records(file.with_suffix(".jsonl")).records
    assert {(r.model, r.protocol, r.step, r.split) for r in records} == {("human-ann", "human", None, "eval")}
    assert [(r.scores["em"], r.invalid) for r in records] == [(1, None), (0, "no_json")]
    assert [r.prompt_hash for r in records] == [prompt_hash(p.puzzle.messages) for p in list(puzzles)[:2]]


def test_answers_to_other_puzzles_are_refused(saved, recipe, photos):
    answers = read_answers(saved("1", "2", "3", "4"))
    with pytest.raises(ValueError, match="2 answers to puzzles that the recipe does not give"):
        score(answers, first_puzzles(recipe, photos, "eval", 1))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"name": "../x"}, "letters, digits"),
        ({"name": None}, "do save the form again"),
        ({"split": "train"}, "another split"),
        ({"count": True}, "another split or count"),
        ({"answers": [{"key": "a", "text": "x"}] * 2}, "answered twice"),
        ({"answers": "x"}, "do save the form again"),
        ({"answers": []}, "without an answer"),
    ],
)
def test_a_file_that_no_form_saves_is_refused(changes, told, saved):
    with pytest.raises(ValueError, match=told):
        read_answers(saved("1", **changes))


def test_text_that_is_no_json_is_refused(tmp_path):
    file = tmp_path / "answers.json"
    for content in ("", "[" * 10**5, "no"):
        file.write_text(content, encoding="utf-8")
        with pytest.raises(ValueError, match="do save the form again"):
            read_answers(file)


def test_what_the_file_says_is_not_said_again(saved, recipe, tmp_path):
    (tmp_path / "recipe.yaml").write_text(to_yaml(recipe), encoding="utf-8")
    words = [f"recipe={tmp_path / 'recipe.yaml'}", f"answers={saved('1')}"]
    assert parse_request(words).out == tmp_path / "answers-ann.jsonl"
    with pytest.raises(ValueError, match="do leave split out"):
        parse_request([*words, "split=test"])


FILL = """
  const box = document.querySelectorAll("textarea")[1];
  box.value = '{"0": [0, 1]} <b> "ü"'; box.dispatchEvent(new Event("input"));
  const owner = document.querySelector("input"); owner.value = "ann"; owner.dispatchEvent(new Event("input"));
  said.done = document.querySelector("output").value;
  let blob = null, file = null;
  URL.createObjectURL = (given) => { blob = given; return "#"; };
  HTMLAnchorElement.prototype.click = function () { file = this.download; };
  document.querySelector("button").click();
  said.file = file;
  said.size = blob.size;
  said.type = blob.type;
  const [key, name] = [localStorage.getItem("answer " + box.dataset.key), localStorage.getItem("name")];
  said.kept = [key === box.value, name];
  said.fits = document.documentElement.scrollWidth <= window.innerWidth
"""


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 400])
def test_a_browser_keeps_what_is_typed_and_saves_it(width, recipe, browse):
    said = browse(form(recipe, "eval", 2), width, FILL)
    assert said.pop("size") > 200
    assert said == {
        "done": "1 of 4 answered", "file": "answers-ann.json", "type": "application/json", "kept": [True, "ann"],
        "fits": True,
    }  # fmt: skip
