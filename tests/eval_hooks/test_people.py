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
    keys = [
        attributes["data-key"]
        for kind in ("div", "textarea")
        for attributes in page.of(kind)
        if "data-key" in attributes
    ]
    assert keys == [posed.puzzle.key for posed in puzzles]
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


def test_boxes_are_scored_as_the_answer_that_they_mean(tmp_path, recipe, puzzles):
    cells = puzzles[0].puzzle.target["cells"]
    rows = [[str(cells.index([row, column])) for column in range(2)] for row in range(2)]
    wrong = [["0", "0"], ["1", ""]]
    stored = {"name": "ann", "split": "eval", "count": 2, "answers": [
        {"key": puzzles[0].puzzle.key, "boxes": rows, "touched": True},
        {"key": puzzles[1].puzzle.key, "boxes": wrong, "touched": True},
        {"key": puzzles[2].puzzle.key, "text": ""},
    ]}  # fmt: skip
    file = tmp_path / "answers.json"
    file.write_text(json.dumps(stored), encoding="utf-8")
    records = score(read_answers(file), puzzles)
    assert [(r.scores["em"], r.invalid) for r in records] == [(1, None), (0, "duplicate_key")]
    stored["answers"][0]["boxes"] = [["0", "1", "2", "3"]]
    file.write_text(json.dumps(stored), encoding="utf-8")
    with pytest.raises(ValueError, match="boxes of another shape"):
        score(read_answers(file), puzzles)


def test_boxes_that_nobody_touched_are_no_answer(tmp_path, puzzles):
    answers = [{"key": puzzles[0].puzzle.key, "boxes": [["0", ""], ["", ""]], "touched": False}]
    file = tmp_path / "answers.json"
    file.write_text(json.dumps({"name": "a", "split": "eval", "count": 2, "answers": answers}), encoding="utf-8")
    with pytest.raises(ValueError, match="without an answer"):
        read_answers(file)


FILL = """
  const puzzle = document.querySelector(".boxes"), boxes = [...puzzle.querySelectorAll("input")];
  const typed = () => new Event("input", {bubbles: true});
  const fill = (at, value) => { boxes[at].value = value; boxes[at].dispatchEvent(typed()); };
  fill(0, "3"); fill(1, "3");
  said.twice = boxes.map((one) => one.classList.contains("twice"));
  fill(1, "1");
  said.left = puzzle.querySelector(".left").textContent;
  boxes[0].focus();
  boxes[0].dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", bubbles: true, cancelable: true}));
  said.next = document.activeElement === boxes[1];
  const box = document.querySelectorAll("textarea")[1];
  box.value = '{"0": [0, 1]} <b> "ü"'; box.dispatchEvent(new Event("input"));
  const owner = form.elements.name; owner.value = "ann"; owner.dispatchEvent(new Event("input"));
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
  const restored = JSON.parse(localStorage.getItem("answer " + puzzle.dataset.key));
  said.boxes = restored;
  said.fits = document.documentElement.scrollWidth <= window.innerWidth
"""


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 400])
def test_a_browser_keeps_what_is_typed_and_saves_it(width, recipe, browse):
    said = browse(form(recipe, "eval", 2), width, FILL)
    assert said.pop("size") > 200
    assert said == {
        "twice": [True, True, False, False], "left": "left: 0 2", "next": True, "boxes": [["3", "1"], ["", ""]],
        "done": "2 of 4 answered", "file": "answers-ann.json", "type": "application/json", "kept": [True, "ann"],
        "fits": True,
    }  # fmt: skip
