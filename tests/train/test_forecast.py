"""What a run will do and cost, by arithmetic on examples that are never rendered."""

import pytest

from models.flops import Flops
from models.outline import outline
from models.towers import train_towers
from recipes.loader import load_recipe
from train.check import measure_examples
from train.cost import Machine, checkpoint_bytes, checkpoints_at_once, cost_of
from train.forecast import batches_of, flops_of, forecast, micro_batches, training_flops
from train.plan_page import FEWEST_TAB_PX, Sight, batches_lines, sight_warnings, sights

FLOPS = Flops(text_linear=1000, text_attention=100, vision_linear=10, vision_attention=1, head=10_000)
SMALL = [
    *(f"data.parts.{n}x{n}.{key}" for n in (4, 8, 12) for key in ("spec.piece_px=8", "spec.tab_ratio=0.3", "count=6")),
    "data.parts.16x16=null", "data.photos.use=reuse", "train.effective_batch=6", "train.checkpoint_every=2",
]  # fmt: skip


@pytest.fixture
def foreseen(tmp_path, monkeypatch):
    """`foreseen(*overrides, processes=1, lockstep=False, known=None)`: the forecast of a small mixed grid."""
    monkeypatch.chdir(tmp_path)

    def build(*overrides, processes=1, lockstep=False, model="tiny_qwen3_vl", known=None):
        recipe = load_recipe(["recipe=mixed_grid", f"model={model}", *SMALL, *overrides])
        outlined = outline(recipe.model)
        loaded = train_towers(outlined.loaded, recipe.train)
        return forecast(recipe, outlined, loaded, processes, lockstep=lockstep, known=known)

    return build


def batches(found):
    return batches_of(found.loaded, found.measured, found.batches)


def test_packs_waste_nothing_and_no_micro_batch_exceeds_the_largest(foreseen):
    found = foreseen("train.max_pack_tokens=3000", processes=2)
    made = batches(found)
    assert made.useful == 1
    bins = [bin_ for step in micro_batches(found.batches) for bin_ in step if bin_]
    assert sorted(one for bin_ in bins for one in bin_) == list(range(18))
    tokens = [sum(found.measured[one].lengths.total for one in bin_) for bin_ in bins]
    answers = [sum(found.measured[one].lengths.answer for one in bin_) for bin_ in bins]
    assert made.largest.tokens == max(tokens) <= 3000
    assert made.largest.answer == max(answers)
    assert tokens[bins.index(made.longest)] == max(tokens)
    assert (found.steps, found.seen) == (3, 18)


def test_tokens_of_a_run_are_those_of_each_example_as_often_as_it_comes(foreseen):
    once, thrice = foreseen("train.effective_batch=18"), foreseen("trainer.num_train_epochs=3")
    assert once.tokens == sum(one.lengths.total for one in once.measured.values())
    assert (thrice.seen, thrice.tokens) == (3 * 18, 3 * once.tokens)
    assert f"18 examples of {once.tokens:,} tokens in all" in batches_lines(once, batches(once))


@pytest.mark.parametrize(
    ("overrides", "again"),
    [
        (["train.method=lora", "train.max_pack_tokens=3000"], 0),
        (["data.parts.8x8=null"], 0),
        (["data.parts.8x8.spec.grid=7"], 6),
        (["data.parts.8x8=null", "model.image.max_px=2000000"], 12),
        (["seed=8"], 18),
    ],
)
def test_what_is_known_of_a_like_recipe_is_not_measured_again(foreseen, monkeypatch, overrides, again):
    first, fresh = foreseen(), foreseen(*overrides)
    counts = []
    monkeypatch.setattr(
        "train.forecast.measure_examples",
        lambda loaded, mixture, indices, **way: (
            counts.append(len(indices)) or measure_examples(loaded, mixture, indices, **way)
        ),
    )
    found = foreseen(*overrides, known=first)
    assert counts[0] == again
    assert list(found.measured.items()) == list(fresh.measured.items())


def test_padding_is_what_is_not_useful(foreseen):
    found = foreseen("train.batching=plain", "train.micro_batch=6")
    made = batches(found)
    real = sum(one.lengths.total for one in found.measured.values())
    rows = [step[0] for step in micro_batches(found.batches)]
    computed = sum(6 * max(found.measured[one].lengths.total for one in row) for row in rows)
    assert made.useful == real / computed
    assert made.largest.rows == 6
    assert made.unevenness == 0


@pytest.mark.parametrize("batching", ["train.batching=plain", "train.max_pack_tokens=1550"])
def test_in_lockstep_each_micro_step_waits_for_its_busiest_process(foreseen, batching):
    found = foreseen(batching, processes=2, lockstep=True)
    lasting = total = 0
    for bins in micro_batches(found.batches):
        work = [sum(found.measured[one].flops for one in bin_) for bin_ in bins]
        lasting += sum(max(pair) for pair in zip(work[::2], work[1::2], strict=True))
        total += sum(work)
    assert found.batches.arrange.micro_steps > 1
    assert batches(found).unevenness == pytest.approx(lasting / (total / 2) - 1)
    assert batches(found).unevenness > batches(foreseen(batching, processes=2)).unevenness


@pytest.mark.parametrize(
    ("towers", "expected"),
    [
        ([], 3 * sum(FLOPS)),
        (["train.towers.vision.method=frozen"], 3 * (sum(FLOPS) - 11) + 11),
        (["train.method=lora"], 2 * 11_000 + 3 * 100 + 11),
        (["train.method=lora", "train.towers.vision.method=lora"], 2 * 11_010 + 3 * 101),
    ],
)
def test_a_backward_pass_is_counted_where_something_trains(towers, expected):
    assert training_flops(load_recipe(["recipe=mixed_grid", *towers]), FLOPS) == expected


