"""Sums and counts, the table, and what a recipe requires."""

from dataclasses import replace

import pytest

from eval_hooks.records import score_completion
from eval_hooks.summary import check_require, mean_primary, metrics, summarize, table


@pytest.fixture
def records(mixture_of, completion_of):
    """2x2: right, right, invalid and cut; missing: right, invalid, invalid."""
    mixture = mixture_of(3)
    texts = {"2x2": ["gold", "gold", "{"], "missing": ["gold", "nonsense", ""]}
    made = []
    for posed in (mixture[i] for i in range(6)):
        text = texts[posed.part][posed.index]
        cut = "length" if text == "{" else "stop"
        text = posed.task.gold(posed.puzzle.target) if text == "gold" else text
        made.append(score_completion(posed, completion_of(text, cut), model="m", step=1))
    return made


def test_means_are_sums_over_counts_and_shares_are_of_all_answers(records):
    summary = summarize(records)
    jig, missing = summary["2x2"], summary["missing"]
    assert list(summary) == ["2x2", "missing"]
    assert (jig.n, jig.invalid, jig.truncated) == (3, 1, 1)
    assert jig.means["pa"] == pytest.approx(2 / 3)
    assert jig.completion_tokens == sum(r.completion_tokens for r in records if r.part == "2x2")
    assert (missing.invalid, missing.truncated) == (2, 0)
    assert sum(missing.invalid_reasons.values()) == 2
    assert mean_primary(summary) == pytest.approx((2 / 3 + 1 / 3) / 2)


def test_an_entry_counts_only_the_answers_it_applies_to(records):
    some = summarize(records)["2x2"]
    assert some.counts["pa_corner"] == 3
    assert some.counts["pa_interior"] == 0  # a 2x2 has no interior piece
    assert "pa_interior" not in some.means


def test_the_order_of_records_does_not_change_the_numbers(records):
    forward, backward = summarize(records), summarize(records[::-1])
    for part in forward:
        assert forward[part].means == pytest.approx(backward[part].means)


def test_metrics_have_flat_names(records):
    flat = metrics(summarize(records))
    assert flat["2x2/pa"] == pytest.approx(2 / 3)
    assert flat["2x2/invalid"] == flat["2x2/truncated"] == pytest.approx(1 / 3)
    assert flat["missing/completion_tokens"] > 0


def test_the_table_has_a_row_for_the_model_and_one_per_baseline(records):
    lines = table(summarize(records)).splitlines()
    assert max(map(len, lines)) <= 120
    row = next(line for line in lines if line.startswith("2x2"))
    assert "66.7" in row
    assert "33.3" in row
    random = lines[lines.index(row) + 1].split()
    assert random[:2] == ["random", "25.0"]
    assert "flats only" in lines[lines.index(row) + 2]
    assert any(line.startswith("2x2 invalid: ") for line in lines)
    assert any(line.startswith("missing ") for line in lines)


def test_several_answers_to_a_puzzle_are_told_from_puzzles(records):
    lines = table(summarize([*records, *(replace(record, sample=1) for record in records)])).splitlines()
    assert max(map(len, lines)) <= 120
    assert lines[1].split()[1:3] == ["n", "puzzles"]
    assert next(line for line in lines if line.startswith("2x2")).split()[:3] == ["2x2", "6", "3"]
    assert "puzzles" not in table(summarize(records))


def test_an_entry_that_a_row_does_not_have_is_shown_as_a_dash(mixture_of, completion_of):
    """A 2x2 has no border and no interior piece, a 4x4 has."""
    mixture = mixture_of(1, "data.parts.4x4={task: jigshape, count: 4, spec: {grid: 4, piece_px: 22, tab_ratio: 0.3}}")
    golds = [(p, p.task.gold(p.puzzle.target)) for p in (mixture[i] for i in range(len(mixture)))]
    summary = summarize([score_completion(posed, completion_of(gold), model="m") for posed, gold in golds])
    rows = {line.split()[0]: line.split() for line in table(summary).splitlines() if line.strip()}
    assert rows["2x2"].count("-") == 2
    assert rows["4x4"].count("-") == 0
    assert max(map(len, table(summary).splitlines())) <= 120


def test_the_chance_of_a_part_with_several_specs_is_that_of_all_its_puzzles(records):
    small = [record for record in records if record.part == "2x2"]
    large = [replace(record, key=f"{record.key}-8", spec=record.spec | {"grid": 8}) for record in small]
    chance = summarize([*small, *large])["2x2"].baselines
    assert chance["random"]["pa"] == pytest.approx((1 / 4 + 1 / 64) / 2)
    assert chance["flats only"]["pa"] == pytest.approx((1 + 9 / 64) / 2)


def test_kinds_of_records_are_never_mixed_in_one_part(records, posed, completion_of):
    other = score_completion(posed, completion_of("{}"), model="m", step=2)
    with pytest.raises(ValueError, match="step"):
        summarize([*records, other])


def test_an_answer_counts_once(records):
    with pytest.raises(ValueError, match="more than once"):
        summarize([*records, records[0]])


def test_nothing_summarized_is_an_empty_table():
    assert summarize([]) == {}
    assert table({}) == ""


def test_a_missed_requirement_is_told_with_what_was_reached(records):
    summary = summarize(records)
    assert check_require(summary, {"2x2": {"pa": 0.66, "em": 0.5}}) == []
    (line,) = check_require(summary, {"2x2": {"pa": 0.9, "em": 0.5}})
    assert line.startswith("eval.require.2x2.pa: got 0.6667 over 3 puzzles")
    assert "0.9" in line


def test_a_requirement_on_what_was_not_evaluated_is_missed(records):
    summary = summarize(records)
    assert len(check_require(summary, {"9x9": {"pa": 0.1}, "2x2": {"pa_interior": 0.1}})) == 2
    assert len(check_require({}, {"2x2": {"pa": 0.1}})) == 1
