"""A recipe's puzzles as a dataset on disk, and back."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import datasets
import numpy as np
import pyarrow.parquet as pq
import pytest

import tasks
from data_mix.dataset_rows import OUR_COLUMNS
from data_mix.export.command import main, mixture_of, parse_request
from data_mix.export.plan import export_folder
from data_mix.mixture import Mixture
from recipes.loader import RecipeError
from recipes.schema import Part


def run(*tokens: str) -> int:
    return main([*tokens, "workers=1"])


def rows_in(folder: Path) -> list[dict]:
    """All columns of all shards, images as the bytes of their files."""
    return [row for file in sorted((folder / "data").glob("*.parquet")) for row in pq.read_table(file).to_pylist()]


def test_the_training_split_is_the_mixture_in_its_order_pixel_for_pixel(asked, tmp_path):
    command = asked("split=train", "out=out", "shard=7")
    mixture, _ = mixture_of(parse_request(command))
    assert run(*command) == 0
    names = sorted(file.name for file in (tmp_path / "out" / "data").iterdir())
    assert names == [f"train-{at:05d}-of-00003.parquet" for at in range(3)]
    loaded = datasets.load_dataset(str(tmp_path / "out"))
    assert list(loaded) == ["train"]
    rows = loaded["train"]
    assert tuple(rows.column_names) == OUR_COLUMNS
    assert len(rows) == len(mixture) == 18
    for row, posed in zip(rows, mixture, strict=True):
        puzzle, example = posed.puzzle, posed.example()
        assert row["key"] == puzzle.key
        assert (row["task"], row["version"], row["part"]) == (puzzle.task, puzzle.version, posed.part)
        assert (row["split"], row["index"]) == ("train", posed.index)
        assert (row["photo_id"], row["seed"]) == (puzzle.photo_id, puzzle.seed)
        assert posed.task.Spec(**json.loads(row["spec"])) == puzzle.spec
        assert json.loads(row["messages"]) == puzzle.messages
        assert json.loads(row["target"]) == puzzle.target
        assert row["answer"] == posed.task.gold(puzzle.target)
        assert json.loads(row["signatures"] or "null") == puzzle.target.get("signatures")
        assert row["ambiguous"] is example.ambiguous
        assert [image.format for image in row["images"]] == ["PNG"] * len(example.images)
        assert all(np.array_equal(np.array(a), b) for a, b in zip(row["images"], example.images, strict=True))


def test_the_held_out_splits_come_part_after_part(asked, tmp_path):
    for split in ("eval", "test"):
        assert run(*asked(f"split={split}", "count=2", "data.photos.shares={eval: 0.2, test: 0.2}")) == 0
        rows = datasets.load_dataset(str(tmp_path / f"datasets/quickstart-{split}"), split=split)
        assert [(part, index) for part, index in zip(rows["part"], rows["index"], strict=True)] == [
            (part, index) for part in ("2x2", "probe", "plain") for index in (0, 1)
        ]
        assert set(rows["split"]) == {split}
    assert parse_request(asked("split=eval", "eval.final_count=3")).count is None
    assert len(mixture_of(parse_request(asked("split=eval", "eval.final_count=1")))[0]) == 3


def test_card_and_summary_say_what_the_folder_holds(asked, tmp_path, capsys):
    assert run(*asked("split=train", "out=out")) == 0
    card = (tmp_path / "out/README.md").read_text(encoding="utf-8")
    assert "# quickstart, train" in card
    assert "18 rows" in card
    assert "| plain | jigshape | 5 | 0.00 % |" in card
    assert "paired_with: 2x2" in card
    assert "task probes 1" in card
    assert "Rights of the photos" in card
    assert re.search(
        r"out: 18 rows \(2x2 7, probe 6, plain 5\), 0\.00 % ambiguous, \d+\.\d MB", capsys.readouterr().out
    )


def test_an_exported_dataset_is_a_part_of_ours(asked, tmp_path, found):
    assert run(*asked("split=train", "out=out", "shard=5")) == 0
    posed_there = {posed.puzzle.key: posed for posed in mixture_of(parse_request(asked("split=train")))[0]}
    rows = {"name": str(tmp_path / "out")}
    parts = {
        "plain": Part(task="jigshape", spec={"grid": 2, "shape": False}, count=5, dataset=rows),
        "some": Part(task="jigshape", spec={"grid": 2}, count=3, dataset={**rows, "where": {"part": "2x2"}}),
        "probe": Part(task="probes", spec={}, count=6, dataset=rows),
    }
    mixture = Mixture(parts, None, split="train", seed=9, shuffle=False)
    assert [(posed.part, posed.index) for posed in mixture] == [
        (name, index) for name, count in (("plain", 5), ("some", 3), ("probe", 6)) for index in range(count)
    ]
    for posed in mixture:
        there = posed_there[posed.puzzle.key]
        assert posed.puzzle == there.puzzle
        assert posed.puzzle.spec.model_dump() == there.puzzle.spec.model_dump()
        assert there.part == {"some": "2x2"}.get(posed.part, posed.part)
        mine, other = posed.example(), there.example()
        assert all(np.array_equal(a, b) for a, b in zip(mine.images, other.images, strict=True))
    with pytest.raises(ValueError, match=r"got 0 rows for part a .*has 18 \(18 rows of another kind"):
        Mixture({"a": Part(task="jigshape", spec={"grid": 3}, count=1, dataset=rows)}, None, split="train", seed=0)


def test_rows_of_another_version_are_refused(asked, tmp_path, monkeypatch):
    assert run(*asked("split=train", "out=out")) == 0
    monkeypatch.setitem(tasks.TASKS, "probes", replace(tasks.TASKS["probes"], version=99))
    part = Part(task="probes", count=1, dataset={"name": str(tmp_path / "out")})
    with pytest.raises(ValueError, match="got rows of version 1 of task probes; allowed: version 99"):
        Mixture({"a": part}, None, split="train", seed=0)


def test_photos_that_are_held_out_here_are_dropped_from_our_datasets(asked, tmp_path, found):
    assert run(*asked("split=train", "out=out", "data.photos.shares={eval: 0, test: 0}")) == 0
    anew = found(tmp_path / "photos", index=str(tmp_path / "other.jsonl"), shares={"eval": 0.5, "test": 0})
    part = Part(task="probes", count=1, dataset={"name": str(tmp_path / "out")})
    ids = [row["photo_id"] for row in rows_in(tmp_path / "out") if row["task"] == "probes"]
    num_free = sum(anew.splits[id_] == "train" for id_ in ids)
    assert 0 < num_free < 6
    assert len(Mixture({"a": part.model_copy(update={"count": num_free})}, anew, split="train", seed=0)) == num_free
    with pytest.raises(ValueError, match=rf"got {num_free} rows .* {6 - num_free} whose photo is in another split"):
        Mixture({"a": part.model_copy(update={"count": 6})}, anew, split="train", seed=0)


def test_a_dataset_part_is_exported_like_any_other(asked, tmp_path):
    assert run(*asked("split=train", "out=one")) == 0
    part = f"{{task: jigshape, spec: {{grid: 2}}, count: 12, dataset: {{name: {tmp_path / 'one'}}}}}"
    assert run(*asked("split=train", "out=two", f"data.parts={{a: {part}}}", "data.parts.2x2=null",
                      "data.parts.probe=null", "data.parts.plain=null")) == 0  # fmt: skip
    kept = ("key", "messages", "images", "target", "answer", "signatures")
    once, twice = (
        {row["key"]: [row[name] for name in kept] for row in rows_in(tmp_path / name) if row["task"] == "jigshape"}
        for name in ("one", "two")
    )
    assert once == twice
    assert len(twice) == 12


def test_a_second_call_makes_only_what_is_missing_or_broken(asked, tmp_path, capsys):
    command = asked("split=train", "out=out", "shard=4")
    assert run(*command) == 0
    shards = sorted((tmp_path / "out/data").iterdir())
    before = [(shard.read_bytes(), shard.stat().st_mtime_ns) for shard in shards]
    capsys.readouterr()
    shards[0].unlink()
    shards[1].write_bytes(before[1][0][:-9])
    shutil.copy(shards[4], shards[2])
    assert run(*command) == 0
    said = capsys.readouterr().out
    assert "10 of 18 rows" not in said
    assert "out: 6 of 18 rows are there already" in said
    assert re.search(r"train-00001-of-00005.parquet: broken \(.+\); it is made again", said)
    assert "train-00002-of-00005.parquet: broken (2 rows instead of 4); it is made again" in said
    after = [(shard.read_bytes(), shard.stat().st_mtime_ns) for shard in shards]
    assert [content for content, _ in after] == [content for content, _ in before]
    assert after[3:] == before[3:]
    assert run(*command) == 0
    assert [shard.stat().st_mtime_ns for shard in shards] == [time for _, time in after]


@pytest.fixture
def pinned(asked, tmp_path) -> Callable[..., None]:
    """pinned(*tokens): open the folder out for an export of this command line, and write nothing."""

    def pin(*tokens: str) -> None:
        request = parse_request(asked("out=out", *tokens))
        with export_folder(request.out, mixture_of(request)[1]):
            pass

    return pin


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (["seed=5"], "recipe.seed: 0 there, 5 asked for"),
        (["data.parts.probe.spec.cell_px=18"], "recipe.parts.probe.spec.cell_px: 16 there, 18 asked for"),
        (["data.parts.2x2.count=6"], "counts.2x2: 7 there, 6 asked for"),
        (["data.parts.plain=null"], 'recipe.parts.plain.task: "jigshape" there, absent asked for'),
        (["shard=5"], "which holds another export (another number of rows to a shard)"),
        (["data.photos.use=reuse"], 'recipe.photos.use: "distinct" there, "reuse" asked for'),
        (["split=eval", "eval.final_count=1"], 'split: "train" there, "eval" asked for'),
    ],
)
def test_another_recipe_in_the_same_folder_is_refused_with_the_difference(pinned, changed, said):
    pinned("split=train")
    with pytest.raises(ValueError, match="out: got out, which holds another export") as caught:
        pinned(*(changed if "split=eval" in changed else ["split=train", *changed]))
    assert said in str(caught.value)
    pinned("split=train")


def test_other_versions_in_the_same_folder_are_refused(pinned, monkeypatch):
    pinned("split=train")
    monkeypatch.setitem(tasks.TASKS, "probes", replace(tasks.TASKS["probes"], version=99))
    with pytest.raises(ValueError, match=r"versions\.tasks\.probes: 1 there, 99 asked for"):
        pinned("split=train")


def test_what_decides_no_row_may_change(pinned):
    pinned("split=train")
    pinned("split=train", "data.photos.cache_mb=0", "train.micro_batch=1", "name=other")


def test_other_photos_in_the_same_folder_are_refused(pinned, tmp_path):
    pinned("split=train")
    for file in sorted((tmp_path / "photos").iterdir())[:5]:
        file.unlink()
    with pytest.raises(ValueError, match="2x2: other photos or rows than there were; probe: other photos"):
        pinned("split=train")


def test_a_folder_of_something_else_is_refused(pinned, tmp_path):
    (tmp_path / "out").write_text("mine", encoding="utf-8")
    with pytest.raises(ValueError, match="out: got out, a file; allowed: a folder"):
        pinned("split=train")
    (tmp_path / "out").unlink()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/diary.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(ValueError, match=r"out: got out, which holds diary\.txt and no manifest\.json; allowed"):
        pinned("split=train")
    (tmp_path / "out/manifest.json").write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match="a manifest that can be read"):
        pinned("split=train")


def test_every_problem_of_a_command_line_is_told_at_once(asked):
    with pytest.raises(RecipeError) as caught:
        parse_request(asked("split=trane", "shard=0", "workers=x", "out=", "seed=-1", "count=1", "count=2"))
    assert [line.split(":")[0] for line in caught.value.problems] == [
        "out",
        "count",
        "split",
        "workers",
        "shard",
        "seed",
    ]
    with pytest.raises(RecipeError, match="count: got 3; allowed: nothing with split=train; do remove it"):
        parse_request(asked("split=train", "count=3"))
    with pytest.raises(RecipeError, match=r"split: got nothing; allowed: train \| eval \| test; do write split=train"):
        parse_request(asked())


def test_a_split_without_puzzles_is_refused(asked, capsys):
    assert run(*asked("split=eval", "eval.final_count=0")) == 2
    assert "split: got eval without puzzles" in capsys.readouterr().err


def test_the_hub_is_asked_before_anything_is_written_and_a_failure_is_clear(asked, tmp_path, capsys):
    for name, said in [("me/mine", "push_to: got me/mine, but the hub cannot be used"), ("mine", "push_to=USER/mine"),
                       ("a/b/c", "push_to: got a/b/c; allowed: USER/NAME")]:  # fmt: skip
        assert run(*asked("split=train", "out=out", f"push_to={name}")) == 2
        assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_help_is_no_error(capsys):
    assert main(["--help"]) == 0
    assert "split=train|eval|test" in capsys.readouterr().out
