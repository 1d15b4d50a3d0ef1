"""Parts out of datasets made elsewhere."""

import json
import multiprocessing
import os
from io import BytesIO
from pathlib import Path

import datasets
import numpy as np
import pytest
from PIL import Image

from data_mix.conversations import UnusableRow
from data_mix.dataset_files import open_dataset
from data_mix.dataset_source import encoded_images
from data_mix.mixture import Mixture, evaluation_mixture
from data_mix.scan import file_id
from recipes.loader import load_recipe
from recipes.schema import Dataset, Part
from tasks import TASKS

JIGSHAPE = TASKS["jigshape"]
MESSAGES = [
    {"role": "user", "content": [{"type": "image", "text": None}, {"type": "text", "text": "What is this?"}]},
    {"role": "assistant", "content": [{"type": "text", "text": " A cat. "}]},
]


@pytest.fixture
def png(scene):
    """png(number): the bytes of a picture of its own."""

    def encode(number, width=40, height=30):
        file = BytesIO()
        scene(number, width, height).save(file, "PNG")
        return file.getvalue()

    return encode


@pytest.fixture
def saved(tmp_path):
    """saved(columns, **features): the name of a folder with a dataset of these columns in two files."""

    def save(columns, name="elsewhere", **features):
        folder = tmp_path / name
        folder.mkdir()
        rows = datasets.Dataset.from_dict(columns)
        for column, feature in features.items():
            rows = rows.cast_column(column, feature)
        for at in range(min(2, len(rows))):
            rows.shard(min(2, len(rows)), at, contiguous=True).to_parquet(folder / f"train-{at:05d}-of-00002.parquet")
        return str(folder)

    return save


def answer(cells=((1, 0), (0, 0), (1, 1), (0, 1))):
    return json.dumps({str(i): list(cell) for i, cell in enumerate(cells)})


def part(task, name, count, spec=None, **given):
    return {"a": Part(task=task, spec=spec or {}, count=count, dataset={"name": name, **given})}


def theirs(name, count, columns=None, **given):
    columns = {"images": "image", "answer": "response", **(columns or {})}
    return part("jigshape", name, count, {"grid": 2}, columns=columns, **given)


def mixture(parts, photos=None, split="train"):
    return Mixture(parts, photos, split=split, seed=0, shuffle=False)


@pytest.fixture
def sheets(png, saved):
    """Six rows with one image each: 2x2 jigsaws, but row 1, whose answer is none, and row 3, a 3x3."""
    answers = [answer(), "no idea", f"Here: {answer()}", answer(), answer(), None]
    return saved(
        {
            "image": [png(number) for number in range(6)],
            "response": answers,
            "grid_size": [2, 2, 2, 3, 2, 2],
            "source": ["x", "x", "x", "x", "y", "y"],
        },
        image=datasets.Image(),
    )


def test_answers_made_elsewhere_become_puzzles_with_their_own_pixels(sheets, png, scene):
    made = mixture(theirs(sheets, 3, {"grid": "grid_size"}))
    own = JIGSHAPE.pose(JIGSHAPE.Spec(grid=2), FlatPhoto(), 0)
    pixels = [np.array(scene(number, 40, 30)) for number in (0, 2, 4)]
    for index, posed in enumerate(made):
        assert (posed.part, posed.index, posed.split, posed.photo) == ("a", index, "train", None)
        assert posed.puzzle.messages == own.messages
        assert posed.puzzle.image_sizes == ((40, 30),)
        assert posed.puzzle.target["cells"] == [[1, 0], [0, 0], [1, 1], [0, 1]]
        assert json.loads(posed.task.gold(posed.puzzle.target)) == json.loads(answer())
        example = posed.example()
        assert np.array_equal(example.images[0], pixels[index])
        assert example.ambiguous is False
        assert posed.picture([[0, 0]]) is None
    assert [posed.puzzle.photo_id for posed in made] == [file_id(png(number)) for number in (0, 2, 4)]
    assert len({posed.puzzle.key for posed in made}) == 3
    (line,) = made.summary()
    assert line.startswith(f"train part a: 3 rows of {sheets} as puzzles of jigshape; passed over: 1 rows of another")
    assert "1 unusable (row 1: an answer that is none: no_json)" in line


