"""Who is ranked against whom, what stands beside them, and what bad files and names can do."""

import csv
import dataclasses
import io

import pytest

from eval_hooks import leaderboard
from eval_hooks.board import CHANCE
from eval_hooks.leaderboard import main, make
from eval_hooks.leaderboard_page import page
from eval_hooks.leaderboard_text import COLUMNS, markdown, table_csv
from eval_hooks.published import figures, published
from eval_hooks.ranking import boards
from eval_hooks.records import Record, to_line, write_records
from eval_hooks.run_records import read_runs
from tasks import TASKS

JIGSAW = {"grid": 4}


def record_of(index, primary, part="4x4", task="jigshape", spec=JIGSAW, **changes):
    scores = {TASKS[task].primary: primary, "valid": 1.0}
    fields = {
        "key": f"{task}-{part}-{index}", "task": task, "version": TASKS[task].version, "split": "eval", "part": part,
        "index": index, "spec": spec, "photo_id": None, "seed": index, "target": {}, "prompt_hash": "", "text": "{}",
        "finish_reason": "stop", "completion_tokens": 1, "answer": None, "invalid": None, "scores": scores,
        "seconds": 0.0, "sample": 0, "protocol": "greedy", "model": "m", "step": 1,
    }  # fmt: skip
    return Record(**fields | changes)


@pytest.fixture(autouse=True)
def no_programs(monkeypatch):
    """What programs earned is kept in the working folder; a test must not see it."""
    monkeypatch.setattr(leaderboard, "read_solved", dict)


@pytest.fixture
def runs(tmp_path):
    """`runs(name, records, file="final")` writes a run's file; gives the folder of all runs."""

    def write(name, records, file="final"):
        write_records(tmp_path / "runs" / name / "records" / f"{file}.jsonl", records)
        return tmp_path / "runs"

    return write


def some(primary, count=6, **changes):
    return [record_of(index, primary, **changes) for index in range(count)]


def ranked(board):
    return [(row.rank, row.run, row.step) for row in board.rows if row.kind == "run"]


