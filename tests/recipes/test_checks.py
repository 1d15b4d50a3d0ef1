import re

import pytest

from recipes.loader import RecipeError, load_recipe

SHAPE = re.compile(r"[^ ].*: got .+; allowed: .+; (do |did you mean ).+")


@pytest.mark.parametrize(
    ("override", "said"),
    [
        (
            "train.efective_batch=8",
            "train.efective_batch: got an unknown name; allowed: method, .*did you mean effective",
        ),
        ("dta.x=1", "dta: got an unknown name; .*did you mean data"),
        ("seed=-1", "seed: got -1; allowed: a whole number >= 0 and < 2147483648; do change seed"),
        ("seed.x=1", 'seed: got {"x": 1}; allowed: a whole number'),
        (
            "data.parts.4x4.count=1e3",
            "data.parts.4x4.count: got 1000.0; allowed: a whole number >= 1; do write count=1000",
        ),
        ("data.parts.4x4.count=1.5", "data.parts.4x4.count: got 1.5; allowed: a whole number >= 1; do change"),
        ("data.parts.4x4.count='8'", '.*count: got "8"; allowed: a whole number .*without quotes'),
        (
            "data.parts.4x4=3",
            "data.parts.4x4: got 3; allowed: a mapping of task, spec, count, paired_with, dataset; do change",
        ),
        (
            "data.parts.4x4.task=jigshap",
            'data.parts.4x4.task: got "jigshap"; allowed: .*jigshape.*did you mean jigshape',
        ),
        ("data.parts.4x4.spec.grid=1", "data.parts.4x4.spec.grid: got 1; allowed: .*>= 2"),
        ("data.parts.4x4.spec.gird=3", "data.parts.4x4.spec.gird: got an unknown name; .*did you mean grid"),
        (
            "data.parts={a b: {task: jigshape, spec: {grid: 2}, count: 1}}",
            'data.parts.a b: got the name "a b"; .*rename',
        ),
        ("dry_run=yes", 'dry_run: got "yes"; allowed: true or false; do write true or false'),
        ("dry_run=1", "dry_run: got 1; allowed: true or false"),
        ("train.precision=fp16", 'train.precision: got "fp16"; allowed: bf16 | fp32; did you mean'),
        ("train.micro_batch=5", "train.effective_batch: got 64; allowed: a whole multiple of train.micro_batch, 5"),
        ("data.photos.folder=3", 'data.photos.folder: got 3; allowed: text, or a list, .*; do write "3" in quotes'),
        ("data.photos.folder=[]", "data.photos.folder: got \\[\\]; allowed: a folder"),
        ("data.photos.ground=[1,2]", "data.photos.ground: got \\[1, 2\\]; allowed: \\[a whole number"),
        ("data.photos.ground=[1,2,256]", "data.photos.ground.2: got 256; allowed: a whole number >= 0 and <= 255"),
        ("data.photos.shares.eval=1.5", "data.photos.shares.eval: got 1.5; allowed: a number >= 0 and <= 1"),
        ("data.photos.shares.eval=0.95", "data.photos.shares: got 0.95 \\+ 0.1; allowed: eval \\+ test below 1"),
        ("data.photos.shares.eval=.nan", "data.photos.shares.eval: got NaN"),
        ("model.pretrained=x", "model: got pretrained and scratch; allowed: exactly one"),
        ("model.scratch=null", "model: got neither pretrained nor scratch; allowed: exactly one"),
        ("model.revision=main", 'model.revision: got "main"; allowed: null without pretrained'),
        ("model.family=gemma3", "model.image.side_px: got nothing; allowed: .* gemma3 needs it; do set"),
        (
            "model.image.side_px=9",
            "model.image.side_px: got 9; allowed: max_px, min_px in the family qwen3_vl; do remove",
        ),
        ("model.image.min_px=99999999", "model.image.min_px: got 99999999; allowed: up to max_px"),
        ("model.max_tokens=null", "model.max_tokens: got nothing; allowed: a whole number >= 1; do set"),
        ("model=null", "model: got nothing; allowed: a mapping of name, family"),
        ("data.parts=null", "data.parts: got nothing; allowed: a mapping"),
        ("data.parts={2x2: null, 4x4: null}", "data.parts: got {}; allowed: a mapping with at least 1 entry"),
        ("eval.require.3x3.em=1", "eval.require.3x3: got an unknown part; allowed: 2x2, 4x4"),
        ("eval.require.2x2.ema=1", "eval.require.2x2.ema: got an unknown score entry; allowed: .*did you mean em"),
        ("eval={require: {2x2: {em: 0.5}}, final_count: 0}", "eval.final_count: got 0; allowed: at least 1"),
        ("eval.parts={x: {task: y, count: 1}}", 'eval.parts.x.task: got "y"'),
    ],
)
def test_a_wrong_value_is_told_with_got_allowed_and_do(problems, override, said):
    found = problems(override)
    assert any(re.match(said.replace("|", r"\|"), line) for line in found), found
    assert all(SHAPE.fullmatch(line) for line in found), found


