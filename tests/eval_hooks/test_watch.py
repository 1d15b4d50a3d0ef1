"""The watch: what it holds and gives back, whom it judges, how often, and what it refuses."""

import dataclasses
import json
import os
import shutil
import signal
import sys

import pytest
import wandb

from eval_hooks.children import StalledError, check_alive, started
from eval_hooks.held import WATCH, holding
from eval_hooks.records import read_records, score_completion, write_records
from eval_hooks.run_files import checkpoints, read_best, records_file
from eval_hooks.vllm_server import Server, model_words, server_problems
from eval_hooks.wandb_beside import log_beside
from eval_hooks.watch import watch
from eval_hooks.watch_request import Request, parse_request
from recipes.loader import RecipeError, to_yaml
from train.checkpoints import PARTIAL, publish
from train.run_folder import open_run_folder

STAND_IN = """
import json, pathlib, shutil, subprocess, sys
words = dict(word.partition("=")[::2] for word in sys.argv[1:])
out = pathlib.Path(words["out"])
assert pathlib.Path(words["checkpoint"], "weights").read_text() == str(int(out.stem.split("-")[1]))
with open("asked.txt", "a") as file:
    print(out.stem, file=file)
script = pathlib.Path(out.stem + ".py")
if script.exists():
    subprocess.run([sys.executable, script], check=True)
prepared = pathlib.Path("prepared", out.name)
if not prepared.exists():
    sys.exit("no answers for " + out.stem)
out.parent.mkdir(exist_ok=True)
shutil.copyfile(prepared, out)
"""
"""Takes the place of eval_hooks.run: gives the prepared answers, after running step-N.py if there is such a file."""


@pytest.fixture
def run(in_tmp_path, recipe_of):
    """The folder of a run with eval.count=0, without checkpoints."""
    folder = in_tmp_path / "run"
    folder.mkdir()
    (folder / "recipe.yaml").write_text(to_yaml(recipe_of("eval.count=0", "train.checkpoint_every=1")))
    return folder


def save(run, step, *, keep=None, last=9, weights=None):
    """Save a checkpoint as training does, and prune."""
    aside = run / PARTIAL / f"checkpoint-{step}"
    aside.mkdir(parents=True)
    (aside / "weights").write_text(str(weights or step))
    (aside / "trainer_state.json").write_text(json.dumps({"max_steps": last}))
    publish(run, step, keep)


def call_best(run, step):
    (run / "best.json").write_text(json.dumps({"step": step, "score": 0.5}))


# ---- holding ----


def test_what_is_held_outlives_pruning_and_the_best_is_given_back(run):
    for step in (1, 2, 3):
        save(run, step)
    with holding(run) as held:
        for folder in checkpoints(run).values():
            held.take(folder)
        save(run, 4, keep=1)
        assert list(checkpoints(run)) == [4]
        assert list(held.complete()) == [1, 2, 3]
        assert held.restore(2)
    assert list(checkpoints(run)) == [2, 4]
    assert (run / "checkpoint-2/weights").read_text() == "2"
    assert not (run / WATCH).exists()


def test_a_checkpoint_that_was_given_back_is_neither_resumed_from_nor_counted(run, recipe_of):
    save(run, 1)
    with holding(run) as held:
        held.take(run / "checkpoint-1")
        save(run, 2, keep=1)
        call_best(run, 1)
        held.restore(1)
    assert open_run_folder(recipe_of("eval.count=0", "train.checkpoint_every=1", "resume=true")).name == "checkpoint-2"
    save(run, 3, keep=2)
    assert list(checkpoints(run)) == [1, 2, 3]
    call_best(run, 3)
    save(run, 4, keep=2)
    assert list(checkpoints(run)) == [3, 4]


def test_nothing_is_given_back_that_is_there_or_would_be_the_newest(run):
    for step in (1, 2):
        save(run, step)
    with holding(run) as held:
        for folder in checkpoints(run).values():
            held.take(folder)
        assert not held.restore(1)
        shutil.rmtree(run / "checkpoint-2")
        assert not held.restore(2)


