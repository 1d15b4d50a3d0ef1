"""Paired comparison: values worked by hand, error rates by simulation, and what is refused."""

import dataclasses
import math

import numpy as np
import pytest

from eval_hooks.compare import compare, compare_part, main, table
from eval_hooks.paired import compare_scores, matched_proportions, mcnemar, sign_flips
from eval_hooks.records import Record, write_records


def record_of(index, pa, **changes):
    scores = {"pa": pa, "em": float(pa == 1), "valid": 1.0}
    fields = {
        "key": f"jigshape-{index}", "task": "jigshape", "version": 1, "split": "test", "part": "4x4", "index": index,
        "spec": {"grid": 4}, "photo_id": None, "seed": index, "target": {}, "prompt_hash": "", "text": "{}",
        "finish_reason": "stop", "completion_tokens": 1, "answer": None, "invalid": None, "scores": scores,
        "seconds": 0.0, "sample": 0, "protocol": "greedy", "model": "m", "step": 1,
    }  # fmt: skip
    return Record(**fields | changes)


def keyed(scores):
    return {str(index): float(score) for index, score in enumerate(scores)}


def test_mcnemar_is_the_binomial_of_the_puzzles_that_one_alone_solved():
    # 2 (C(10,0) + C(10,1) + C(10,2)) / 2^10
    assert mcnemar(2, 8) == pytest.approx(2 * (1 + 10 + 45) / 1024)
    assert mcnemar(8, 2) == mcnemar(2, 8)
    assert mcnemar(0, 0) == 1
    assert mcnemar(3, 3) == 1
    assert mcnemar(1, 0) == 1


def test_agresti_and_mins_interval_worked_by_hand():
    # 8.5 and 2.5 of 102: difference 6/102, variance (11 - 36/102) / 102^2
    reach = 1.959964 * math.sqrt(11 - 36 / 102) / 102
    assert matched_proportions(8, 2, 100) == pytest.approx((6 / 102 - reach, 6 / 102 + reach), abs=1e-6)


def test_scores_of_0_and_1_are_compared_by_mcnemar():
    found = compare_scores(keyed([1] * 8 + [0] * 2 + [1] * 5), keyed([0] * 8 + [1] * 2 + [1] * 5))
    assert (found.n, found.test, found.p) == (15, "McNemar", mcnemar(8, 2))
    assert found.difference == pytest.approx(6 / 15)
    assert (found.one, found.other) == pytest.approx((13 / 15, 7 / 15))


def test_few_sign_flips_agree_with_all_of_them():
    differences = [0.25, 0.5, -0.125, 0.0625, 0.75, 0.3125, 0.1875, 0.4375]
    signs = np.array(np.meshgrid(*[[-1, 1]] * 8)).reshape(8, -1)
    exact = np.mean(np.abs(signs.T @ differences) >= sum(differences) - 1e-9)
    assert sign_flips(differences) == pytest.approx(exact, abs=0.01)


def test_differences_that_are_equal_but_for_rounding_are_equal():
    """0.3 - 0.1 is not 0.2 - 0.0 in floats."""
    found = compare_scores({"a": 0.3, "b": 0.2}, {"a": 0.1, "b": 0.0})
    exact = compare_scores({"a": 0.25, "b": 0.25}, {"a": 0.05, "b": 0.05})
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high), abs=1e-6)


def test_one_puzzle_and_equal_scores_prove_nothing():
    one = compare_scores({"a": 0.75}, {"a": 0.25})
    assert (one.n, one.p, one.difference) == (1, 1.0, 0.5)
    assert one.low < 0 < one.high
    same = compare_scores(keyed([0.5] * 30), keyed([0.5] * 30))
    assert (same.p, same.difference) == (1.0, 0.0)
    assert same.low < 0 < same.high
    solved = compare_scores(keyed([1] * 30), keyed([1] * 30))
    assert (solved.p, solved.test) == (1.0, "McNemar")
    assert solved.low < 0 < solved.high


def test_nothing_in_common_is_no_comparison():
    assert compare_scores({"a": 1.0}, {"b": 1.0}) is None


def test_equals_are_found_different_as_rarely_as_p_says_and_the_interval_holds_the_truth():
    rng = np.random.default_rng(0)
    significant, held = [], []
    for _ in range(500):
        easy = rng.random(60)
        one, other = (keyed(rng.binomial(16, easy) / 16) for _ in range(2))
        found = compare_scores(one, other)
        significant.append(found.p < 0.05)
        held.append(found.low <= 0 <= found.high)
    assert 0.03 <= np.mean(significant) <= 0.07
    assert 0.93 <= np.mean(held) <= 0.97


