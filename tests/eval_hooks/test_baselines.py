"""Programs as baselines: kept records, tables that show them, and what is refused."""

from pathlib import Path

import pytest

from eval_hooks import baselines
from eval_hooks.baselines import FILE, main, parse_request, read_solved, solve
from eval_hooks.callback import solved_or_nothing
from eval_hooks.records import read_records, score_completion
from eval_hooks.summary import summarize, table

PROGRAMS = ["vision-free solver", "joint solver"]


@pytest.fixture
def asked(in_tmp_path, shared_folder):
    """A command line for a few tiny puzzles."""
    index = f"data.photos.index={shared_folder / 'photos.json'}"
    probe = "data.parts.missing={task: probes, count: 4}"
    return ["recipe=quickstart", "eval.require=null", index, probe, "workers=1"]


def test_programs_answer_each_puzzle_once_and_go_on_where_they_were(asked, monkeypatch, capsys):
    two = solve(parse_request([*asked, "count=2"]))
    assert [(record.model, record.index, record.protocol) for record in two] == [
        (program, index, "solver") for index in range(2) for program in PROGRAMS
    ]
    calls = []
    real = baselines.solve_in_processes
    monkeypatch.setattr(
        baselines, "solve_in_processes", lambda mixture, missing, n: calls.append(missing) or real(mixture, missing, n)
    )
    three = solve(parse_request([*asked, "count=3"]))
    assert calls == [[(2, program) for program in PROGRAMS]]
    assert three[:4] == two
    assert read_records(FILE).records == three
    assert {record.part for record in three} == {"2x2"}
    assert all(record.scores["em"] == 1 for record in three)  # flats decide a 2x2


def test_the_command_prints_a_table_for_each_program(asked, capsys):
    assert main([*asked, "count=3"]) == 0
    said = capsys.readouterr().out
    assert [line for line in said.splitlines() if "solver (" in line] == [f"{p} (eval split, %)" for p in PROGRAMS]
    assert said.count("flats only") == 2


def test_a_table_shows_the_programs_that_have_solved_all_of_its_puzzles(asked, mixture_of, completion_of):
    solve(parse_request([*asked, "count=2"]))
    mixture = mixture_of(3)
    records = [score_completion(mixture[i], completion_of("no idea"), model="m") for i in range(3)]
    solved = read_solved()
    assert set(summarize(records[:2], solved)["2x2"].baselines) == {"random", "flats only", *PROGRAMS}
    assert set(summarize(records, solved)["2x2"].baselines) == {"random", "flats only"}
    (row,) = (line for line in table(summarize(records[:2], solved)).splitlines() if "joint solver" in line)
    assert row.split()[2:4] == ["100.0", "100.0"]


def test_recipes_without_puzzles_for_programs_are_refused(asked, capsys):
    assert main([*asked, "data.parts.2x2=null"]) == 2
    assert "no puzzle that a program can solve; allowed: parts of jigshape" in capsys.readouterr().err
    assert main([*asked, "split=train"]) == 2
    assert 'split: got "train"; allowed: eval | test' in capsys.readouterr().err


def test_a_file_of_something_else_is_not_read_as_baselines(asked, capsys):
    Path(".cache").mkdir()
    FILE.write_text("{}\n")
    assert main(asked) == 2
    assert "baselines.jsonl, line 1" in capsys.readouterr().err


def test_a_damaged_file_of_baselines_does_not_stop_a_run(in_tmp_path, caplog):
    Path(".cache").mkdir()
    for damage in ("nonsense\n{}\n", "[" * 200_000 + "\n\n"):
        FILE.write_text(damage)
        assert solved_or_nothing() == {}
    assert "the tables go without" in caplog.text
