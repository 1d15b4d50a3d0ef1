"""W&B: really written offline and read back; silent without a run; refused online without a key."""

import json
from pathlib import Path

import pytest
import wandb
from PIL import Image

from eval_hooks.pictures import write_pictures
from eval_hooks.records import score_completion
from eval_hooks.run_files import Best
from eval_hooks.summary import mean_primary, summarize
from eval_hooks.wandb_log import check_wandb, log_evaluation, set_summary, standing, start_wandb
from eval_hooks.wandb_points import Points

KEY = "0123456789abcdef0123456789abcdef01234567"
HOSTILE = "<script>\x00\x1b[31m\ud800" + "x" * 10_000


def finish() -> None:
    wandb.finish()
    wandb.teardown()  # returns when W&B's own process has written everything


@pytest.fixture
def evaluation(mixture_of, completion_of, tmp_path):
    """(mixture, records, pictures) of two puzzles per part: the right answer and a hostile one."""
    mixture = mixture_of(2)
    texts = [p.task.gold(p.puzzle.target) if p.index == 0 else HOSTILE for p in (mixture[i] for i in range(4))]
    records = [score_completion(mixture[i], completion_of(text), model="m", step=25) for i, text in enumerate(texts)]
    return mixture, records, write_pictures(tmp_path / "pictures", mixture, records, count=2)


def test_an_offline_run_holds_metrics_table_and_pictures(
    no_login, evaluation, recipe_of, tmp_path, read_offline_runs, monkeypatch, capfd
):
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("W&B asked a question"))
    _, records, pictures = evaluation
    summary = summarize(records)
    start_wandb(recipe_of(), {"git_commit": "abc"})
    log_evaluation(Points(tmp_path / "run"), "eval", 25, standing("eval", summary, Best(20, 0.75)), records, pictures)
    finish()

    ids, config, (row,) = read_offline_runs(tmp_path / "run")
    assert len(ids) == 1
    assert config["recipe"]["name"] == "quickstart"
    assert config["provenance"] == {"git_commit": "abc"}
    assert row["train/global_step"] == 25
    assert row["eval/2x2/pa"] == summary["2x2"].means["pa"]
    assert row["eval/2x2/invalid"] == 0.5
    assert row["eval/score"] == mean_primary(summary)
    assert (row["best/step"], row["best/score"]) == (20, 0.75)
    assert row["eval/records/nrows"] == 4
    assert row["eval/pictures/2x2/count"] == 2
    (files,) = (tmp_path / "run/wandb").glob("offline-run-*/files")
    (table,) = files.glob("media/table/**/*.table.json")
    texts = [line[-1] for line in json.loads(table.read_text())["data"]]
    assert records[0].text in texts
    assert any(text.startswith("<script>\\x00\\x1b[31m\\ud800x") and len(text) < 1000 for text in texts)
    assert len(list(files.glob("media/images/**/*.png"))) == sum(map(len, pictures.values()))
    assert "wandb" not in "".join(capfd.readouterr())


def test_an_id_that_a_full_disk_left_empty_is_made_anew(no_login, recipe_of, tmp_path, read_offline_runs):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/wandb_id.txt").touch()
    start_wandb(recipe_of("resume=true"))
    finish()
    ids, *_ = read_offline_runs(tmp_path / "run")
    assert ids == {(tmp_path / "run/wandb_id.txt").read_text().strip()}


def test_a_resumed_run_goes_on_under_its_id(no_login, recipe_of, tmp_path, read_offline_runs):
    for step in (1, 2):
        start_wandb(recipe_of(f"resume={str(step > 1).lower()}"))
        log_evaluation(Points(tmp_path / "run"), "eval", step, {"eval/2x2/pa": step / 10}, [], {})
        finish()
    ids, _, history = read_offline_runs(tmp_path / "run")
    assert ids == {(tmp_path / "run/wandb_id.txt").read_text().strip()}
    assert sorted(row["eval/2x2/pa"] for row in history) == [0.1, 0.2]