class FlatPhoto:
    id = "flat"
    size = (400, 400)


def test_without_signatures_sc_does_not_apply(sheets):
    target = mixture(theirs(sheets, 1))[0].puzzle.target
    right, wrong = (JIGSHAPE.parse(answer(cells), JIGSHAPE.Spec(grid=2)) for cells in (
        ((1, 0), (0, 0), (1, 1), (0, 1)), ((0, 0), (0, 1), (1, 0), (1, 1)),
    ))  # fmt: skip
    assert JIGSHAPE.score(right, target)["em"] == 1
    assert JIGSHAPE.score(wrong, target)["em"] == 0
    invalid = JIGSHAPE.score(JIGSHAPE.parse("no", JIGSHAPE.Spec(grid=2)), target)
    assert {"sc"}.isdisjoint(JIGSHAPE.score(right, target))
    assert set(invalid) == set(JIGSHAPE.score(right, target))


def test_where_chooses_rows(sheets):
    assert len(mixture(theirs(sheets, 1, where={"source": "y"}))) == 1
    with pytest.raises(ValueError, match=r"got 1 rows for part a .* has 6 \(4 rows of another kind, 0 .* 1 unusable"):
        mixture(theirs(sheets, 2, where={"source": "y"}))


def test_too_few_rows_are_refused_with_their_number(sheets):
    with pytest.raises(ValueError) as caught:
        mixture(theirs(sheets, 5, {"grid": "grid_size"}) | {"b": Part(task="probes", count=1)})
    rows, photos = str(caught.value).splitlines()
    assert rows.startswith(f"got 3 rows for part a from {sheets}, which has 6 (1 rows of another kind, 0 whose photo")
    assert "2 unusable (row 1: an answer that is none: no_json; row 5: no answer)" in rows
    assert rows.endswith("allowed: at least 5; do lower data.parts.a.count to 3, or name a dataset with more such rows")
    assert photos.startswith("got 0 photos for part b")


def test_images_that_are_none_are_passed_over(png, saved):
    broken = [png(0), b"no image", None, png(1)[:20], png(2)]
    name = saved({"image": broken, "response": [answer()] * 5}, image=datasets.Image())
    made = mixture(theirs(name, 2))
    assert [posed.puzzle.photo_id for posed in made] == [file_id(png(0)), file_id(png(2))]
    assert "3 unusable (row 1: an image that is none: no image of a known kind" in made.summary()[0]
    assert "row 2: no image; row 3" in made.summary()[0]


def test_rows_of_held_out_photos_are_dropped_and_counted(folder_of, found, saved):
    folder = folder_of(30)
    photos = found(folder, shares={"eval": 0.3, "test": 0.2})
    files = [file.read_bytes() for file in sorted(folder.iterdir())]
    by_column = {
        "image": [files[0]] * 30,
        "response": [answer()] * 30,
        "photo": [f"{file_id(f)}@1,2,3,4" for f in files],
    }
    by_content = {"image": files, "response": [answer()] * 30}
    for number, (columns, mapped) in enumerate([(by_content, {}), (by_column, {"photo_id": "photo"})]):
        name = saved(columns, f"data{number}", image=datasets.Image())
        trained, evaluated = (
            mixture(theirs(name, 15, mapped), photos, split=split) for split in ("train", "eval")
        )  # fmt: skip
        assert {photos.splits[posed.puzzle.photo_id.partition("@")[0]] for posed in trained} == {"train"}
        assert {photos.splits[posed.puzzle.photo_id.partition("@")[0]] for posed in evaluated} == {"eval", "test"}
        with pytest.raises(ValueError, match=r"got 15 rows .*15 whose photo is in another split"):
            mixture(theirs(name, 16, mapped), photos)


def chat(name, count=1, columns=None, **given):
    return part("chat", name, count, columns=columns or {"images": "images", "messages": "messages"}, **given)


