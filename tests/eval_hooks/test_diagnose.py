"""What went wrong in real records of several tasks, and what is refused."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest
import skimage.data
from PIL import Image

from data_mix.mixture import Posed
from eval_hooks.diagnose import diagnose_part, main, parse_request
from eval_hooks.record_parts import giver_of, read_parts
from eval_hooks.records import score_completion, write_records
from tasks import TASKS
from tasks.photo import as_photo

JIGSAW = {"grid": 4, "piece_px": 24, "tab_ratio": 0.3}
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def records_of(completion_of):
    """`records_of(task, spec, *answers, part=...)`: answer i, a text or a function of the target, to puzzle i."""
    photo = as_photo(Image.fromarray(skimage.data.astronaut()))

    def build(name, spec, *answers, part="4x4", step=1, model="m"):
        task = TASKS[name]
        spec, records = task.Spec(**spec), []
        for index, answer in enumerate(answers):
            puzzle = task.pose(spec, photo if task.board(spec) else None, index)
            text = answer if isinstance(answer, str) else answer(puzzle.target)
            posed = Posed(part=part, split="eval", index=index, puzzle=puzzle, photo=None)
            records.append(score_completion(posed, completion_of(text), model=model, step=step))
        return records

    return build


def by_id(cells):
    return json.dumps({str(index): cell for index, cell in enumerate(cells)})


def gold(target):
    return by_id(target["cells"])


def transposed(target):
    return by_id([cell[::-1] for cell in target["cells"]])


def swapped(target):
    """The pieces of the first two cells of row 0 exchanged."""
    cells = list(target["cells"])
    one, two = cells.index([0, 0]), cells.index([0, 1])
    cells[one], cells[two] = cells[two], cells[one]
    return by_id(cells)


def shifted(target):
    return by_id([[(row + 1) % 4, column] for row, column in target["cells"]])


def test_transposed_answers_are_found_and_lie_on_the_antidiagonal(records_of):
    said = diagnose_part("4x4", records_of("jigshape", JIGSAW, *[transposed] * 3)).said
    assert said.shares["transposed"] == 1
    assert said.in_place == 1 / 4  # the diagonal
    rows = enumerate(said.displacement, start=-3)
    found = {(row, column): n for row, counts in rows for column, n in enumerate(counts, start=-3) if n}
    assert found == {(step, -step): 3 * (4 - abs(step)) for step in range(-3, 4)}


def test_one_swap_is_counted_exactly(records_of):
    said = diagnose_part("4x4", records_of("jigshape", JIGSAW, gold, swapped, gold, gold)).said
    assert (said.lengths["wrong"], said.lengths["swapped"]) == (2 / 4, 1 / 4)
    assert said.lengths["wrong_look"] + said.lengths["wrong_shape"] == said.lengths["wrong"]
    assert said.in_place == 62 / 64
    assert (said.displacement[3][2], said.displacement[3][4]) == (1, 1)


def test_where_edges_do_not_fit_is_told_by_place(records_of):
    said = diagnose_part("4x4", records_of("jigshape", JIGSAW, gold, shifted)).said
    assert said.grids["fits_across"] == [[1.0] * 3] * 4
    assert said.grids["fits_down"] == [[0.5] * 4, [1.0] * 4, [1.0] * 4]  # flats meet below row 0
    assert said.displacement[4][3] == 12
    assert said.displacement[0][3] == 4


def test_invalid_answers_are_counted_by_reason_and_have_no_edges(records_of):
    said = diagnose_part("4x4", records_of("jigshape", JIGSAW, "no idea", "{", "none", gold)).said
    assert {text: each.count for text, each in said.texts["reason"].items()} == {"no_json": 3}
    assert said.counts["fits_across"] == 1
    nothing = diagnose_part("4x4", records_of("jigshape", JIGSAW, "no idea")).said
    assert nothing.displacement is None
    assert nothing.grids == {}


def test_sub_skills_and_probes_are_diagnosed_likewise(records_of):
    right = {name: TASKS[name].gold for name in TASKS}
    edges = records_of("piece_edges", {"puzzle": JIGSAW}, right["piece_edges"], "flat, flat, flat, flat", part="edges")
    wrong = diagnose_part("edges", edges).said
    assert wrong.lengths["wrong"] == sum(each.count for each in wrong.texts["wrong"].values()) / 2 > 0
    fit = records_of("pieces_fit", {"puzzle": JIGSAW}, *[right["pieces_fit"]] * 5, part="fit")
    pairs = diagnose_part("fit", fit).said.texts["pair"]
    assert sum(each.count for each in pairs.values()) == 5
    assert {each.score for each in pairs.values()} == {1.0}
    cell = records_of("piece_cell", {"puzzle": JIGSAW}, right["piece_cell"], "nowhere", part="cell")
    assert diagnose_part("cell", cell).said.in_place == 1
    missing = {"kind": "grid_missing", "grid": 3, "cell_px": 21}
    probe = records_of("probes", missing, right["probes"], "1", "?", part="missing")
    said = diagnose_part("missing", probe).said
    assert len(said.displacement) == 5
    assert sum(map(sum, said.displacement)) == 2


def test_the_command_writes_pictures_and_aggregates_beside_the_records(records_of, tmp_path):
    file = tmp_path / "final.jsonl"
    edges = records_of("piece_edges", {"puzzle": JIGSAW}, "tab, tab, tab, tab", part="edges")
    write_records(file, [*records_of("jigshape", JIGSAW, swapped, transposed, "no idea"), *edges])
    command = [sys.executable, "-m", "eval_hooks.diagnose", f"records={file}"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert max(map(len, result.stdout.splitlines()[:-1])) <= 120
    assert "4x4 reason: no_json 1\n" in result.stdout
    out = tmp_path / "final-diagnosis"
    assert {path.name for path in out.iterdir()} == {"4x4-displacement.png", "4x4-fits.png", "diagnosis.json"}
    stored = json.loads((out / "diagnosis.json").read_text())
    assert (stored["model"], stored["step"]) == ("m", 1)
    assert stored["parts"]["4x4"]["shares"]["transposed"] == pytest.approx(1 / 3)
    assert stored["parts"]["edges"]["task"] == "piece_edges"


def test_several_files_and_one_part_can_be_asked_for(records_of, tmp_path, capsys):
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    write_records(one, records_of("jigshape", JIGSAW, gold, part="a"))
    write_records(two, records_of("jigshape", JIGSAW, gold, part="b"))
    assert list(read_parts([one, two])) == ["a", "b"]
    assert main([f"records={one}", f"records={two}", "part=b", f"out={tmp_path / 'out'}"]) == 0
    assert (tmp_path / "out" / "b-fits.png").is_file()
    assert not (tmp_path / "out" / "a-fits.png").exists()
    assert main([f"records={one}", "part=c"]) == 2
    assert 'part: got "c"; allowed: a' in capsys.readouterr().err


def test_records_of_several_kinds_are_refused_unless_a_part_leaves_one(records_of, tmp_path, capsys):
    file = tmp_path / "mixed.jsonl"
    write_records(file, records_of("jigshape", JIGSAW, gold, part="a") + records_of("jigshape", JIGSAW, gold, step=2))
    assert main([f"records={file}"]) == 2
    said = capsys.readouterr().err
    assert "m at step 1 (greedy, eval split) in a; m at step 2 (greedy, eval split) in 4x4" in said
    assert not (tmp_path / "mixed-diagnosis").exists()
    assert main([f"records={file}", "part=a"]) == 0
    with pytest.raises(ValueError, match=r"m at step 1.*n at step 1"):
        giver_of({"a": [*records_of("jigshape", JIGSAW, gold), *records_of("jigshape", JIGSAW, gold, model="n")]})


def test_an_answer_that_is_there_twice_is_refused(records_of, tmp_path):
    file = tmp_path / "final.jsonl"
    write_records(file, records_of("jigshape", JIGSAW, gold))
    with pytest.raises(ValueError, match=r"sample 0 of jigshape-.* 2 times"):
        read_parts([file, file])


HOSTILE = ["../../escaped", "/escaped", "a/b", "a\\b", "..", "", "a\nb", "\x1b[2J", "\ud800", "a" * 300]


@pytest.mark.parametrize("part", HOSTILE, ids=ascii)
def test_a_part_whose_name_could_name_another_file_is_refused(part, records_of, tmp_path, capsys):
    file = tmp_path / "in" / "final.jsonl"
    file.parent.mkdir()
    write_records(file, records_of("jigshape", JIGSAW, gold, part=part))
    assert main([f"records={file}", f"out={tmp_path / 'in' / 'out'}"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: part: got ")
    assert said.rstrip("\n").isprintable()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [file]


def test_a_hostile_model_name_is_drawn_and_printed_as_one_harmless_line(records_of, tmp_path, capsys):
    file = tmp_path / "final.jsonl"
    write_records(file, records_of("jigshape", JIGSAW, gold, model="../\x1b[2J\nx\ud800" + "y" * 500))
    assert main([f"records={file}"]) == 0
    assert "\x1b" not in capsys.readouterr().out
    assert (tmp_path / "final-diagnosis" / "4x4-displacement.png").is_file()


def test_records_of_another_version_are_diagnosed_and_said(records_of, tmp_path, capsys):
    file = tmp_path / "old.jsonl"
    write_records(file, [dataclasses.replace(r, version=0) for r in records_of("jigshape", JIGSAW, gold)])
    assert main([f"records={file}"]) == 0
    assert f"part 4x4: scored by jigshape version 0, diagnosed by version {TASKS['jigshape'].version}" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"task": "chess"}, "part 4x4: task: got chess; allowed: jigshape"),
        ({"spec": {"grid": 4, "colour": 1}}, "part 4x4, index 0: got a spec or target that"),
        ({"target": {"grid": 4}}, "part 4x4, index 0: got a spec or target that"),
    ],
)
def test_what_no_task_can_read_is_refused_with_its_place(change, said, records_of, tmp_path, capsys):
    file = tmp_path / "other.jsonl"
    write_records(file, [dataclasses.replace(r, **change) for r in records_of("jigshape", JIGSAW, gold)])
    assert main([f"records={file}"]) == 2
    assert said in capsys.readouterr().err


def test_a_torn_last_line_is_left_out(records_of, tmp_path):
    file = tmp_path / "torn.jsonl"
    write_records(file, records_of("jigshape", JIGSAW, gold, gold))
    file.write_bytes(file.read_bytes()[:-20])
    assert [record.index for record in read_parts([file])["4x4"]] == [0]


def test_files_without_records_are_refused(tmp_path, capsys):
    empty, other = tmp_path / "empty.jsonl", tmp_path / "other.jsonl"
    empty.write_text("")
    other.write_text("{}\n")
    assert main([f"records={empty}"]) == 2
    assert "empty.jsonl without a whole record; allowed: scored answers" in capsys.readouterr().err
    assert main([f"records={other}"]) == 2
    assert "other.jsonl, line 1" in capsys.readouterr().err


def test_every_problem_of_the_command_line_is_told_at_once(tmp_path):
    with pytest.raises(ValueError) as raised:
        parse_request([f"records={tmp_path / 'none.jsonl'}", "out=", "part=a", "part=b", "prat=c"])
    lines = str(raised.value).splitlines()
    assert [line.split(":")[0] for line in lines] == ["out", "prat", "part", "records"]
    with pytest.raises(ValueError, match="records: got nothing"):
        parse_request(["part=a"])
    assert main([]) == 2
    assert main(["--help"]) == 0