def test_a_step_that_an_earlier_process_logged_is_not_logged_again(
    no_login, recipe_of, tmp_path, read_offline_runs, read_summary
):
    for value, steps in ((1, (10, 20)), (2, (20, 30))):
        start_wandb(recipe_of(f"resume={str(value > 1).lower()}"))
        points = Points(tmp_path / "run")
        for step in steps:
            log_evaluation(points, "eval", step, {"eval/score": value}, [], {})
        log_evaluation(points, "final", steps[-1], {"final/score": value}, [], {})
        finish()
    *_, history = read_offline_runs(tmp_path / "run")
    found = [(row["train/global_step"], row["eval/score"]) for row in history if "eval/score" in row]
    assert sorted(found) == [(10, 1), (20, 1), (30, 2)]
    assert [row["train/global_step"] for row in history if "final/score" in row] == [20, 30]
    assert read_summary(tmp_path / "run")["eval/score"] == 2


def test_a_new_run_in_the_same_folder_has_points_of_its_own(no_login, recipe_of, tmp_path):
    for _ in range(2):
        start_wandb(recipe_of())
        points = Points(tmp_path / "run")
        assert points.due("eval", 1)
        points.add("eval", 1)
        assert not Points(tmp_path / "run").due("eval", 1)
        assert Points(tmp_path / "run").due("eval", 11)
        assert Points(tmp_path / "run").due("final", 1)
        finish()


def test_a_summary_is_set_without_a_point(no_login, recipe_of, tmp_path, read_offline_runs, read_summary):
    set_summary({"best/step": 1})  # where there is no run
    start_wandb(recipe_of())
    set_summary({"best/step": 2})
    finish()
    *_, history = read_offline_runs(tmp_path / "run")
    assert history == []
    assert read_summary(tmp_path / "run")["best/step"] == 2


def test_a_new_run_in_a_folder_that_had_one_gets_an_id_of_its_own(no_login, recipe_of, tmp_path, read_offline_runs):
    for _ in range(2):
        start_wandb(recipe_of())
        finish()
    ids, *_ = read_offline_runs(tmp_path / "run")
    assert len(ids) == 2


def test_disabled_starts_nothing_and_logging_does_nothing(no_login, recipe_of, evaluation, tmp_path):
    start_wandb(recipe_of("wandb.mode=disabled"))
    assert wandb.run is None
    log_evaluation(Points(tmp_path / "run"), "eval", 25, {}, evaluation[1], {})
    assert not (tmp_path / "run").exists()


def test_online_without_a_key_is_refused_early_with_what_to_do(no_login, recipe_of, tmp_path):
    with pytest.raises(ValueError, match=r"WANDB_API_KEY.*wandb\.mode=offline"):
        start_wandb(recipe_of("wandb.mode=online"))
    assert not (tmp_path / "run").exists()


def test_a_key_in_the_environment_or_a_netrc_file_is_found(no_login, recipe_of, monkeypatch, tmp_path):
    online = recipe_of("wandb.mode=online")
    (tmp_path / "netrc").write_text(f"machine elsewhere.example\n login user\n password {KEY}\n")
    with pytest.raises(ValueError, match="got online"):
        check_wandb(online)
    (tmp_path / "netrc").write_text(f"machine api.wandb.ai\n login user\n password {KEY}\n")
    check_wandb(online)
    (tmp_path / "netrc").unlink()
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    check_wandb(online)


def test_the_key_is_in_no_file_of_an_offline_run(no_login, recipe_of, monkeypatch, tmp_path):
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    start_wandb(recipe_of())
    log_evaluation(Points(tmp_path / "run"), "eval", 1, {"eval/2x2/pa": 0.5}, [], {})
    finish()
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if KEY.encode() in Path(path).read_bytes()]


def test_pictures_are_files_a_person_can_open(evaluation, tmp_path):
    _, _, pictures = evaluation
    assert [path.name for path in pictures["2x2"]] == ["2x2-0000.png", "2x2-0001.png"]
    for path in pictures["2x2"]:
        with Image.open(path) as picture:
            assert picture.width > picture.height