@pytest.mark.parametrize("as_text", [False, True])
def test_a_conversation_is_asked_up_to_its_last_reply(png, saved, as_text):
    messages = [*MESSAGES, {"role": "user", "content": [{"type": "text", "text": "Sure?"}]}, MESSAGES[1]]
    two = [{"role": "user", "content": "<image>\n and <image>?"}, {"role": "assistant", "content": "No."}]
    values = [json.dumps(messages), json.dumps(two)] if as_text else [messages, messages]
    images = [[png(1)], [png(2), png(3, 20, 20)]] if as_text else [[png(1)], [png(2)]]
    made = mixture(chat(saved({"images": images, "messages": values}, images=datasets.List(datasets.Image())), 2))
    first = made[0]
    assert first.puzzle.messages == [
        {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is this?"}]},
        {"role": "assistant", "content": [{"type": "text", "text": " A cat. "}]},
        {"role": "user", "content": [{"type": "text", "text": "Sure?"}]},
    ]
    assert first.task.gold(first.puzzle.target) == "A cat."
    assert first.task.score("A  cat.", first.puzzle.target) == {"match": 1.0, "valid": 1.0}
    if as_text:
        assert made[1].puzzle.image_sizes == ((40, 30), (20, 20))
        assert made[1].puzzle.messages == [
            {"role": "user", "content": [
                {"type": "image"}, {"type": "text", "text": " and "}, {"type": "image"}, {"type": "text", "text": "?"}
            ]}
        ]  # fmt: skip
        assert [image.shape for image in made[1].example().images] == [(30, 40, 3), (20, 20, 3)]


@pytest.mark.parametrize(
    ("turns", "reason"),
    [
        ("no json", "messages that are no JSON"),
        ([], "messages that are no list of turns"),
        ([{"role": "user", "content": "hm"}], "no answer"),
        ([{"role": "assistant", "content": "hm"}], "1 images for 0 places in its messages"),
        ([MESSAGES[0], {"role": "system", "content": "hm"}, MESSAGES[1]], "messages in which no user asks last"),
        ([{"role": "robot", "content": "hm"}], "a turn whose role is 'robot'"),
        ([{"role": "user", "content": 3}], "a turn whose content is neither"),
        ([{"role": "user", "content": [{"type": "video"}]}], "a part of type 'video'"),
        ([{"role": "user", "content": "<image><image>"}, MESSAGES[1]], "1 images for 2 places"),
        ([MESSAGES[0], {"role": "assistant", "content": " "}], "an answer that is none: empty"),
        ([{"role": "user", "content": "?"}, {**MESSAGES[0], "role": "assistant"}], "an image in the reply"),
    ],
)  # fmt: skip
def test_a_conversation_that_does_not_serve_is_passed_over(png, saved, turns, reason):
    texts = [turns if isinstance(turns, str) else json.dumps(turns), json.dumps(MESSAGES)]
    columns = {"images": [[png(0)], [png(1)]], "messages": texts}
    made = mixture(chat(saved(columns, images=datasets.List(datasets.Image()))))
    assert made[0].puzzle.photo_id == file_id(png(1))
    assert f"1 unusable (row 0: {reason}" in made.summary()[0]


def test_a_broken_row_of_ours_is_passed_over(png, tmp_path):
    puzzle = JIGSHAPE.pose(JIGSHAPE.Spec(grid=2), FlatPhoto(), 1)
    whole = {
        "key": puzzle.key, "task": "jigshape", "version": puzzle.version, "photo_id": "flat", "seed": 1,
        "spec": puzzle.spec.model_dump_json(), "messages": json.dumps(puzzle.messages), "images": [png(0)],
        "target": json.dumps(puzzle.target), "ambiguous": False,
    }  # fmt: skip
    broken = [{"spec": "{"}, {"spec": None}, {"target": "{}"}, {"messages": None}, {"images": []}, {"images": [b"?"]}]
    rows = datasets.Dataset.from_list([*({**whole, **part} for part in broken), whole])
    (tmp_path / "ours").mkdir()
    rows.cast_column("images", datasets.List(datasets.Image())).to_parquet(tmp_path / "ours" / "rows.parquet")
    made = mixture(part("jigshape", str(tmp_path / "ours"), 1, {"grid": 2}))
    assert made[0].puzzle.target == puzzle.target
    assert (
        "0 rows of another kind, 0 whose photo is in another split, 6 unusable (row 0: no puzzle" in made.summary()[0]
    )


def test_a_prompt_of_their_own_is_asked(png, saved):
    name = saved({"image": [png(0)], "response": [answer()], "ask": ["Solve this."]}, image=datasets.Image())
    made = mixture(theirs(name, 1, {"prompt": "ask"}))
    content = [{"type": "image"}, {"type": "text", "text": "Solve this."}]
    assert made[0].puzzle.messages == [{"role": "user", "content": content}]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (
            {"images": "picture", "answer": "response"},
            "data.parts.a.dataset.columns.images: got a column picture that is not there; allowed: images, out of "
            "image, response, grid_size, source; do set",
        ),
        ({"images": "response", "answer": "response"}, "columns.images: got a column response that holds string; allo"),
        (
            {"images": "image"},
            "columns.answer: got nothing; allowed: one of image, response, .*columns.answer, or .mes",
        ),
        (
            {"images": "image", "answer": "grid_size"},
            "columns.answer: got a column grid_size that holds int64; allowed",
        ),
        (
            {"images": "image", "answer": "response", "grid": "source"},
            "columns.grid: got a column source that holds string; allowed: a whole number",
        ),
        (
            {"images": "image", "messages": "image"},
            "columns.messages: got a column image that holds Image; allowed: con",
        ),
        (None, "columns.images: got a column images that is not there"),
    ],
)
def test_columns_that_do_not_serve_are_told_with_the_entry_to_set(sheets, columns, said):
    with pytest.raises(ValueError, match=said):
        mixture(part("jigshape", sheets, 1, {"grid": 2}, columns=columns or {}))