@pytest.mark.parametrize(
    "change",
    [
        {"version": 99},
        {"split": "test"},
        {"protocol": "k=5"},
        {"spec": {"grid": 4, "clues": 2}},
        {"part": "other"},
        {"task": "piece_cell", "spec": {"puzzle": JIGSAW}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_is_not_alike_is_never_ranked_together(change, runs):
    runs("one", some(0.5))
    folder = runs("two", some(0.6, **change))
    found = make(folder).boards
    assert sorted(ranked(board) for board in found) == [[(1, "one", 1)], [(1, "two", 1)]]
    assert len({board.kind.id for board in found}) == 2


def test_one_run_scored_under_two_versions_has_a_row_on_the_board_of_each(runs):
    folder = runs("one", some(0.5, version=1), "final-1")
    runs("one", [dataclasses.replace(r, key=f"{r.key}-2") for r in some(0.6, version=2)], "final-2")
    assert [board.kind.versions for board in make(folder).boards] == [("jigshape 2",), ("jigshape 1",)]


def test_tasks_that_were_scored_again_together_have_one_board_before_and_one_after(runs):
    fit, cell = ({"part": task, "task": task, "spec": {"puzzle": JIGSAW}} for task in ("pieces_fit", "piece_cell"))
    still = some(0.5)
    runs("one", [*still, *some(0.5, **fit, version=1), *some(0.5, **cell, version=1)])
    folder = runs("one", [*still, *some(0.6, **fit, version=2), *some(0.6, **cell, version=2)], "final-rescored-v1-2")
    versions = [sorted(board.kind.versions) for board in make(folder).boards]
    assert versions == [[f"jigshape {still[0].version}", f"piece_cell {n}", f"pieces_fit {n}"] for n in (2, 1)]


def test_a_spec_without_fields_that_came_later_is_that_with_their_defaults(runs):
    runs("old", some(0.5))
    folder = runs("new", some(0.6, spec=TASKS["jigshape"].Spec(grid=4).model_dump(mode="json")))
    (board,) = make(folder).boards
    assert ranked(board) == [(1, "new", 1), (2, "old", 1)]


def test_the_mean_beyond_chance_ranks_not_the_mean(runs):
    fit = {"part": "fit", "task": "pieces_fit", "spec": {"puzzle": JIGSAW}}  # chance 1/2
    folder = runs("one", [*some(0.45), *some(0.6, **fit)])  # mean .525, beyond chance (.413 + .2) / 2
    runs("two", [*some(0.1), *some(0.9, **fit)])  # mean .5, beyond chance (.04 + .8) / 2
    (board,) = make(folder).boards
    assert ranked(board) == [(1, "two", 1), (2, "one", 1)]
    score = board.score(next(row for row in board.rows if row.run == "two"))
    assert score.mean == pytest.approx(((0.1 - 1 / 16) / (15 / 16) + 0.8) / 2)
    assert score.low < score.mean < score.high


def test_references_take_no_line_of_a_ranked_row_in_the_terminal(runs):
    for index in range(12):
        folder = runs(f"run-{index:02d}", some(index / 64))
    (board,) = make(folder).boards
    shown = leaderboard.table(board).splitlines()
    assert [line.split()[0] for line in shown[2:12]] == [f"run-{index:02d}" for index in range(11, 1, -1)]
    assert "random" in shown[-2]
    assert shown[-1] == "... 2 more with a rank"


def test_equal_scores_share_a_rank(runs):
    runs("a", some(0.5))
    runs("b", some(0.5))
    (board,) = make(runs("c", some(0.25))).boards
    assert ranked(board) == [(1, "a", 1), (1, "b", 1), (3, "c", 1)]


BIG = {"part": "8x8", "spec": {"grid": 8}}
HUGE = {"part": "16x16", "spec": {"grid": 16}}


def test_a_run_that_misses_a_part_stands_apart_and_says_why(runs):
    runs("whole", [*some(0.5), *some(0.2, **BIG)])
    folder = runs("half", some(0.9))
    small, large = make(folder).boards
    assert ranked(large) == [(1, "whole", 1)]
    assert [(each.run, each.reason) for each in large.apart] == [("half", "no records of part 8x8")]
    assert ranked(small) == [(1, "half", 1), (2, "whole", 1)]
    assert small.apart == ()


def test_a_checkpoint_that_was_asked_more_keeps_its_row_on_the_board_of_all(runs):
    for step, score in ((100, 0.5), (200, 0.6)):
        folder = runs("one", [*some(score, step=step), *some(0.2, **BIG, step=step)], f"step-{step:06d}")
    (before,) = make(folder).boards
    runs("one", some(0.1, part="hard", spec={"grid": 12}, step=100), "one-eval-greedy-step-000100")
    both, further = make(folder).boards
    assert both == dataclasses.replace(before, apart=both.apart)
    assert ranked(further) == [(1, "one", 100)]
    assert [(each.step, each.reason) for each in further.apart] == [(200, "no records of part hard")]


def test_a_checkpoint_whose_further_part_has_two_versions_has_one_row_on_a_board_without_it(runs):
    cell = {"part": "cell", "task": "piece_cell", "spec": {"puzzle": JIGSAW}}
    runs("one", [*some(0.5), *some(0.5, **cell, version=1), *some(0.6, **cell, version=2)])
    found = make(runs("two", some(0.4))).boards
    assert [ranked(board) for board in found if len(board.kind.parts) == 1] == [[(1, "one", 1), (2, "two", 1)]]


def test_an_answer_in_two_files_of_a_run_counts_once(runs):
    folder = runs("one", some(0.5, 3), "step-000001")
    runs("one", some(0.5, 8))
    (board,) = make(folder).boards
    (row,) = [row for row in board.rows if row.kind == "run"]
    assert row.n == 8


def test_answers_with_other_scores_in_a_later_file_are_set_aside_and_counted(runs):
    runs("one", some(0.3), "a")
    folder = runs("one", [*some(0.8)[:2], *some(0.3)[2:]], "b")
    made = make(folder)
    assert [row.parts["4x4"].entries["pa"].mean for row in made.boards[0].rows if row.kind == "run"] == [0.3]
    (skipped,) = made.found.skipped
    assert skipped.name == "one/records/b.jsonl"
    assert skipped.reason.startswith("2 of its answers are set aside")


def test_a_part_asked_again_with_another_spec_leaves_the_first_where_it_was(runs):
    runs("one", some(0.5))
    folder = runs("two", some(0.6))
    grey = [dataclasses.replace(r, key=f"{r.key}-grey") for r in some(0.1, spec=JIGSAW | {"greyscale": True})]
    runs("two", grey, "x-eval-greedy-step-000001")
    plain, altered = sorted(make(folder).boards, key=lambda board: -len(ranked(board)))
    assert ranked(plain) == [(1, "two", 1), (2, "one", 1)]
    assert [row.n for row in altered.rows if row.kind == "run"] == [6]


def test_the_best_of_a_run_is_judged_by_the_puzzles_that_all_its_rows_answered(runs):
    folder = runs("one", some(0.9, 2, step=1), "step-000001")
    hard = [record_of(index, 0.1, step=2) for index in range(2, 10)]
    runs("one", [*some(1.0, 2, step=2), *hard])
    (board,) = make(folder).boards
    assert {row.step: (row.rank, row.best) for row in board.rows if row.kind == "run"} == {
        1: (1, False),
        2: (2, True),
    }


def test_a_trial_on_one_puzzle_does_not_decide_which_checkpoint_is_the_best(runs):
    lucky = [record_of(0, 1.0, step=2), *(record_of(index, 0.1, step=2) for index in range(1, 20))]
    runs("one", some(0.5, 20, step=1), "step-000001")
    folder = runs("one", lucky, "step-000002")
    runs("one", some(1.0, 1, step=3), "step-000003")
    (board,) = make(folder).boards
    assert {row.step: row.best for row in board.rows if row.kind == "run"} == {1: True, 2: False, 3: False}


@pytest.mark.parametrize("steps", [2, 5])
def test_a_checkpoint_with_few_puzzles_beside_the_final_evaluation_is_no_trial(steps, runs):
    for step in range(1, steps):
        runs("one", some(0.9 - step / 100, 32, step=step), f"step-{step:06d}")
    (board,) = make(runs("one", some(0.5, 250, step=steps))).boards
    assert [row.step for row in board.rows if row.best] == [1]


def test_each_person_in_a_folder_has_a_best_row(runs):
    for name, score in (("ann", 0.9), ("bob", 0.7)):
        folder = runs("people", some(score, step=None, model=f"human-{name}", protocol="human"), name)
    (board,) = make(folder).boards
    assert [(row.model, row.best) for row in board.rows if row.kind == "run"] == [
        ("human-ann", True), ("human-bob", True),
    ]  # fmt: skip
    assert "people, human-bob (best)" in leaderboard.table(board)


def test_rows_with_the_same_puzzles_bear_the_same_sign(runs):
    runs("one", some(0.5))
    runs("two", some(0.6))
    (board,) = make(runs("three", some(0.6, 5))).boards
    signs = {row.run: row.puzzles for row in board.rows}
    assert signs["one"] == signs["two"] != signs["three"]


def test_references_stand_among_the_rows_and_have_no_rank(runs):
    folder = runs("one", some(0.8))
    solved = {("joint solver", f"jigshape-4x4-{index}"): {"pa": 1.0, "em": 1.0} for index in range(6)}
    solved |= {("vision-free solver", f"jigshape-4x4-{index}"): {"pa": 0.5} for index in range(5)}
    (board,) = boards(read_runs(folder).entrants, solved)
    names = [row.model if row.kind != "run" else row.run for row in board.rows]
    assert names == [
        "joint solver", "Gemma3-12B SFT", "Qwen3-VL-8B SFT", "one", "GPT-5.5 zero-shot", "flats only",
        "Grok-4.2 reasoning zero-shot", "Grok-4.2 without reasoning zero-shot", "random",
    ]  # fmt: skip
    assert [row.rank for row in board.rows if row.kind != "run"] == [None] * 8
    chance = board.rows[-1]
    assert chance.parts["4x4"].entries["pa"].mean == 1 / 16
    assert board.score(chance).mean == 0
    assert board.score(board.rows[0]).n == 6


def test_what_is_published_stands_beside_its_own_puzzles_only():
    Spec = TASKS["jigshape"].Spec
    gemma = published("jigshape", [Spec(grid=8)], "greedy")["Gemma3-12B SFT"]
    assert gemma.means == pytest.approx({"pa": 0.3358, "aa": 0.3844})
    assert published("jigshape", [Spec(grid=4, shape=False)], "greedy")["GPT-5.5 zero-shot"].means["pa"] == 0.239
    for other in (Spec(grid=8, clues=3), Spec(grid=8, piece_px=24), Spec(grid=8, noise=5.0), Spec(grid=5)):
        assert published("jigshape", [other], "greedy") == {}
    assert published("jigshape", [Spec(grid=8)], "k=5") == {}
    assert published("piece_cell", [Spec(grid=8)], "greedy") == {}


def test_published_figures_name_known_puzzles_entries_and_sources():
    for figure in figures():
        task = TASKS[figure.task]
        assert figure.source
        assert set(figure.means) <= set(task.entries)
        assert all(0 <= mean <= 1 for mean in figure.means.values())
        assert task.Spec.model_validate(figure.spec).model_dump().items() >= figure.spec.items()


def test_a_reference_without_all_parts_has_no_score(runs):
    probe = {"part": "fit", "task": "pieces_fit", "spec": {"puzzle": JIGSAW}}
    (board,) = make(runs("one", [*some(0.5), *some(0.5, **probe)])).boards
    scores = {row.model: board.score(row) for row in board.rows if row.kind != "run"}
    assert scores.pop(CHANCE).mean == 0
    assert set(scores.values()) == {None}
    assert "flats only" in scores


def test_answers_of_programs_are_ranked_nowhere(runs, capsys):
    folder = runs("solved", some(1.0, protocol="solver", model="joint solver"))
    assert main([f"runs={folder}"]) == 2
    assert "programs' answers only" in capsys.readouterr().err


BROKEN = {
    "no_records": b'{"a": 1}\n',
    "no_text": b"\xff\xfe\n",
    "huge_number": b"1" * 5000 + b"\n",
    "other_task": to_line(dataclasses.replace(record_of(0, 0.5), task="chess")).encode(),
    "other_spec": to_line(dataclasses.replace(record_of(0, 0.5), spec={"grid": 4, "colour": 1})).encode(),
    "too_good": to_line(record_of(0, 1.5)).encode(),
    "true": to_line(record_of(0, True)).encode(),
    "text": to_line(record_of(0, "1")).encode(),
    "no_primary": to_line(dataclasses.replace(record_of(0, 0.5), scores={"valid": 1.0})).encode(),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_or_foreign_file_is_named_and_the_others_are_used(name, runs, capsys):
    folder = runs("good", some(0.5))
    bad = folder / name / "records" / "final.jsonl"
    bad.parent.mkdir(parents=True)
    bad.write_bytes(BROKEN[name])
    assert main([f"runs={folder}"]) == 0
    said = capsys.readouterr().out
    assert f"not used: {name}/records/final.jsonl: " in said
    assert f"{name}/records/final.jsonl" in (folder / "leaderboard" / "leaderboard.html").read_text()
    (board,) = make(folder).boards
    assert ranked(board) == [(1, "good", 1)]


def test_a_torn_last_line_is_said_and_the_rest_is_used(runs):
    folder = runs("one", some(0.5))
    file = folder / "one" / "records" / "final.jsonl"
    file.write_bytes(file.read_bytes()[:-20])
    made = make(folder)
    assert [row.n for row in made.boards[0].rows if row.kind == "run"] == [5]
    assert "unfinished" in made.found.skipped[0].reason


def test_a_damaged_file_of_programs_costs_their_rows_only(runs, monkeypatch):
    def damaged():
        raise ValueError("no records")

    monkeypatch.setattr(leaderboard, "read_solved", damaged)
    made = make(runs("one", some(0.5)))
    assert ranked(made.boards[0]) == [(1, "one", 1)]
    assert "no rows of programs" in made.found.skipped[0].reason


def test_the_folder_may_be_a_runs_own(runs):
    folder = runs("one", some(0.5))
    assert ranked(make(folder / "one").boards[0]) == [(1, "one", 1)]


def test_folders_without_records_and_misspelt_words_are_refused(tmp_path, capsys):
    assert main([f"runs={tmp_path}"]) == 2
    assert "holds no records/*.jsonl" in capsys.readouterr().err
    assert main([f"runs={tmp_path / 'no'}", "uot=x"]) == 2
    said = capsys.readouterr().err
    assert "did you mean out?" in said
    assert "do name one that exists" in said


def test_the_csv_holds_every_mean_with_its_interval(runs):
    made = make(runs("one", some(0.5)))
    rows = list(csv.DictReader(io.StringIO(table_csv(made.boards))))
    assert list(rows[0]) == list(COLUMNS)
    own = {(row["part"], row["entry"]): row for row in rows if row["run"] == "one"}
    assert list(own) == [
        ("", "beyond random"), ("", "beyond flats only"), ("4x4", "pa"), ("4x4", "valid"), ("4x4", "pa beyond random"),
        ("4x4", "pa beyond flats only"),
    ]  # fmt: skip
    assert (own["4x4", "pa"]["mean"], own["4x4", "pa"]["n"]) == ("0.500000", "6")
    assert float(own["4x4", "pa"]["low"]) < 0.5 < float(own["4x4", "pa"]["high"])
    assert {row["low"] for row in rows if row["kind"] == "guesser"} == {""}


def test_one_piece_of_thousands_in_a_wrong_cell_is_not_all_right_in_any_view(runs):
    one_wrong = [record_of(0, 254 / 256, **HUGE), *(record_of(index, 1.0, **HUGE) for index in range(1, 250))]
    (board,) = make(runs("one", one_wrong)).boards
    assert "| 99.9 (" in markdown([board], [])
    assert ">99.9<small>" in page([board], [])
    assert leaderboard.table(board).splitlines()[2].split()[:5] == ["one", "(best)", "1", "1", "99.9"]
    own = next(row for row in csv.DictReader(io.StringIO(table_csv([board]))) if row["kind"] == "run")
    assert 0.9999 < float(own["mean"]) < 1


def test_a_hostile_name_is_no_formula_and_breaks_no_table(runs):
    made = make(runs("=1+1", some(0.5, model='=cmd()|a\n"b",[x](y)<b>')))
    rows = list(csv.DictReader(io.StringIO(table_csv(made.boards))))
    own = next(row for row in rows if row["kind"] == "run")
    assert (own["run"], own["model"]) == ("'=1+1", '\'=cmd()|a\\n"b",[x](y)<b>')
    lines = [line for line in markdown(made.boards, []).splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in lines} == {8}
    assert "\\[x\\](y)&lt;b&gt;" in "".join(lines)


def test_published_rows_name_their_source_wherever_they_stand(runs):
    made = make(runs("one", some(0.5)))
    assert "| *published* | *Gemma3-12B SFT* (arXiv 2607.27670v2) |" in markdown(made.boards, [])
    shown = 'Gemma3-12B SFT <span class="tag">published</span><small>arXiv 2607.27670v2</small>'
    assert shown in page(made.boards, [])


def test_a_mean_beyond_a_guesser_says_over_how_many_parts_it_is(runs):
    """Flats decide a 2x2, so that nobody can be better there."""
    (board,) = make(runs("one", [*some(0.5), *some(0.2, part="2x2", spec={"grid": 2})])).boards
    shown = page([board], [])
    assert "beyond flats only, 1 of 2 parts" in shown
    assert "beyond random, " not in shown


def test_the_chance_of_a_part_with_several_specs_is_that_of_its_puzzles(runs):
    small = [record_of(index, 0.5) for index in range(2)]
    (board,) = make(runs("one", [*small, record_of(2, 0.5, spec={"grid": 8})])).boards
    chance = next(row for row in board.rows if row.model == CHANCE)
    assert chance.parts["4x4"].entries["pa"].mean == pytest.approx((2 / 16 + 1 / 64) / 3)
    assert [row for row in board.rows if row.kind == "published"] == []