def test_holding_takes_no_space_and_a_checkpoint_saved_again_replaces_what_is_held(run):
    save(run, 1)
    with holding(run) as held:
        held.take(run / "checkpoint-1")
        assert os.path.samefile(run / "checkpoint-1/weights", held.complete()[1] / "weights")
        save(run, 1, weights=7)
        held.take(run / "checkpoint-1")
        assert (held.complete()[1] / "weights").read_text() == "7"


def test_what_a_killed_watch_left_is_taken_up_or_cleared(run):
    for step in (1, 2, 3):
        save(run, step)
    for step in (1, 2):
        shutil.copytree(run / f"checkpoint-{step}", run / WATCH / f"checkpoint-{step}", copy_function=os.link)
    (run / WATCH / "checkpoint-2/weights").unlink()
    shutil.rmtree(run / "checkpoint-1")
    with holding(run) as held:
        assert list(held.complete()) == [1]
        held.keep_only({1, 2})
        assert sorted(path.name for path in (run / WATCH).glob("checkpoint-*")) == ["checkpoint-1"]
        held.take(run / "checkpoint-2")
        assert list(held.complete()) == [1, 2]


def test_where_there_are_no_hard_links_it_is_said_and_nothing_is_held(run, monkeypatch, caplog):
    def refuse(*_):
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    save(run, 1)
    with holding(run) as held:
        held.take(run / "checkpoint-1")
        held.take(run / "checkpoint-1")
        assert held.complete() == {}
    assert caplog.text.count("cannot be held by hard links") == 1
    assert "train.keep_checkpoints" in caplog.text


def test_a_second_watch_of_a_run_is_refused_until_the_first_has_ended(run):
    with holding(run), pytest.raises(ValueError, match="which another watch judges"), holding(run):
        pass
    with holding(run):
        assert (run / WATCH).exists()


