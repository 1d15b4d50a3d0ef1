"""Records in pandas and datasets, mixed parts and any text among them."""

import csv
import json

import datasets
import pandas
import pytest

from eval_hooks.records import Record, printable, score_completion, write_records
from eval_hooks.tabulate import main, tabulate

HOSTILE = "\ud800=\x00\r\n\x1b[31m,\"'\t{" + "é中"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.fixture
def records(mixture_of, completion_of):
    """Answers of two tasks: right, wrong and invalid ones, a big seed."""
    mixture = mixture_of(3)
    posed = [mixture[index] for index in range(len(mixture))]
    texts = [p.task.gold(p.puzzle.target) if p.index == 0 else "=1+1" if p.index == 1 else HOSTILE for p in posed]
    scored = [
        score_completion(one, completion_of(text), model="m", step=None if one.index else 25)
        for one, text in zip(posed, texts, strict=True)
    ]
    assert len({type(record.answer) for record in scored}) > 1
    assert len({tuple(record.spec) for record in scored}) > 1
    return scored


def test_a_table_of_mixed_parts_loads_in_pandas_and_datasets(records, tmp_path, capsys):
    run = tmp_path / "run"
    write_records(run / "records/step-000025.jsonl", records[:3])
    write_records(run / "records/final.jsonl", records[3:])
    write_records(run / "seen/process-0.jsonl", [])
    for name in ("table.parquet", "table.csv"):
        assert main([f"records={run}", f"out={tmp_path / name}"]) == 0
    assert f"{len(records)} answers of 2 files" in capsys.readouterr().out
    frame = pandas.read_parquet(tmp_path / "table.parquet")
    rows = datasets.load_dataset("parquet", data_files=str(tmp_path / "table.parquet"))["train"]
    of_csv = pandas.read_csv(tmp_path / "table.csv")
    ordered = [*records[3:], *records[:3]]
    assert list(frame["file"]) == ["records/final.jsonl"] * (len(records) - 3) + ["records/step-000025.jsonl"] * 3
    assert list(of_csv.columns) == list(frame.columns) == rows.column_names
    for table in (frame.to_dict("records"), rows.to_list(), of_csv.to_dict("records")):
        assert [row["key"] for row in table] == [record.key for record in ordered]
        for row, record in zip(table, ordered, strict=True):
            assert row["seed"] == record.seed
            assert json.loads(row["spec"]) == record.spec
            assert json.loads(row["target"]) == record.target
            found = {name.removeprefix("scores."): row[name] for name in row if name.startswith("scores.")}
            assert {entry: value for entry, value in found.items() if not pandas.isna(value)} == record.scores
            if record.answer is None:
                assert pandas.isna(row["answer"])
            else:
                assert json.loads(row["answer"]) == record.answer
    assert list(frame["text"]) == rows["text"][:] == [printable(record.text) for record in ordered]


def test_no_text_breaks_a_line_of_csv_or_is_a_formula_in_it(records, tmp_path):
    write_records(tmp_path / "a.jsonl", records)
    assert main([f"records={tmp_path / 'a.jsonl'}", f"out={tmp_path / 'table.csv'}"]) == 0
    with (tmp_path / "table.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(records)
    assert {row["text"] for row in rows if row["text"].endswith("1+1")} == {"'=1+1"}
    assert all(row["invalid"] for row in rows if "\\ud800" in row["text"])


def test_a_file_of_one_evaluation_loads_directly_too(records, tmp_path):
    plain = [record for record in records if record.text != HOSTILE]
    path = tmp_path / "records.jsonl"
    write_records(path, plain)
    rows = datasets.load_dataset("json", data_files=str(path))["train"]
    frame = pandas.read_json(path, lines=True)
    assert rows["key"][:] == list(frame["key"]) == [record.key for record in plain]
    assert list(frame["scores"]) == [record.scores for record in plain]
    assert rows["text"][:] == list(frame["text"]) == [record.text for record in plain]


def test_seeds_and_scores_keep_their_values(records):
    big = [Record(**{**vars(record), "seed": 2**64 - 1 - place}) for place, record in enumerate(records)]
    table = tabulate([("a", big)])
    assert table.column("seed").to_pylist() == [record.seed for record in big]
    with pytest.raises(ValueError, match=r"seed: got .*uint64"):
        tabulate([("a", [Record(**{**vars(records[0]), "seed": 2**64})])])


def test_a_damaged_file_is_named_and_the_others_are_in_the_table(records, tmp_path, capsys):
    write_records(tmp_path / "good/records/final.jsonl", records)
    bad = tmp_path / "bad/records/final.jsonl"
    bad.parent.mkdir(parents=True)
    bad.write_text("{}\n")
    assert main([f"records={tmp_path}", f"out={tmp_path / 'table.parquet'}"]) == 1
    said = capsys.readouterr().out
    assert f"left out: {bad}, line 1: got a line that is no record" in said
    assert f"{len(records)} answers of 1 files" in said
    assert list(pandas.read_parquet(tmp_path / "table.parquet")["key"]) == [record.key for record in records]


def test_what_is_no_file_of_records_or_no_table_is_refused(records, tmp_path, capsys):
    assert main([f"records={tmp_path}", f"out={tmp_path / 'table.xlsx'}"]) == 2
    assert "FILE.parquet or FILE.csv" in capsys.readouterr().err
    assert main([f"records={tmp_path}", f"out={tmp_path / 'table.csv'}"]) == 2
    assert "which is no file and holds none" in capsys.readouterr().err
    (tmp_path / "bad.jsonl").write_text("{}\n")
    assert main([f"records={tmp_path / 'bad.jsonl'}", f"out={tmp_path / 'table.csv'}"]) == 2
    assert "line 1: got a line that is no record" in capsys.readouterr().err
    assert not (tmp_path / "table.csv").exists()