def test_hours_are_operations_over_what_the_gpus_reach():
    machine = Machine(gpus=8, gpu_memory_gb=80, mfu=0.5, peak_tflops=1000)
    assert machine.hours(8 * 500e12 * 3600) == 1
    assert machine.gpu_bytes == 80 * 2**30


def test_a_checkpoint_is_weights_and_optimizer_state_of_what_trains():
    full, lora = (load_recipe([f"recipe=mixed_grid{name}"]) for name in ("", "_lora"))
    sizes = [
        checkpoint_bytes(train_towers(outline(recipe.model).loaded, recipe.train).model, recipe)
        for recipe in (full, lora)
    ]
    assert sizes == [12 * 8_767_123_696, 12 * 43_646_976]
    assert checkpoints_at_once(full, saves=5) == 4
    assert checkpoints_at_once(full, saves=1) == 1
    assert checkpoints_at_once(lora, saves=5) == 5


def test_saves_and_evaluations_are_those_of_the_run(foreseen):
    found = foreseen("eval.count=4", "eval.final_count=10", "train.keep_checkpoints=null")
    cost = cost_of(found, batches(found), Machine(1, 80, 0.4, 989))
    assert (cost.saves, cost.kept, cost.evaluations, cost.evaluated) == (2, 2, 2, 3 * (4 + 10))
    assert cost.evaluation_h > 0
    none = foreseen("eval.count=0", "eval.final_count=0")
    assert cost_of(none, batches(none), Machine(1, 80, 0.4, 989)).evaluations == 0


def test_saves_take_their_time_and_all_takes_that_too(foreseen):
    """Two of 12 bytes for each parameter, at 10^9 bytes a second."""
    found = foreseen()
    cost = cost_of(found, batches(found), Machine(1, 80, 0.4, 989))
    assert cost.saving_h == pytest.approx(2 * cost.checkpoint_bytes / 1e9 / 3600)
    assert cost._replace(checkpoint_bytes=105 * 10**9, saves=5).saving_h == pytest.approx(525 / 3600)
    assert cost.hours == pytest.approx(cost.training_h + cost.saving_h + cost.evaluation_h)


def test_time_counts_the_padding_and_operations_do_not(foreseen):
    """Only linear layers see it: two thirds of the tokens useful is half as many again of them."""
    found, machine = foreseen("train.batching=plain"), Machine(1, 80, 0.4, 989)
    made = batches(found)._replace(unevenness=0.0)
    none, some = (cost_of(found, made._replace(useful=useful), machine) for useful in (1.0, 2 / 3))
    assert some.flops == none.flops
    assert none.training_h == machine.hours(none.flops)
    each = [flops_of(found.loaded, one).text_linear for one in found.measured.values()]
    added = 3 * found.seen * sum(each) / len(each) / 2
    assert some.training_h - none.training_h == pytest.approx(machine.hours(added), rel=1e-6)


def test_an_example_that_is_too_long_is_refused_by_its_part(foreseen):
    with pytest.raises(ValueError, match=r"model.max_tokens: got 500.*of part 12x12"):
        foreseen("model.max_tokens=500")


def test_only_a_refusal_for_lengths_says_that_text_is_estimated(foreseen):
    with pytest.raises(ValueError, match=r"model.max_tokens: got 500.*text tokens are estimated here"):
        foreseen("model.max_tokens=500", model="qwen3_vl_8b")
    with pytest.raises(ValueError, match=r"train.effective_batch: got 6 with micro_batch 1 on 4") as caught:
        foreseen("train.batching=plain", processes=4, model="qwen3_vl_8b")
    assert "estimated" not in str(caught.value)


def test_what_is_left_of_a_piece_is_measured_behind_the_processor(foreseen):
    seen = sights(foreseen(model="tiny_gemma3"))
    sheet = seen["4x4"]
    assert (sheet.scaled, sheet.tokens) == ((224, 224), 16)
    assert sheet.piece_tokens == 1
    assert sheet.piece_px == pytest.approx(8 * 224 / max(sheet.drawn))
    assert sheet.tab_px == pytest.approx(0.15 * sheet.piece_px)


@pytest.mark.parametrize(
    ("spec", "aligned"),
    [
        (["layout=aligned", "token_px=32"], True),
        (["layout=aligned", "token_px=32", "input=pieces"], True),
        (["layout=published"], False),
        (["layout=aligned", "token_px=24"], False),
    ],
)
def test_a_sheet_is_aligned_where_its_squares_are_the_models_tokens(foreseen, spec, aligned):
    """Qwen3-VL's tokens are squares of 32 px."""
    parts = [f"data.parts.{n}x{n}=null" for n in (8, 12)]
    found = foreseen(*parts, *(f"data.parts.4x4.spec.{one}" for one in ["piece_px=17", *spec]))
    assert sights(found)["4x4"].aligned == aligned


def test_pieces_and_tabs_that_can_hardly_be_seen_are_warned_of():
    fine = Sight((100, 100), (100, 100), 1, 64, 20.0, 4.0, FEWEST_TAB_PX)
    assert sight_warnings({"fine": fine, "no pieces": Sight((9, 9), (9, 9), 1, 1, None, None, None)}) == []
    told = sight_warnings({"small": fine._replace(piece_tokens=3.9, tab_px=1.9)})
    assert [line.split(":")[0] for line in told] == ["part small"] * 2
    assert len(sight_warnings({"aligned": fine._replace(piece_tokens=1.0, aligned=True, tab_px=1.9)})) == 1
    assert sight_warnings({"no shape": fine._replace(tab_px=0.0)}) == []
