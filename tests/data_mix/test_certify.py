"""python -m data_mix.certify: what it says of puzzles, and what it refuses."""

import json
import os
import subprocess
import sys
from pathlib import Path

from data_mix.certify import Examined, main, table

ROOT = Path(__file__).resolve().parents[2]
SMALL = [
    "recipe=mixed_grid", "model=tiny_qwen3_vl", "data.photos.use=reuse", "data.photos.index=index.jsonl",
    "data.photos.shares.eval=0.3", "data.parts.12x12=null", "data.parts.16x16=null",
    *(f"data.parts.{name}.spec.piece_px=32" for name in ("4x4", "8x8")),
    "data.parts.blank={task: probes, count: 1}",
]  # fmt: skip


def test_the_command_examines_puzzles_in_processes_and_lists_the_doubtful_ones(in_tmp_path):
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "data_mix.certify", *SMALL, "count=6", "out=lists/doubtful.jsonl"]
    done = subprocess.run(command, cwd=in_tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split()[:4] == ["part", "puzzles", "certified", "unique"]
    assert [line.split()[:2] for line in lines[1:3]] == [["4x4", "6"], ["8x8", "6"]]
    listed = [json.loads(line) for line in Path("lists/doubtful.jsonl").read_text().splitlines()]
    assert lines[3].startswith(f"{len(listed)} of 12 puzzles are not certified")
    assert all(each["holds"]["certified"] is False for each in listed)


def test_shares_are_of_the_puzzles_where_a_statement_was_decided():
    undecided = {"certified": True, "unique": None}
    holds = [undecided, {"certified": False, "unique": True}, undecided]
    examined = [Examined("a", i, str(i), None, each) for i, each in enumerate(holds)]
    examined.append(Examined("b", 0, "b", None, undecided))
    assert [line.split() for line in table(examined).splitlines()] == [
        ["part", "puzzles", "certified", "unique"],
        ["a", "3", "66.7", "100.0"],
        ["b", "1", "100.0", "-"],
    ]


def test_what_cannot_be_examined_is_refused(in_tmp_path, capsys):
    drawn = ["recipe=quickstart", "data.photos.index=index.jsonl", "data.parts.2x2=null", "eval.require=null"]
    assert main([*drawn, "data.parts.x={task: probes, count: 1}", "split=train"]) == 2
    assert "no puzzle that can be examined; allowed: parts of jigshape" in capsys.readouterr().err
    assert main([*drawn, "split=dev", "count=0"]) == 2
    said = capsys.readouterr().err
    assert 'split: got "dev"' in said
    assert 'count: got "0"' in said
