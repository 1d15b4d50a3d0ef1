"""The page of curves: of one run all there is, of several a line each, and no crash on what a log may hold."""

import json
import math

import pytest

from eval_hooks.run_files import write_manifest
from train.curves import chart, keys_of, main, points

ENTRY = {
    "loss": 0.1, "reward": 0.5, "rewards/pa/mean": 0.4, "rewards/pa/std": 0.1, "primary/2x2": 0.4, "kl": 0.01,
    "entropy": 0.3, "teaching/2x2": 0.9, "share/2x2": 0.75, "share/<3x3>": 0.25, "invalid/ended": None,
}  # fmt: skip


def save(run, log, step=None):
    folder = run / f"checkpoint-{step or len(log)}"
    folder.mkdir(parents=True)
    (folder / "trainer_state.json").write_text(json.dumps({"log_history": log}), encoding="utf-8")
    write_manifest(folder)


def logged(steps, **changes):
    return [ENTRY | changes | {"step": step} for step in range(1, steps + 1)]


@pytest.fixture
def run(tmp_path):
    save(tmp_path / "seed0", [*logged(4), {"step": 4, "train_runtime": 1.0}])
    return tmp_path / "seed0"


def test_a_run_is_drawn_from_its_newest_checkpoint(run, capsys):
    save(run, logged(9, reward=0.875))
    assert main([f"run={run}"]) == 0
    assert capsys.readouterr().out == f"written: {run / 'curves.html'}\n"
    page = (run / "curves.html").read_text(encoding="utf-8")
    for said in ("reward: 0.875 at step 9", "rewards/pa/mean", "primary/2x2", "teaching/2x2", "kl", "nats per token"):
        assert said in page
    assert "steps 0 to 8: 2x2 75.0 %" in page
    assert "share/" not in page
    assert "rewards/pa/std" not in page  # as little as entries without a value
    assert "invalid/ended" not in page


def test_what_a_log_names_is_escaped(run):
    main([f"run={run}"])
    page = (run / "curves.html").read_text(encoding="utf-8")
    assert "&lt;3x3&gt;" in page
    assert "<3x3>" not in page


def test_a_page_reaches_for_nothing(run):
    main([f"run={run}"])
    page = (run / "curves.html").read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    assert not any(outside in page for outside in ("http:", "https:", "url(", "@import", "<script", "href="))


def test_several_runs_are_lines_of_one_chart_for_each_key(run, tmp_path):
    save(tmp_path / "seed1", logged(6, **{"primary/2x2": 0.6}))
    out = tmp_path / "page.html"
    runs = f"runs={run},{tmp_path / 'seed1'}"
    assert main([runs, "key=primary/2x2", f"out={out}"]) == 0
    page = out.read_text(encoding="utf-8")
    assert page.count("<section>") == 1
    assert "seed0: 0.4 at step 4" in page
    assert "seed1: 0.6 at step 6" in page
    assert main([runs, f"out={out}"]) == 0
    assert out.read_text(encoding="utf-8").count("<section>") == 2  # reward and primary/2x2


def test_runs_of_one_name_are_told_apart_by_their_folders(run, tmp_path):
    save(tmp_path / "other" / "seed0", logged(2))
    out = tmp_path / "page.html"
    main([f"runs={run},{tmp_path / 'other' / 'seed0'}", f"out={out}", "key=reward"])
    assert f"{tmp_path / 'other' / 'seed0'}: 0.5" in out.read_text(encoding="utf-8")


def test_a_key_of_any_log_can_be_drawn(run):
    assert main([f"run={run}", "key=loss"]) == 0
    page = (run / "curves.html").read_text(encoding="utf-8")
    assert page.count("<section>") == 1
    assert "loss: 0.1" in page


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run={0}", "key=primary/2x3"], "did you mean primary/2x2?"),
        (["run={0}/nothing"], "without a complete checkpoint"),
        (["run={0}", "runs={0}"], "both run and runs"),
        (["key=reward"], "neither run nor runs"),
        (["runs=,"], "folders of runs"),
        (["run={0}", "ruin=1"], "ruin: got an unknown name"),
        (["run={0}", "out={0}/missing/page.html"], "missing"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_what_to_do(run, words, said, capsys):
    assert main([word.format(run) for word in words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"log_history": [1]}', '{"log_history": []}', '{"log_history": null}']
)
def test_a_checkpoint_without_a_log_is_refused(tmp_path, text, capsys):
    save(tmp_path, logged(1))
    (tmp_path / "checkpoint-1" / "trainer_state.json").write_text(text, encoding="utf-8")
    write_manifest(tmp_path / "checkpoint-1")
    assert main([f"run={tmp_path}"]) == 2
    assert "log" in capsys.readouterr().err


def test_a_long_log_is_drawn_as_means_that_lose_nothing():
    log = [{"step": step, "reward": float(step)} for step in range(1, 1001)]
    drawn = points(log, "reward")
    assert len(drawn) == 143  # of seven entries each, the last of six
    assert drawn[0] == (4.0, 4.0)
    assert drawn[-1] == (997.5, 997.5)


def test_values_that_are_none_or_not_finite_are_left_out():
    log = [{"step": step, "kl": value} for step, value in enumerate([None, math.nan, 0.5, math.inf], 1)]
    assert points(log, "kl") == [(3.0, 0.5)]
    assert points(log, "entropy") == []
    assert keys_of([log], ["kl", "entropy"]) == ["kl"]


@pytest.mark.parametrize("value", [0.0, -2.5, 1e-15, 12345.0])
def test_a_line_stays_within_its_chart_whatever_its_values(value):
    text = chart({"a": [(1.0, value)], "b": [(1.0, 0.0), (5.0, value)]}, "unit", 5)
    heights = [float(line.split('"')[0]) for line in text.split(' y1="')[1:]]
    path = text.split('d="M')[1].split('"')[0]
    assert min(heights) <= float(path.split("h")[0].split()[1]) <= max(heights)
    assert len(heights) >= 3