@pytest.mark.parametrize(
    ("where", "said"),
    [({"sauce": "x"}, "where.sauce: got a column that is not there"), ({"source": 1}, "where.source: .*holds string")],
)
def test_where_must_name_columns_and_values_of_their_type(sheets, where, said):
    with pytest.raises(ValueError, match=said):
        mixture(theirs(sheets, 1, where=where))


def test_a_chat_needs_what_was_asked(png, saved):
    name = saved({"images": [png(0)], "text": ["hm"]}, images=datasets.Image())
    with pytest.raises(ValueError, match=r"columns: got neither messages nor prompt; allowed: .*chat has no prompt"):
        mixture(chat(name, columns={"answer": "text"}))


def test_a_task_that_makes_no_target_of_an_answer_takes_only_our_datasets(sheets):
    with pytest.raises(ValueError, match="got a dataset made elsewhere for task probes; allowed: one of ours"):
        mixture(part("probes", sheets, 1, columns={"images": "image", "answer": "response"}))


def test_a_dataset_that_is_not_there_is_refused(tmp_path, sheets):
    (tmp_path / "empty").mkdir()
    for name, said in [
        (str(tmp_path / "none"), "a.dataset.name: got .*none, which is no folder; allowed"),
        ("someone/something", "name: got someone/something, which is no folder here and cannot be had from the hub"),
        (str(tmp_path / "empty"), "a folder that cannot be read as a dataset"),
    ]:
        with pytest.raises(ValueError, match=said):
            mixture(theirs(name, 1))
    with pytest.raises(ValueError, match="split: got test; allowed: train; do set"):
        mixture(theirs(sheets, 1, split="test"))
    with pytest.raises(ValueError, match="revision: got main of the folder"):
        mixture(theirs(sheets, 1, revision="main"))


def test_a_broken_file_is_named(sheets, tmp_path):
    file = tmp_path / "elsewhere" / "train-00001-of-00002.parquet"
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(ValueError, match=r"a dataset with a broken file, .*train-00001-of-00002.parquet"):
        mixture(theirs(sheets, 1))


def test_a_folder_written_by_save_to_disk_is_read(png, tmp_path):
    rows = datasets.Dataset.from_dict({"image": [png(0)], "response": [answer()]}).cast_column(
        "image", datasets.Image()
    )
    rows.save_to_disk(tmp_path / "one")
    datasets.DatasetDict({"train": rows, "held": rows}).save_to_disk(tmp_path / "two")
    assert len(mixture(theirs(str(tmp_path / "one"), 1))) == 1
    assert len(mixture(theirs(str(tmp_path / "two"), 1, split="held"))) == 1
    with pytest.raises(ValueError, match=r"split: got nothing; allowed: train \| held"):
        mixture(theirs(str(tmp_path / "two"), 1))


