"""The leaderboard in W&B: really written offline and read back."""

import json

import pytest
import wandb

from eval_hooks import leaderboard
from eval_hooks.leaderboard import make
from eval_hooks.records import Record, write_records
from eval_hooks.wandb_board import _artifacts, main

KEY = "0123456789abcdef0123456789abcdef01234567"


def records_of(pa, step, **changes):
    fields = {
        "task": "jigshape", "version": 2, "split": "eval", "part": "4x4", "spec": {"grid": 4}, "photo_id": None,
        "target": {}, "prompt_hash": "", "text": "{}", "finish_reason": "stop", "completion_tokens": 1, "answer": None,
        "invalid": None, "scores": {"pa": pa}, "seconds": 0.0, "sample": 0, "protocol": "greedy", "model": "m",
        "step": step,
    }  # fmt: skip
    return [
        Record(**{"key": f"jigshape-{index}", "index": index, "seed": index} | fields | changes) for index in range(4)
    ]


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Two runs, one of a name that W&B does not take; no key anywhere, and W&B's own files in tmp_path."""
    for name in ("WANDB_API_KEY", "WANDB_BASE_URL", "WANDB_MODE", "WANDB_DIR", "WANDB_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    for name in ("WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setattr(leaderboard, "read_solved", dict)
    folder = tmp_path / "runs"
    write_records(folder / "one" / "records" / "step-000001.jsonl", records_of(0.75, 1))
    write_records(folder / "one" / "records" / "step-000002.jsonl", records_of(0.5, 2))
    write_records(folder / "b<>" / "records" / "final.jsonl", records_of(0.25, 3))
    yield folder
    wandb.teardown()


def test_a_leaderboard_made_twice_is_one_run_with_a_table_and_artifacts(runs, offline_messages, capsys):
    assert main([f"runs={runs}"]) == 0
    assert main([f"runs={runs}"]) == 0
    wandb.teardown()  # returns when W&B's own process has written everything
    assert f"1 boards, 3 files of records: {runs / 'wandb'}" in capsys.readouterr().out
    messages = offline_messages(runs)
    started = [message.run for message in messages if message.WhichOneof("record_type") == "run"]
    assert {(run.run_id, run.job_type) for run in started} == {("leaderboard-main", "leaderboard")}
    folders = sorted(runs.glob("wandb/offline-run-*"))
    (table,) = folders[-1].glob("files/media/table/**/*.table.json")
    stored = json.loads(table.read_text())
    rows = [dict(zip(stored["columns"], row, strict=True)) for row in stored["data"]]
    assert [(row["rank"], row["run"], row["step"]) for row in rows if row["kind"] == "run"] == [
        (1, "one", 1), (2, "one", 2), (3, "b<>", 3),
    ]  # fmt: skip
    assert {row["rank"] for row in rows if row["kind"] != "run"} == {None}
    kept = [message.artifact for message in messages if message.WhichOneof("record_type") == "artifact"]
    logged = [(each.name, set(each.aliases) - {"latest"}) for each in kept if each.type == "records"]
    assert len({name for name, _ in logged}) == 2
    aliases = [aliases for name, aliases in logged if name == "records-one"]
    assert aliases == [{"step-000001", "best"}, {"step-000002"}] * 2
    assert [aliases for name, aliases in logged if name != "records-one"] == [{"final", "best"}] * 2


def test_the_published_protocol_says_which_checkpoint_is_the_best(runs, offline_messages):
    """Only the worse checkpoint was asked under another protocol, and is the best there."""
    write_records(runs / "one" / "records" / "x.jsonl", records_of(0.5, 2, protocol="constrained"))
    assert main([f"runs={runs}"]) == 0
    wandb.teardown()
    kept = [message.artifact for message in offline_messages(runs) if message.WhichOneof("record_type") == "artifact"]
    best = [set(each.aliases) for each in kept if each.name == "records-one" and "best" in each.aliases]
    assert [aliases - {"latest", "best"} for aliases in best] == [{"step-000001"}]


def best_files(folder):
    """The names of the files that bear the alias, without W&B's part of it."""
    return {aliases[0] for _, aliases in _artifacts(folder, make(folder)) if "best" in aliases}


def test_best_are_the_records_that_hold_the_best_row(tmp_path, monkeypatch):
    """The last evaluation is of another step, and a later one asked the best step of one more part."""
    monkeypatch.setattr(leaderboard, "read_solved", dict)
    run = tmp_path / "one" / "records"
    write_records(run / "final.jsonl", records_of(0.25, 300))
    write_records(run / "x-step-000100.jsonl", records_of(0.75, 100))
    write_records(run / "y-step-000100.jsonl", records_of(0.5, 100, part="8x8", spec={"grid": 8}))
    assert best_files(tmp_path) == {"x-step-000100"}


def test_the_board_with_the_most_rows_of_a_run_says_which_is_the_best(tmp_path, monkeypatch):
    monkeypatch.setattr(leaderboard, "read_solved", dict)
    run = tmp_path / "one" / "records"
    write_records(run / "a.jsonl", records_of(0.5, 1))
    for step, pa in ((2, 0.25), (3, 0.75)):
        write_records(run / f"constrained-{step}.jsonl", records_of(pa, step, protocol="constrained"))
    assert best_files(tmp_path) == {"constrained-3"}


def test_the_leader_is_in_the_summary(runs, offline_messages):
    assert main([f"runs={runs}", "name=other"]) == 0
    wandb.teardown()
    said = {}
    for message in offline_messages(runs):
        if message.WhichOneof("record_type") == "summary":
            said |= {
                item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in message.summary.update
            }
    leader = {key.rpartition("/")[2]: value for key, value in said.items() if key.startswith("leader/")}
    assert (leader["run"], leader["step"]) == ("one", 1)
    assert leader["score"] == pytest.approx((0.75 - 1 / 16) / (15 / 16))
    assert leader["low"] < leader["score"] < leader["high"]


def test_online_without_a_key_is_refused_before_anything_is_written(runs, capsys):
    assert main([f"runs={runs}", "mode=online", "name=../x"]) == 2
    said = capsys.readouterr().err
    assert "do export WANDB_API_KEY" in said
    assert "name: got" in said
    assert not (runs / "wandb").exists()


def test_the_key_is_in_no_file(runs, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    assert main([f"runs={runs}"]) == 0
    wandb.teardown()
    files = [path for path in runs.parent.rglob("*") if path.is_file()]
    assert any(path.suffix == ".wandb" for path in files)
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