def test_what_a_program_has_started_ends_with_it(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    words = ["sh", "-c", f"sleep 1000 > {tmp_path / 'pipe'} & wait"]
    with started(words, tmp_path / "log", signal.SIGTERM):
        pipe = (tmp_path / "pipe").open("rb")
    with pipe:
        assert pipe.read() == b""  # which comes when nobody can write to it any more


# ---- judging ----


@pytest.fixture
def prepare(run, mixture_of, completion_of):
    """`prepare(step, right)`: the answers of a checkpoint, `right` of two puzzles' right."""
    mixture = mixture_of(2, "data.parts.missing=null")

    def write(step, right=0, into="prepared"):
        posed = [mixture[index] for index in range(2)]
        texts = [p.task.gold(p.puzzle.target) if p.index < right else "no" for p in posed]
        records = [
            score_completion(p, completion_of(t), model="quickstart", step=step)
            for p, t in zip(posed, texts, strict=True)
        ]
        write_records(run.parent / into / records_file(run, step).name, records)

    return write


@pytest.fixture
def request_of(run, recipe_of):
    """`request_of(**changed)`: ask the stand-in for two puzzles of each checkpoint."""
    (run.parent / "stand_in.py").write_text(STAND_IN)
    recipe = recipe_of("eval.count=2", "data.parts.missing=null", "train.checkpoint_every=1", "wandb.mode=disabled")
    plain = Request(run, recipe, (), 0.01, False, (sys.executable, "stand_in.py"), None)
    return lambda **changed: dataclasses.replace(plain, **changed)


def asked(run):
    return (run.parent / "asked.txt").read_text().split()


def test_checkpoints_are_judged_in_order_once_and_the_best_is_named(run, prepare, request_of):
    for step, right in ((2, 1), (9, 1), (10, 0)):
        prepare(step, right)
        save(run, step, last=10)
    said = []
    text, complete = watch(request_of(), said.append)
    assert complete
    assert text == "best: step 2, mean primary 50.0"
    assert asked(run) == ["step-000002", "step-000009", "step-000010"]
    assert "evaluation at step 9 (eval split, %)" in "".join(said)
    assert "best so far: step 2, mean primary 50.0" in "".join(said)
    (run / "best.json").unlink()
    assert watch(request_of(), said.append) == (text, True)
    assert len(asked(run)) == 3
    assert not (run / WATCH).exists()


def test_it_waits_for_the_last_step_and_holds_what_is_saved_meanwhile(run, prepare, request_of):
    """While step 1 is judged, training saves step 2 and 3, prunes both 1 and 2, and 1 turns out to be the best."""
    for step, right in ((1, 2), (2, 1), (3, 0)):
        prepare(step, right)
    save(run, 1)
    save(run.parent / "later", 2)
    save(run.parent / "later", 3, last=3)
    (run.parent / "step-000001.py").write_text(
        "import pathlib, shutil, time\n"
        "run, later = pathlib.Path('run'), pathlib.Path('later')\n"
        "(later / 'checkpoint-2').rename(run / 'checkpoint-2')\n"
        "while len(list((run / '.watch/checkpoint-2').glob('*'))) < 3: time.sleep(0.01)\n"
        "(later / 'checkpoint-3').rename(run / 'checkpoint-3')\n"
        "for step in (1, 2): shutil.rmtree(run / f'checkpoint-{step}')\n"
    )
    said = []
    text, _ = watch(request_of(), said.append)
    assert asked(run) == ["step-000001", "step-000002", "step-000003"]
    assert text == "best: step 1, mean primary 100.0"
    assert list(checkpoints(run)) == [1, 3]
    assert "it is back" in "".join(said)


def test_a_failing_evaluation_is_tried_again_after_the_others_then_given_up(run, prepare, request_of):
    prepare(2)
    for step in (1, 2):
        save(run, step, last=2)
    said = []
    text, complete = watch(request_of(), said.append)
    assert not complete
    assert "not judged: step 1" in text
    assert asked(run) == ["step-000001", "step-000002", "step-000001"]
    assert "ended with status 1; its last words:\n    no answers for step-000001" in "".join(said)


def test_once_leaves_what_comes_later(run, prepare, request_of):
    prepare(1)
    save(run, 1)
    save(run.parent / "later", 2)
    (run.parent / "step-000001.py").write_text("import os; os.rename('later/checkpoint-2', 'run/checkpoint-2')")
    assert watch(request_of(once=True), print)[1]
    assert asked(run) == ["step-000001"]


def test_what_was_pruned_before_it_was_seen_is_said_with_advice(run, prepare, request_of):
    for step in (1, 2, 3):
        save(run, step, keep=1, last=3)
    prepare(1, into="run/records")  # judged by an earlier watch
    prepare(3)
    said = []
    watch(request_of(), said.append)
    assert "gone before they could be judged: steps 2; " in said[0]
    assert sum("gone before" in line for line in said) == 1
    assert read_best(run).step == 1


def test_records_that_are_not_all_there_are_completed(run, prepare, request_of):
    prepare(1)
    save(run, 1, last=1)
    whole = read_records(run.parent / "prepared/step-000001.jsonl").records
    write_records(records_file(run, 1), whole[:1])
    watch(request_of(), print)
    assert read_records(records_file(run, 1)).records == whole


def test_records_of_another_evaluation_are_refused(run, prepare, request_of):
    save(run, 1)
    prepare(1, into="run/records")
    other = dataclasses.replace(read_records(records_file(run, 1)).records[0], protocol="sampled t=1 p=1")
    write_records(records_file(run, 1), [other])
    with pytest.raises(ValueError, match=r"which another evaluation .*do move it away"):
        watch(request_of(), print)


def test_each_step_is_logged_once_in_a_run_of_its_own(run, prepare, recipe_of, read_offline_runs, monkeypatch):
    monkeypatch.delenv("WANDB_MODE")
    recipe = recipe_of()
    log_beside(recipe, run, 1, {"eval/2x2/pa": 0.1}, [])
    assert wandb.run is None  # the training has none
    (run / "wandb_id.txt").write_text("abc\n")
    for step in (1, 2, 1):
        log_beside(recipe, run, step, {"eval/2x2/pa": step / 10}, [])
        wandb.finish()
    wandb.teardown()
    ids, _, history = read_offline_runs(run)
    assert ids == {"abc-watch"}
    assert [(row["train/global_step"], row["eval/2x2/pa"]) for row in history] == [(1, 0.1), (2, 0.2)]


# ---- what is asked for ----


def test_a_plain_request_takes_the_run_s_recipe_and_its_changes(run):
    request = parse_request([f"run={run}", "eval.count=3", "eval.split=eval", "every=0.5", "once=true"])
    assert (request.recipe.eval.count, request.every_s, request.once) == (3, 0.5, True)
    assert request.overrides == ("eval.count=3", "eval.split=eval")
    assert request.launch == (sys.executable,)
    assert request.server is None


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run=elsewhere"], "do name the output_dir of a training that has begun"),
        (["eval.count=2"], "run: got nothing"),
        (["run=run"], "eval.count: got nothing"),
        (["run=run", "eval.count=2", "eval.final_count=9"], "do write eval.count=9"),
        (["run=run", "eval.count=2", "recipe=mixed_grid"], "do leave recipe= out"),
        (["run=run", "eval.count=2", "launch=nothing-like-it x"], "nothing-like-it, which is no program here"),
        (["run=run", "eval.count=2", "server=sh 'x"], "do close it"),
        (["run=run", "eval.count=2", "server=sh", "launch=sh"], "launch: got it beside server"),
        (["run=run", "eval.count=2", "server=sh", "eval.protocol=constrained"], "eval.protocol: got constrained"),
        (["run=run", "eval.count=2", "evry=3"], "did you mean every"),
    ],
)
def test_a_request_that_cannot_work_is_refused_with_what_to_do(run, words, told):
    with pytest.raises(RecipeError, match=told):
        parse_request(words)