def test_workers_read_the_same_rows(sheets):
    made = mixture(theirs(sheets, 2))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.starmap(read, [(made, 0), (made, 1)]) == [read(made, 0), read(made, 1)]


def read(made, position):
    posed = made[position]
    return posed.puzzle.key, posed.example().images[0].tobytes()


def test_rows_that_are_trained_on_are_not_evaluated_by_themselves(sheets):
    columns = f"dataset: {{name: {sheets}, columns: {{images: image, answer: response}}}}"
    recipe = load_recipe(
        ["recipe=quickstart", f"data.parts.rows={{task: jigshape, spec: {{grid: 2}}, count: 2, {columns}}}",
         "data.parts.2x2=null", "eval.require=null"]
    )  # fmt: skip
    assert len(evaluation_mixture(recipe, None, 3)) == 0
    held = recipe.eval.model_copy(update={"parts": recipe.data.parts})
    with pytest.raises(ValueError, match=r"got 2 rows .* 2 whose photo is in another split"):
        evaluation_mixture(recipe.model_copy(update={"eval": held}), None, 3)


def test_a_folder_of_images_with_their_answers_is_read(png, tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    rows = [{"file_name": f"{number}.png", "response": answer()} for number in range(3)]
    (folder / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for number in range(3):
        (folder / f"{number}.png").write_bytes(png(number))
    name = str(folder)
    assert [posed.puzzle.photo_id for posed in mixture(theirs(name, 3))] == [
        file_id(png(number)) for number in range(3)
    ]
    opened = open_dataset(Dataset(name=name), "here")
    (folder / "1.png").unlink()
    with pytest.raises(UnusableRow, match=r"an image whose file .*1\.png is none"):
        encoded_images(opened.select_columns(["image"]).with_format("arrow"), 1)


def test_an_image_whose_pixels_are_broken_is_passed_over_at_the_start(png, saved):
    images = [png(0)[:-200], png(1), png(2)]
    name = saved({"image": images, "response": [answer()] * 3}, image=datasets.Image())
    made = mixture(theirs(name, 2))
    assert [posed.puzzle.photo_id for posed in made] == [file_id(png(1)), file_id(png(2))]
    assert "1 unusable (row 0: an image that is none" in made.summary()[0]


def test_an_image_path_that_is_no_file_is_not_opened(saved, tmp_path, png):
    os.mkfifo(tmp_path / "pipe")
    images = [
        {"bytes": None, "path": "/dev/zero"},
        {"bytes": None, "path": str(tmp_path / "pipe")},
        {"bytes": png(0), "path": None},
    ]
    name = saved({"image": images, "response": [answer()] * 3}, image=datasets.Image())
    assert "2 unusable (row 0: an image whose file /dev/zero is none" in mixture(theirs(name, 1)).summary()[0]


@pytest.mark.parametrize("text", ["[" * 200_000, json.dumps([{"role": "user", "content": "half \ud800"}])])
def test_texts_that_no_reader_or_tokenizer_takes_are_passed_over(saved, png, text):
    rows = {"images": [png(0), png(1)], "messages": [text, json.dumps(MESSAGES)]}
    made = mixture(chat(saved(rows, images=datasets.Image())))
    assert "1 unusable" in made.summary()[0]


@pytest.mark.parametrize(
    "files", ["hf://datasets/a/b/x.parquet", "https://example.org/x.parquet", "../other/*.parquet"]
)
def test_a_card_may_not_name_data_outside_its_folder(sheets, files):
    card = f"---\nconfigs:\n- config_name: default\n  data_files: '{files}'\n---\n# A card\n"
    Path(sheets, "README.md").write_text(card, encoding="utf-8")
    with pytest.raises(ValueError, match=r"whose card names .*; allowed: files below the folder"):
        mixture(theirs(sheets, 1))


def test_transparent_images_are_laid_on_white(saved):
    file = BytesIO()
    Image.new("RGBA", (8, 8), (0, 0, 0, 0)).save(file, "PNG")
    name = saved({"image": [file.getvalue()] * 2, "response": [answer()] * 2}, image=datasets.Image())
    assert (mixture(theirs(name, 1))[0].example().images[0] == 255).all()
