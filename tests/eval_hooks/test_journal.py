"""Records that are written as they come."""

import dataclasses

import pytest

from eval_hooks.journal import Journal
from eval_hooks.records import read_records, score_completion


@pytest.fixture
def records(mixture_of, completion_of):
    return [score_completion(mixture_of(3)[index], completion_of("x"), model="m") for index in range(3)]


@pytest.fixture
def order(records):
    return {(record.key, record.sample): place for place, record in enumerate(records)}


def test_each_process_writes_a_file_of_its_own_and_they_become_one_in_the_order_asked(records, order, tmp_path):
    out = tmp_path / "new" / "out.jsonl"
    with Journal(out, 1) as second:
        second.add(records[2:])
    with Journal(out, 0) as first:
        first.add(records[1:2])
        first.add(records[:1])
    assert first.gather(order) == records
    assert read_records(out).records == records
    assert [path.name for path in out.parent.iterdir()] == ["out.jsonl"]


def test_what_was_added_can_be_read_before_the_file_is_closed(records, tmp_path):
    with Journal(tmp_path / "out.jsonl", 0) as journal:
        journal.add(records[:2])
        assert Journal(tmp_path / "out.jsonl", 0).read() == records[:2]


def test_an_interrupted_line_is_cut_off_and_the_rest_kept(records, order, tmp_path):
    with Journal(tmp_path / "out.jsonl", 0) as journal:
        journal.add(records[:2])
    (part,) = tmp_path.glob("out.jsonl.parts/*.jsonl")
    part.write_bytes(part.read_bytes()[:-40])
    with Journal(tmp_path / "out.jsonl", 0) as journal:
        assert journal.read() == records[:1]
        journal.add(records[1:])
    assert journal.gather(order) == records


def test_an_answer_that_stands_in_two_files_counts_once(records, order, tmp_path):
    """As after a call that was killed when it had made one file, and had not yet removed the parts."""
    with Journal(tmp_path / "out.jsonl", 0) as journal:
        journal.add(records)
    parts = {path.name: path.read_bytes() for path in tmp_path.glob("out.jsonl.parts/*")}
    journal.gather(order)
    (tmp_path / "out.jsonl.parts").mkdir()
    for name, text in parts.items():
        (tmp_path / "out.jsonl.parts" / name).write_bytes(text)
    with Journal(tmp_path / "out.jsonl", 0) as again:
        pass
    assert again.gather(order) == records


def test_samples_of_one_puzzle_are_kept_apart(records, tmp_path):
    two = [records[0], dataclasses.replace(records[0], sample=1)]
    with Journal(tmp_path / "out.jsonl", 0) as journal:
        journal.add(two)
    assert journal.read() == two


def test_without_an_answer_there_is_no_file(order, tmp_path):
    with Journal(tmp_path / "out.jsonl", 0) as journal:
        pass
    assert journal.gather(order) == []
    assert list(tmp_path.iterdir()) == []


def test_answers_of_another_source_are_never_added_to(records, order, tmp_path):
    with Journal(tmp_path / "out.jsonl", 0, {"weights": "a"}) as journal:
        journal.add(records[:1])
    with pytest.raises(ValueError, match=r"out: got .*'weights': 'a'.*those of .*'weights': 'b'"):
        Journal(tmp_path / "out.jsonl", 0, {"weights": "b"}).read()
    assert journal.gather(order) == records[:1]
    with pytest.raises(ValueError, match="do choose another out="):
        Journal(tmp_path / "out.jsonl", 0, {"weights": "b"}).read()
    assert Journal(tmp_path / "out.jsonl", 0, {"weights": "a"}).read() == records[:1]


def test_a_second_call_at_the_same_time_is_refused(tmp_path):
    with (
        Journal(tmp_path / "out.jsonl", 0),
        pytest.raises(ValueError, match="which another call is writing to"),
        Journal(tmp_path / "out.jsonl", 0),
    ):
        pass
    with Journal(tmp_path / "out.jsonl", 0):
        pass
