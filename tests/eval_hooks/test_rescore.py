"""Stored answers scored again: what changed is told, what cannot be read is left out, the old file stays."""

import dataclasses

import pytest
import skimage.data
from PIL import Image

from data_mix.mixture import Posed
from eval_hooks.records import read_records, score_completion, write_records
from eval_hooks.rescore import main, rescore, scored_again, table
from tasks import TASKS, Invalid
from tasks.photo import as_photo

SPECS = {
    "jigshape": {"grid": 2, "piece_px": 24, "tab_ratio": 0.3},
    "probes": {"kind": "grid_missing"},
    "piece_edges": {"puzzle": {"grid": 2, "piece_px": 24, "tab_ratio": 0.3}},
    "piece_cell": {"puzzle": {"grid": 2, "piece_px": 24, "tab_ratio": 0.3}},
}
JUNK = [None, [], {}, "x", 7, -1, 0.5, [[]], [None] * 4, [[0, 0]] * 4, {"cells": 3}]


@pytest.fixture
def records_of(completion_of):
    """`records_of(task, *texts)`: a record of each; None stands for the reference answer."""
    photo = as_photo(Image.fromarray(skimage.data.astronaut()))

    def build(name, *texts, part="a", spec=None):
        task = TASKS[name]
        records = []
        for index, text in enumerate(texts):
            puzzle = task.pose(task.Spec(**spec or SPECS[name]), photo, index)
            posed = Posed(part=part, split="eval", index=index, puzzle=puzzle, photo=None)
            said = task.gold(puzzle.target) if text is None else text
            records.append(score_completion(posed, completion_of(said), model="m", step=3))
        return records

    return build


@pytest.mark.parametrize("name", SPECS)
def test_what_todays_task_scored_is_scored_alike(name, records_of):
    records = records_of(name, None, "no idea", "", None)
    assert [scored_again(record) for record in records] == records


def test_an_answer_that_is_read_otherwise_changes_and_what_was_asked_stays(records_of):
    (now,) = records_of("jigshape", None)
    old = dataclasses.replace(now, version=1, answer=None, invalid="no_json", scores={"pa": 0.0})
    again = scored_again(old)
    assert again == now
    assert (again.key, again.prompt_hash, again.text) == (old.key, old.prompt_hash, old.text)


def test_old_and_new_stand_side_by_side_with_examples(records_of):
    good, bad, same = records_of("jigshape", None, "no", "no")
    old = [
        dataclasses.replace(good, answer=None, invalid="malformed", scores=dict.fromkeys(good.scores, 0.0)),
        dataclasses.replace(bad, invalid=None, answer=good.answer, scores=dict.fromkeys(bad.scores, 1.0)),
        dataclasses.replace(same, scores={"valid": 0.0}),
    ]
    lines = table(rescore(old)).splitlines()
    assert lines[0].split() == ["n", "entry", "old", "new", "validity", "answer", "scores"]
    assert lines[1].split() == ["a", "3", "pa", "50.0", "33.3", "2", "2", "3"]  # the third had no pa
    assert lines[2] == f"  a {good.key} sample 0: malformed, pa 0.0 -> valid, pa 100.0"
    assert lines[3] == f"  a {bad.key} sample 0: valid, pa 100.0 -> no_json, pa 0.0"
    assert len(table(rescore(old), examples=1).splitlines()) == 3


@pytest.mark.parametrize("name", SPECS)
def test_no_target_however_it_is_formed_stops_the_others(name, records_of):
    (whole,) = records_of(name, None)
    targets = [{}, *({k: v for k, v in whole.target.items() if k != left_out} for left_out in whole.target)]
    targets += [whole.target | {key: junk} for key in whole.target for junk in JUNK]
    found = rescore([dataclasses.replace(whole, target=target) for target in targets])
    refused = [record for records in found.refused.values() for record in records]
    assert len(refused) + len(found.changes) == len(targets)
    assert {} in [record.target for record in refused]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"task": "jigshap"}, "task: got jigshap; allowed: jigshape, "),
        ({"spec": {"grid": 2, "knobs": 1}}, "spec: got one of version 1 that jigshape version 2 cannot read"),
        (
            {"target": {"grid": 2}},
            "target: got one of version 1 that jigshape version 2 cannot read (KeyError: 'cells')",
        ),
        ({"spec": {"grid": 3}}, "its own reference answer is not right"),
    ],
)
def test_what_today_cannot_read_is_told_and_in_no_file(change, said, records_of, tmp_path, capsys):
    fine, other = (dataclasses.replace(record, version=1) for record in records_of("jigshape", None, None))
    file = tmp_path / "r.jsonl"
    write_records(file, [fine, dataclasses.replace(other, **change)])
    assert main([f"records={file}"]) == 1
    out = capsys.readouterr().out
    assert said in out
    assert f"left out: 1 records, the first part a, {other.key}" in out
    (kept,) = read_records(tmp_path / "r-rescored-v2.jsonl").records
    assert kept.key == fine.key