def test_a_run_whose_training_judges_its_checkpoints_is_refused(run, recipe_of):
    (run / "recipe.yaml").write_text(to_yaml(recipe_of("eval.count=4")))
    with pytest.raises(RecipeError, match=r"eval\.count: got 4 in the run's recipe.*do train with eval\.count=0"):
        parse_request([f"run={run}", "eval.count=4"])


def test_the_server_gets_a_full_model_or_an_adapter_with_its_base(recipe_of, tmp_path):
    recipe = recipe_of("model=qwen3_vl_8b", "train.method=lora", "train.lora.rank=20", "model.revision=v2")
    assert server_problems(recipe) == []
    assert model_words(recipe, tmp_path, "checkpoint-5") == [str(tmp_path), "--served-model-name", "checkpoint-5"]
    (tmp_path / "adapter_config.json").touch()
    assert model_words(recipe, tmp_path, "checkpoint-5") == [
        "Qwen/Qwen3-VL-8B-Instruct", "--revision", "v2",
        "--enable-lora", "--lora-modules", f"checkpoint-5={tmp_path}", "--max-lora-rank", "32",
    ]  # fmt: skip


def test_adapters_that_the_server_would_answer_without_are_refused(recipe_of):
    lora = ["model=qwen3_vl_8b", "train.method=lora"]
    for more in (["train.towers.vision.method=lora"], ["train.towers.projector.method=full"], ["train.lora.rank=600"]):
        assert len(server_problems(recipe_of(*lora, *more))) == 1
    assert "from scratch" in server_problems(recipe_of("train.method=lora"))[0]
    assert server_problems(recipe_of()) == []


def test_a_server_that_ends_at_once_is_told_with_its_last_words(run, prepare, request_of):
    save(run, 1, last=1)
    said = []
    server = Server((sys.executable, "-c", "print('no GPU'); raise SystemExit(3)"), 60.0)
    assert not watch(request_of(server=server), said.append)[1]
    assert "the server ended with status 3; its last words:\n    no GPU" in "".join(said)


def test_a_program_that_is_not_heard_of_is_given_up(tmp_path):
    log = tmp_path / "evaluation.log"
    log.write_text("evaluating: 3 of 9")
    check_alive(log, 60)
    long_ago = log.stat().st_mtime - 61
    os.utime(log, (long_ago, long_ago))
    with pytest.raises(StalledError, match=r"for 60 s \(train\.stall_timeout_s\)"):
        check_alive(log, 60)