def test_all_problems_of_form_and_meaning_are_told_at_once(problems):
    found = problems(
        "seed=x", "model.pretrained=y", "data.parts.4x4.spec.grid=0", "trainer.bf16=true", "trainer.x=1", "oops"
    )
    assert {line.split(":")[0] for line in found} == {
        "oops", "seed", "model", "data.parts.4x4.spec.grid", "trainer.bf16", "trainer.x",
    }  # fmt: skip


def test_a_union_is_told_as_one_problem(problems):
    assert len(problems("data.photos.folder=3")) == 1


PLAIN = "data.parts.plain={task: jigshape, spec: {grid: 4, shape: false}, count: 4, paired_with: 4x4}"


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["data.parts.plain.paired_with=4x5"], '.*: got "4x5"; allowed: 2x2 | 4x4; did you mean 4x4'),
        (["data.parts.plain.paired_with=plain"], ".*: got the part itself; allowed: 2x2 | 4x4"),
        (["data.parts.4x4=null"], '.*: got "4x4"; allowed: 2x2; do use one'),
        (["data.parts.4x4.paired_with=2x2"], '.*: got "4x4", which is paired with 2x2; allowed: 2x2; do name 2x2'),
        (["data.parts.4x4={task: probes, count: 1, spec: null}"], '.*: got "4x4", a part of task probes; allowed: 2x2'),
        (["data.parts.4x4.dataset.name=x"], '.*: got "4x4", a part with a dataset; allowed: 2x2'),
        (["data.parts.plain.dataset.name=x"], '.*: got "4x4"; allowed: null in a part that has a dataset'),
    ],
)
def test_a_pair_needs_a_part_of_its_task_with_photos_of_its_own(problems, overrides, said):
    found = problems(PLAIN, *overrides)
    assert all(re.match("data.parts.plain.paired_with" + said.replace("|", r"\|"), line) for line in found), found
    assert SHAPE.fullmatch(found[0])


def test_pairs_are_checked_among_the_evaluated_parts_too(problems):
    assert "eval.parts.x.paired_with" in problems("eval.parts={x: {task: probes, count: 1, paired_with: 4x4}}")[0]


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("{task: chat, count: 1}", "dataset: got nothing; allowed: a dataset, task chat poses none; do set data.parts"),
        ("{task: chat, count: 1, dataset: {}}", "dataset.name: got nothing; allowed: text"),
        (
            "{task: chat, count: 1, dataset: {name: x, columns: {image: y}}}",
            "dataset.columns.image: got an unknown name; allowed: images, .*; did you mean images",
        ),
        (
            "{task: chat, count: 1, dataset: {name: x, columns: {messages: a, prompt: b}}}",
            "dataset.columns: got messages and prompt; allowed: one of them",
        ),
        (
            "{task: chat, count: 1, dataset: {name: x, where: {a: [1]}}}",
            r"dataset.where.a: got \[1\]; allowed: text, or",
        ),
    ],
)
def test_a_dataset_is_checked_before_it_is_opened(problems, override, said):
    found = problems(f"data.parts.x={override}")
    assert re.match(f"data.parts.x.{said}", found[0]), found
    assert SHAPE.fullmatch(found[0])


def test_columns_may_be_fields_of_the_spec(small):
    part = "{task: jigshape, spec: {grid: 4}, count: 1, dataset: {name: x, columns: {grid: size}}}"
    assert load_recipe([f"recipe={small}", f"data.parts.x={part}"]).data.parts["x"].dataset.columns == {"grid": "size"}


@pytest.mark.parametrize(
    ("asked", "overlap"),
    [
        ("{name: x, split: train}", True),
        ("{name: ./x/}", True),
        ("{name: x, split: test}", False),
        ("{name: y, split: train}", False),
        ("{name: x, where: {kind: b}}", False),
        ("{name: x, where: {kind: a}}", True),
        ("{name: x, where: {hard: true}}", True),
    ],
)
def test_rows_that_may_be_trained_on_are_not_evaluated(small, problems, asked, overlap):
    used = "data.parts.x={task: chat, count: 1, dataset: {name: x, split: train, where: {kind: a}}}"
    held = f"eval.parts={{held: {{task: chat, count: 1, dataset: {asked}}}}}"
    if not overlap:
        assert load_recipe([f"recipe={small}", used, held]).eval.parts
        return
    (found,) = problems(used, held)
    assert found.startswith("eval.parts.held.dataset: got rows that data.parts.x may train on; allowed: rows that are")


