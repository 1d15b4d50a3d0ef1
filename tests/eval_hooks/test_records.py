"""Records: what is written comes back, whatever the model wrote and wherever the writer was stopped."""

import dataclasses
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval_hooks.records import (
    Record,
    append_records,
    from_line,
    prompt_hash,
    read_records,
    score_completion,
    to_line,
    write_records,
)
from tasks import TASKS

RECORD = Record(
    key="jigshape-0", task="jigshape", version=1, split="eval", part="2x2", index=0, spec={"grid": 2}, photo_id="p",
    seed=1, target={"grid": 2}, prompt_hash="0" * 16, text="{}", finish_reason="stop", completion_tokens=3,
    answer=[[0, 0], [0, 1]], invalid=None, scores={"pa": 0.5}, seconds=0.5, sample=0, protocol="greedy", model="m",
    step=3,
)  # fmt: skip
HOSTILE = [
    "", "\x00\x01\x1b[31m\x7f\r\n\t", "\ud800 alone, \udfff too", "\u2028\u2029\x85\ufeff", "<script>alert(1)</script>",
    "{" * 100_000, "[" * 100_000, "9" * 10_000, "x" * 1_000_000, '{"0": NaN}', "💥" * 1000, '{"0":[0,0],"0":[0,0]}',
]  # fmt: skip


def with_text(text: str) -> Record:
    return dataclasses.replace(RECORD, text=text)


@given(st.text(st.characters()))
def test_a_record_with_any_text_comes_back_equal_from_one_line_of_ascii(text):
    line = to_line(with_text(text))
    assert line.isascii()
    assert line.count("\n") == 1
    assert len(line.splitlines()) == 1
    assert from_line(line) == with_text(text)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_completion_becomes_a_record_that_scores_zero(text, posed, completion_of, tmp_path):
    record = score_completion(posed, completion_of(text), model="m")
    assert record.invalid in posed.task.invalid_reasons
    assert record.answer is None
    assert record.scores[posed.task.primary] == 0
    write_records(tmp_path / "r.jsonl", [record])
    assert read_records(tmp_path / "r.jsonl").records == [record]


def test_the_reference_answer_scores_one_for_every_task(mixture_of, completion_of):
    for posed in (mixture_of(1)[i] for i in range(2)):
        gold = posed.task.gold(posed.puzzle.target)
        record = score_completion(posed, completion_of(gold), model="m", step=7, sample=2, protocol="k samples")
        assert record.scores[posed.task.primary] == 1
        assert record.invalid is None
        assert (record.key, record.part, record.index) == (posed.puzzle.key, posed.part, posed.index)
        assert (record.step, record.sample, record.protocol) == (7, 2, "k samples")
        assert from_line(to_line(record)) == record


def test_a_stored_record_can_be_scored_again_from_itself(posed, completion_of):
    record = score_completion(posed, completion_of(posed.task.gold(posed.puzzle.target)), model="m")
    stored = from_line(to_line(record))
    task = TASKS[stored.task]
    spec = task.Spec.model_validate_json(json.dumps(stored.spec))
    assert task.score(task.parse(stored.text, spec), stored.target) == stored.scores


def test_the_prompt_hash_follows_text_and_image_places(posed):
    messages = posed.puzzle.messages
    assert prompt_hash(messages) == prompt_hash(json.loads(json.dumps(messages)))
    assert prompt_hash(messages) != prompt_hash(messages[:-1])


@pytest.mark.parametrize("cut", [1, 2, 40])
def test_a_torn_last_line_is_left_out_reported_and_cut_off_before_the_next_append(cut, tmp_path, caplog):
    path = tmp_path / "records.jsonl"
    append_records(path, [with_text("first"), with_text("second")])
    path.write_bytes(path.read_bytes()[: -cut - 1])
    records, torn_bytes = read_records(path)
    assert [r.text for r in records] == ["first"]
    assert torn_bytes > 0
    assert "unfinished last line" in caplog.text
    append_records(path, [with_text("third")])
    assert [r.text for r in read_records(path).records] == ["first", "third"]
    assert read_records(path).torn_bytes == 0


def test_a_last_line_that_lacks_only_its_newline_is_kept(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text(to_line(with_text("first")).rstrip("\n"))
    assert [r.text for r in read_records(path).records] == ["first"]
    append_records(path, [with_text("second")])
    assert [r.text for r in read_records(path).records] == ["first", "second"]


def test_a_broken_line_in_the_middle_is_refused_by_its_number(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text(to_line(RECORD) + "{broken\n" + to_line(RECORD))
    with pytest.raises(ValueError, match=r"records\.jsonl, line 2"):
        read_records(path)


@pytest.mark.parametrize(
    "change",
    [{"step": "3"}, {"index": True}, {"scores": []}, {"text": None}, {"extra": 1}, {"seconds": math.nan}],
    ids=str,
)
def test_a_line_with_a_wrong_field_is_refused(change):
    with pytest.raises(ValueError, match="got"):
        from_line(json.dumps({**dataclasses.asdict(RECORD), **change}))


def test_a_line_without_a_field_is_refused_by_its_name():
    fields = dataclasses.asdict(RECORD)
    del fields["prompt_hash"]
    with pytest.raises(ValueError, match="prompt_hash"):
        from_line(json.dumps(fields))


def test_writing_replaces_the_file_and_leaves_nothing_aside(tmp_path):
    path = tmp_path / "deep" / "records.jsonl"
    write_records(path, [with_text("old"), with_text("older")])
    write_records(path, [with_text("new")])
    assert [r.text for r in read_records(path).records] == ["new"]
    assert [p.name for p in path.parent.iterdir()] == ["records.jsonl"]