@pytest.mark.parametrize("n", [2, 3, 6, 29])
def test_the_interval_of_a_difference_of_few_puzzles_holds_the_truth_at_least_as_often_as_it_says(n):
    rng = np.random.default_rng(5)
    found = [compare_scores(keyed(rng.random(n)), keyed(rng.random(n))) for _ in range(600)]
    assert np.mean([each.low <= 0 <= each.high for each in found]) >= 0.93
    assert all(each.low <= each.difference <= each.high for each in found)


def test_the_interval_of_a_difference_in_solved_puzzles_holds_the_truth():
    rng = np.random.default_rng(1)
    held = []
    for gained, lost, _ in rng.multinomial(250, [0.2, 0.1, 0.7], size=4000):
        low, high = matched_proportions(int(gained), int(lost), 250)
        held.append(low <= 0.1 <= high)
    assert 0.93 <= np.mean(held) <= 0.97


def test_the_samples_of_a_puzzle_count_as_one():
    one = [record_of(0, 1.0, sample=sample) for sample in range(4)] + [record_of(1, 0.5)]
    other = [record_of(0, 0.5, sample=sample) for sample in range(2)] + [record_of(1, 0.5)]
    found = compare_part("4x4", one, other).entries["pa"]
    assert (found.n, found.difference) == (2, 0.25)


def test_puzzles_that_only_one_answered_are_left_out_and_said():
    one = [record_of(index, 1.0) for index in range(5)]
    other = [record_of(index, 0.5) for index in range(2, 9)]
    (part,) = compare({"4x4": one}, {"4x4": other})
    assert (part.common, part.only_one, part.only_other) == (3, 2, 4)
    assert list(part.entries) == ["pa", "em", "valid"]
    assert "2 puzzles of records and 4 of against are not in both" in table([part])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 2}, "jigshape version 1, test split, greedy against jigshape version 2"),
        ({"split": "eval"}, "test split, greedy against jigshape version 1, eval split"),
        ({"protocol": "k=5"}, "greedy against jigshape version 1, test split, k=5"),
    ],
)
def test_other_versions_splits_and_protocols_are_refused(change, said):
    one = [record_of(0, 1.0)]
    with pytest.raises(ValueError, match=said):
        compare_part("4x4", one, [dataclasses.replace(each, **change) for each in one])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"task": "chess"}, "task: got chess; allowed: jigshape"),
        ({"scores": {"pa": "1"}}, "allowed: numbers in"),
        ({"scores": {"pa": 2.0}}, "allowed: numbers in"),
    ],
)
def test_what_cannot_be_compared_is_refused(change, said, tmp_path, capsys):
    file = tmp_path / "other.jsonl"
    write_records(file, [record_of(0, 1.0, **change)])
    assert main([f"records={file}", f"against={file}"]) == 2
    assert said in capsys.readouterr().err


@pytest.fixture
def files(tmp_path):
    one, other = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    alone = record_of(0, 0.5, part="8x8")
    write_records(one, [*(record_of(index, 1.0, step=2) for index in range(20)), dataclasses.replace(alone, step=2)])
    write_records(other, [record_of(index, index % 16 / 16, model="\x1b[2J\n</script>") for index in range(20)])
    return one, other


def test_the_command_says_what_differs_and_what_is_not_in_both(files, capsys):
    assert main([f"records={files[0]}", f"against={files[1]}"]) == 0
    said = capsys.readouterr().out
    assert (
        said.splitlines()[0] == "records: m at step 2; against: \\x1b[2J\\n</script> at step 1 (test split, greedy, %)"
    )
    row = next(line for line in said.splitlines() if line.startswith("4x4")).split()
    assert row[1:6] == ["pa", "20", "100.0", "39.4", "+60.6"]
    assert row[8] == "<.001"
    assert said.endswith("part 8x8: only in records\n")


def test_all_problems_of_a_command_line_are_told_at_once(files, capsys):
    assert main([f"records={files[0]}.no", "agains=x"]) == 2
    said = capsys.readouterr().err
    assert "did you mean against?" in said
    assert "against: got nothing" in said
    assert "do name one that exists" in said


def test_files_with_no_puzzle_in_common_are_refused(files, tmp_path, capsys):
    write_records(tmp_path / "c.jsonl", [record_of(99, 1.0)])
    assert main([f"records={files[0]}", f"against={tmp_path / 'c.jsonl'}"]) == 2
    assert "no puzzle in both (parts 4x4, 8x8 against 4x4)" in capsys.readouterr().err
