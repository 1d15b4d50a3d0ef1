"""Several answers to each puzzle: pass@k against brute force, votes as records, and what is refused."""

import dataclasses
from itertools import combinations

import pytest
import skimage.data
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from data_mix.mixture import Posed
from eval_hooks.intervals import estimate
from eval_hooks.leaderboard import main as leaderboard
from eval_hooks.records import read_records, score_completion, write_records
from eval_hooks.report import main as report
from eval_hooks.rescore import rescore
from eval_hooks.several import describe, differing_items, pass_at, several
from eval_hooks.summary import summarize, table
from eval_hooks.votes import main
from tasks import TASKS
from tasks.photo import as_photo

JIGSAW = {"grid": 2, "piece_px": 24, "tab_ratio": 0.3}


@pytest.fixture
def sampled(completion_of):
    """`sampled(texts, ..., task=..., spec=...)`: for each list of texts the records of one puzzle; a text may be a
    function of the target. Jigsaws' cells are always those of the first puzzle."""
    photo = as_photo(Image.fromarray(skimage.data.astronaut()))

    def build(*puzzles, task="jigshape", spec=None, part="2x2"):
        kind = TASKS[task]
        records = []
        for index, texts in enumerate(puzzles):
            puzzle = kind.pose(kind.Spec(**spec or JIGSAW), photo, index)
            posed = Posed(part=part, split="eval", index=index, puzzle=puzzle, photo=None)
            for sample, text in enumerate(texts):
                said = text if isinstance(text, str) else text(puzzle.target)
                given = {"model": "m", "step": 3, "protocol": "sampled t=1 p=1", "sample": sample}
                records.append(score_completion(posed, completion_of(said), **given))
        return records

    return build


def gold(target):
    return TASKS["jigshape"].gold(target)


def swapped(one, other):
    """The reference answer with two pieces exchanged."""

    def write(target):
        cells = list(target["cells"])
        cells[one], cells[other] = cells[other], cells[one]
        return gold(target | {"cells": cells})

    return write


@given(st.lists(st.booleans(), min_size=1, max_size=9), st.data())
def test_pass_at_k_is_the_share_of_all_draws_of_k_answers_with_a_right_one(right, data):
    k = data.draw(st.integers(1, len(right)))
    draws = [any(drawn) for drawn in combinations(right, k)]
    assert pass_at(k, len(right), sum(right)) == pytest.approx(sum(draws) / len(draws))


def test_pass_at_k_of_many_answers_is_exact():
    assert pass_at(1, 1000, 3) == pytest.approx(0.003)
    assert pass_at(1000, 1000, 1) == 1
    assert pass_at(500, 1000, 0) == 0


@pytest.mark.parametrize(("k", "n", "right"), [(0, 4, 1), (5, 4, 1), (1, 4, 5), (1, 4, -1)])
def test_pass_at_k_of_wrong_counts_is_refused(k, n, right):
    with pytest.raises(ValueError, match="allowed: pass@1 to pass@4"):
        pass_at(k, n, right)


@pytest.mark.parametrize(
    ("answers", "share"),
    [
        ([[[0, 0], [0, 1]], [[0, 0], [0, 1]]], 0.0),
        ([[[0, 0], [0, 1]], [[0, 0], None]], 0.5),
        ([["tab", "flat"], ["flat", "tab"]], 1.0),
        ([{"a": 1, "b": 2}, {"a": 1}, {"b": 2, "a": 1}], 0.5),
        ([[1], [1, 2]], 0.5),
        ([3, 4], None),
        (["yes", "no"], None),
        ([[], []], None),
    ],
)
def test_items_differ_where_not_all_answers_have_the_same(answers, share):
    assert differing_items(answers) == share


def test_the_numbers_of_a_part_are_those_worked_by_hand(sampled):
    records = sampled([gold, gold, swapped(0, 1)], [swapped(0, 1), swapped(2, 3), "nothing"], ["", "no", "nothing"])
    found = several("2x2", records)
    assert (found.k, found.primary, list(found.passed)) == (3, "pa", [1, 2, 3])
    assert found.each.mean == pytest.approx((2.5 + 1) / 9)
    assert found.passed[1].mean == pytest.approx(2 / 9)
    assert found.passed[2].mean == pytest.approx(1 / 3)
    assert found.passed[3].mean == pytest.approx(1 / 3)
    assert (found.puzzles_differ.mean, found.puzzles_differ.n) == (1.0, 2)
    assert found.items_differ.mean == pytest.approx((0.5 + 1) / 2)
    assert [record.scores["pa"] for record in found.votes] == [1.0, 0.5, 0.0]
    rows = dict(found.rows())
    assert rows["pa of the vote"].mean == 0.5
    assert rows["solved by the vote"] == estimate([("a", 1.0), ("b", 0.0), ("c", 0.0)])


def test_a_vote_is_a_record_like_any_other_and_costs_all_its_answers(sampled):
    records = sampled(["<think>hm</think>" + "no", gold, gold, swapped(1, 2)])
    (vote,) = several("2x2", records).votes
    first = records[0]
    assert (vote.protocol, vote.sample, vote.finish_reason) == ("sampled t=1 p=1 vote of 4", 0, "stop")
    assert vote.text == gold(vote.target)
    assert vote.completion_tokens == sum(record.completion_tokens for record in records)
    assert vote.seconds == sum(record.seconds for record in records)
    changed = {"text", "answer", "invalid", "scores", "completion_tokens", "seconds", "protocol"}
    assert {f.name for f in dataclasses.fields(vote) if getattr(vote, f.name) != getattr(first, f.name)} == changed
    assert [change.new for change in rescore([vote]).changes] == [vote]
    assert "100.0" in table(summarize([vote]))