def test_the_new_file_stands_beside_the_old_one_which_stays(records_of, tmp_path, capsys):
    records = records_of("jigshape", None, "no")
    file = tmp_path / "r.jsonl"
    write_records(file, [dataclasses.replace(record, version=1) for record in records])
    before = file.read_bytes()
    assert main([f"records={file}"]) == 0
    assert read_records(tmp_path / "r-rescored-v2.jsonl").records == records
    assert "(0 of 2 records changed)" in capsys.readouterr().out
    assert file.read_bytes() == before


def test_a_scorer_that_fails_is_not_taken_for_a_target_that_cannot_be_read(records_of, monkeypatch):
    task = TASKS["jigshape"]
    records = records_of("jigshape", "no")

    def fails_for_invalid(answer, target):
        if isinstance(answer, Invalid):
            raise ValueError("a bug")
        return task.score(answer, target)

    monkeypatch.setitem(TASKS, "jigshape", dataclasses.replace(task, score=fails_for_invalid))
    with pytest.raises(ValueError, match="a bug"):
        rescore(records)


def test_where_nothing_changed_nothing_is_written(records_of, tmp_path, capsys):
    write_records(tmp_path / "r.jsonl", records_of("jigshape", None, "no"))
    assert main([f"records={tmp_path / 'r.jsonl'}"]) == 0
    assert "nothing changed, and the versions are today's: nothing is written" in capsys.readouterr().out
    assert [file.name for file in tmp_path.iterdir()] == ["r.jsonl"]


def test_a_change_without_a_new_version_is_told(records_of, tmp_path, capsys):
    (record,) = records_of("jigshape", None)
    write_records(tmp_path / "r.jsonl", [dataclasses.replace(record, scores=record.scores | {"aa": 0.5})])
    assert main([f"records={tmp_path / 'r.jsonl'}"]) == 0
    assert "1 records changed though the version of their task did not" in capsys.readouterr().out


def test_a_file_of_several_tasks_is_named_after_all_versions(records_of, tmp_path):
    records = [*records_of("jigshape", None), *records_of("probes", None, part="b")]
    write_records(tmp_path / "r.jsonl", [dataclasses.replace(records[0], version=1), records[1]])
    assert main([f"records={tmp_path / 'r.jsonl'}"]) == 0
    assert read_records(tmp_path / "r-rescored-v1-2.jsonl").records == records


def test_all_records_below_a_folder_are_scored_again_and_what_is_none_is_named(records_of, tmp_path, capsys):
    old = [dataclasses.replace(record, version=1) for record in records_of("jigshape", None)]
    for run in "ab":
        write_records(tmp_path / run / "records" / "final.jsonl", old)
    (tmp_path / "b" / "records" / "other.jsonl").write_text("{}\n", encoding="utf-8")
    for _ in range(2):
        assert main([f"records={tmp_path}"]) == 1
        said = capsys.readouterr().out
        assert "other.jsonl\nleft out: " in said
        assert said.count("written: ") == 2
        names = sorted(file.relative_to(tmp_path).as_posix() for file in tmp_path.rglob("*-rescored-*"))
        assert names == ["a/records/final-rescored-v2.jsonl", "b/records/final-rescored-v2.jsonl"]


def test_an_unfinished_last_line_is_told(records_of, tmp_path, capsys):
    file = tmp_path / "r.jsonl"
    write_records(file, records_of("jigshape", None))
    with file.open("a", encoding="ascii") as opened:
        opened.write('{"key": "jig')
    assert main([f"records={file}"]) == 0
    assert "its last line of 12 bytes is unfinished, and left out" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["records={}/r.jsonl", "out={}/r.jsonl"], "allowed: another file than the records"),
        (["records={}/no.jsonl"], "do name one that exists"),
        (["records={}", "out=x"], "allowed: nothing for a folder"),
        (["recods={}"], "did you mean records?"),
        (["records={}/r.jsonl", "examples=none"], "examples: got"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_written(words, said, records_of, tmp_path, capsys):
    write_records(tmp_path / "r.jsonl", records_of("jigshape", None))
    before = (tmp_path / "r.jsonl").read_bytes()
    assert main([word.format(tmp_path) for word in words]) == 2
    assert said in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["r.jsonl"]
    assert (tmp_path / "r.jsonl").read_bytes() == before