def test_a_part_that_is_not_evaluated_can_require_nothing(problems):
    rows = "{task: chat, count: 1, dataset: {name: x}}"
    assert "eval.require.x: got an unknown part" in problems(f"data.parts.x={rows}", "eval.require.x.match=1")[0]


def test_requirements_look_at_the_parts_that_are_evaluated(problems):
    parts = "eval.parts={held: {task: jigshape, spec: {grid: 2}, count: 1}}"
    assert "allowed: held" in problems(parts, "eval.require.2x2.em=1")[0]


@pytest.mark.parametrize("name", ["../x", "a b", "", "a/b", "été", ".hidden"])
def test_a_recipe_is_called_by_a_plain_name(name):
    with pytest.raises(RecipeError, match=r"name: got .*: it names folders"):
        load_recipe(["recipe=quickstart", f"name='{name}'"])


def test_one_folder_written_in_two_ways_is_one_dataset(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "{task: chat, count: 1, dataset: {name: %s, columns: {images: i, messages: m}}}"
    trained = f"data.parts.t={rows % 'd/x'}"
    judged = f"eval.parts.e={rows % (tmp_path / 'd' / '.' / 'x')}"
    with pytest.raises(RecipeError, match=r"eval\.parts\.e\.dataset"):
        load_recipe(["recipe=quickstart", trained, judged, "eval.require=null"])


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["train.max_pack_tokens=9000"], "train.max_pack_tokens: got 9000; allowed: null where train.batching=plain"),
        (["train.batching=balanced", "train.micro_batch=4"], "train.micro_batch: got 4; allowed: 1 where"),
        (["train.batching=packed", "model=tiny_gemma3"], "train.batching: got packed; allowed: auto, balanced or"),
        (["train.batching=packed", "model.attention.language=eager"], "model.attention.language: got eager; allowed:"),
    ],
)
def test_a_batching_that_the_model_or_the_rest_of_train_contradicts_is_told(problems, overrides, said):
    found = problems(*overrides)
    assert [line for line in found if line.startswith(said)] == found != []
    assert SHAPE.fullmatch(found[0])


VISION = "train.towers.vision"


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (
            ["train.method=lora", f"{VISION}.method=full"],
            "train.towers.vision.method: got full; allowed: lora | frozen where language is lora; do set ",
        ),
        (
            [f"{VISION}.method=lora"],
            "train.towers.language.method: got full, as train.method=full says; allowed: lora | frozen where vision is",
        ),
        (
            [f"train.towers.{tower}.method=frozen" for tower in ("language", "vision", "projector")],
            "train.towers: got frozen for all three; allowed: at least one that is full or lora; do set ",
        ),
        (
            ["train.method=lora", f"{VISION}.learning_rate=1e-4"],
            f"{VISION}.learning_rate: got 0.0001; allowed: null where the tower is frozen; do remove it, or set ",
        ),
        ([f"{VISION}.learning_rate=0"], f"{VISION}.learning_rate: got 0; allowed: a number > 0, or null; do change"),
        (
            [f"{VISION}.targets=[qkv]"],
            f'{VISION}.targets: got ["qkv"]; allowed: null where the tower is full; do remove them, or set ',
        ),
        (["train.method=lora", "train.towers.language.targets=[]"], "train.towers.language.targets: got []; allowed:"),
        (["train.towers.visoin.method=full"], "train.towers.visoin: got an unknown name; allowed: language, vision, "),
    ],
)
def test_towers_that_do_not_go_together_are_told(problems, overrides, said):
    found = problems(*overrides)
    assert [line for line in found if line.startswith(said)] == found != []
    assert SHAPE.fullmatch(found[0])


@pytest.mark.parametrize(
    ("overrides", "methods"),
    [
        ([], ("full", "full", "full")),
        (["train.method=lora"], ("lora", "frozen", "frozen")),
        (["train.method=lora", "train.towers.projector.method=full"], ("lora", "frozen", "full")),
        (["train.towers.vision={method: frozen}"], ("full", "frozen", "full")),
        (
            ["train.towers.language.method=frozen", f"{VISION}={{method: lora, targets: [qkv], learning_rate: 1e-4}}"],
            ("frozen", "lora", "full"),
        ),
    ],
)
def test_what_a_tower_does_not_say_train_method_says(small, overrides, methods):
    train = load_recipe([f"recipe={small}", *overrides]).train
    assert train.methods() == dict(zip(("language", "vision", "projector"), methods, strict=True))