def test_where_no_answer_is_valid_the_vote_is_the_first_ones(sampled):
    records = sampled(["no", "{", ""])
    (vote,) = several("2x2", records).votes
    assert (vote.text, vote.invalid, vote.answer) == ("no", "no_json", None)
    assert set(vote.scores.values()) == {0.0}


def test_samples_vote_in_their_order_whatever_the_order_of_the_records(sampled):
    records = sampled([swapped(0, 1), swapped(0, 2)], [swapped(0, 2), swapped(0, 1)])
    one, other = (several("2x2", each).votes for each in (records, records[::-1]))
    assert sorted(one, key=str) == sorted(other, key=str)
    assert [vote.text for vote in one] == [record.text for record in records if record.sample == 0]


def test_small_answers_are_decided_by_majority_and_have_no_items(sampled):
    records = sampled(["3", "the answer is 1", "1"], task="probes", spec={"kind": "grid_missing"}, part="missing")
    found = several("missing", records)
    assert [vote.text for vote in found.votes] == ["1"]
    assert found.items_differ is None
    assert found.puzzles_differ.mean == 1


def test_a_task_without_a_vote_has_all_other_numbers(sampled):
    (base,) = sampled([gold])
    records = [
        dataclasses.replace(
            base, task="chat", version=TASKS["chat"].version, spec={}, target={"text": "a"}, text=text, sample=sample,
            answer=text, scores={"match": float(text == "a"), "valid": 1.0}, part="talk",
        )
        for sample, text in enumerate("ab")
    ]  # fmt: skip
    found = several("talk", records)
    assert (found.votes, found.each.mean, found.passed[2].mean) == ([], 0.5, 1.0)
    assert "part talk: no vote (chat has no vote)" in describe(records)


def test_answers_of_an_older_version_are_not_voted_on(sampled):
    records = [dataclasses.replace(record, version=1) for record in sampled([gold, gold])]
    assert several("2x2", records).votes == []
    assert "scored by jigshape version 1, which is version 2 here: rescore first" in describe(records)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ([[gold], [gold]], "records: got one answer to each puzzle; allowed: two or more to each puzzle"),
        ([[gold] * 2, [gold] * 3, [gold] * 3], "records: got 1 puzzles with 2, 2 puzzles with 3; allowed: as many"),
    ],
)
def test_one_answer_to_each_and_unequal_numbers_are_refused(texts, said, sampled, tmp_path, capsys):
    records = sampled(*texts)
    assert several("2x2", records) is None
    write_records(tmp_path / "r.jsonl", records)
    assert main([f"records={tmp_path / 'r.jsonl'}"]) == 2
    assert said in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["r.jsonl"]


def test_an_answer_that_is_there_twice_is_refused(sampled, tmp_path, capsys):
    write_records(tmp_path / "r.jsonl", [*sampled([gold, gold])] * 2)
    assert main([f"records={tmp_path / 'r.jsonl'}"]) == 2
    assert "allowed: each answer once" in capsys.readouterr().err


def test_the_records_are_never_overwritten(sampled, tmp_path, capsys):
    file = tmp_path / "r.jsonl"
    write_records(file, sampled([gold, gold]))
    before = file.read_bytes()
    assert main([f"records={file}", f"out={tmp_path / '.' / 'r.jsonl'}"]) == 2
    assert "out: got" in capsys.readouterr().err
    assert file.read_bytes() == before


def test_votes_are_written_beside_the_records_and_stand_on_a_board_of_their_own(sampled, in_tmp_path, capsys):
    folder = in_tmp_path / "runs" / "a" / "records"
    records = sampled([gold, gold, swapped(0, 1)], [swapped(0, 1), gold, "no"])
    write_records(folder / "s.jsonl", records)
    assert main([f"records={folder / 's.jsonl'}"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("m at step 3 (eval split, sampled t=1 p=1)\n3 answers to each puzzle")
    assert [line.split()[:2] for line in said.splitlines() if "pass@" in line][:3] == [
        ["pass@1", "50.0"], ["pass@2", "83.3"], ["pass@3", "100.0"],
    ]  # fmt: skip
    votes = read_records(folder / "s-vote-of-3.jsonl").records
    assert votes == several("2x2", records).votes
    assert leaderboard(["runs=runs"]) == 0
    page = (in_tmp_path / "runs" / "leaderboard" / "leaderboard.md").read_text(encoding="utf-8")
    assert "sampled t=1 p=1 vote of 3" in page
    assert report([f"records={folder / 's-vote-of-3.jsonl'}"]) == 0


def test_a_report_of_several_answers_says_what_they_come_to(sampled, in_tmp_path, read_page):
    records = sampled([gold, swapped(0, 1)], [gold, gold])
    write_records(in_tmp_path / "s.jsonl", records)
    assert report(["records=s.jsonl"]) == 0
    words = read_page((in_tmp_path / "s.html").read_text(encoding="utf-8")).words
    for said in ("Several answers", "pa of the vote", "pass@2", "items with different answers"):
        assert said in words
    write_records(in_tmp_path / "s.jsonl", records[:3])
    assert report(["records=s.jsonl"]) == 0
    assert "Several answers" not in (in_tmp_path / "s.html").read_text(encoding="utf-8")


def test_names_out_of_records_are_printed_harmlessly(sampled, tmp_path, capsys):
    records = [dataclasses.replace(record, model="\x1b[2J\n") for record in sampled([gold, gold])]
    write_records(tmp_path / "r.jsonl", records)
    assert main([f"records={tmp_path / 'r.jsonl'}"]) == 0
    assert capsys.readouterr().out.startswith("\\x1b[2J\\n at step 3")
