"""The GRPO trainer: what it asks, what each completion earns and how likely the model finds it."""

from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from data_mix.streams import stream
from models.tokens import answer_ids
from train.batches import answered
from train.completion_logps import completion_batch, completion_logps
from train.grpo import prepare
from train.reference import check_reference
from train.reward_functions import reward_of
from train.rollouts import Written

FAMILIES = ("tiny_qwen3_vl", "tiny_gemma3")
SPEC = "{{grid: {}, piece_px: 8, tab_ratio: 0.3}}"


@pytest.fixture
def grpo(tmp_path, monkeypatch, two_images):
    """`grpo(model, *overrides)`: what train/grpo.py prepares: 2x2 and 3x3 puzzles, and rows with one or two images."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    runs = iter(range(99))

    def build(model, *overrides):
        prepared = prepare(
            [
                "recipe=mixed_grid", f"model={model}", "reward={}", "data.photos.use=reuse", "wandb.mode=disabled",
                *(f"data.parts.{n}x{n}=null" for n in (4, 8, 12, 16)),
                *(f"data.parts.{n}={{task: jigshape, count: 4, spec: {SPEC.format(n)}}}" for n in (2, 3)),
                two_images,
                "train.batching=plain", "train.precision=fp32", "train.workers=0", "train.effective_batch=12",
                "train.micro_batch=4", "trainer.num_generations=2", "trainer.max_steps=1", "trainer.warmup_steps=0",
                "trainer.gradient_checkpointing=false", "eval.count=0", "eval.final_count=0",
                f"output_dir=run{next(runs)}", *overrides,
            ]
        )  # fmt: skip
        return prepared.trainer

    return build


def written(trainer):
    return [(prompt.posed.puzzle.key, each.completion.ids) for prompt, each in trainer._rows]


def logps_of(trainer, rows):
    """As training computes them, of these rows in one batch."""
    width = max(len(each.completion.ids) for _, each in rows)
    batch = completion_batch(trainer._loaded, rows)
    features = trainer._loaded.family.model_inputs(trainer._loaded.processor, batch.features)
    with torch.no_grad():
        return completion_logps(trainer.model, features, batch, width, trainer.temperature)


@pytest.mark.parametrize("method", ["full", "lora"])
@pytest.mark.parametrize("model", FAMILIES)
def test_a_step_trains_on_images_of_different_sizes_and_one_or_two_per_prompt(model, method, grpo):
    trainer = grpo(model, f"train.method={method}", "trainer.learning_rate=1e-3", "reward.valid=0.05")
    before = {name: weight.detach().clone() for name, weight in trainer.model.named_parameters()}
    noise = iter(stream("reward").random(99))  # untrained answers earn nothing, which would teach nothing
    trainer._judge = lambda posed, completion, logps: Written(completion, {"pa": next(noise), "valid": 1.0}, 0.0, 0.0)
    trainer.train()
    assert len(trainer._rows) == 12
    assert {len(prompt.images) for prompt, _ in trainer._rows} == {1, 2}
    assert len({image.shape for prompt, _ in trainer._rows for image in prompt.images}) >= 4
    moved = [name for name, weight in trainer.model.named_parameters() if not torch.equal(weight, before[name])]
    assert moved
    assert all("lora_" in name for name in moved) == (method == "lora")
    (logged,) = (entry for entry in trainer.state.log_history if "reward" in entry)
    assert logged["grad_norm"] > 0
    assert logged["clip_ratio/region_mean"] == 0  # the first ratio is 1


@pytest.mark.parametrize("model", FAMILIES)
def test_log_probabilities_are_those_of_the_plain_model_whoever_is_in_the_batch(model, grpo):
    trainer = grpo(model, "trainer.temperature=0.7")
    trainer.train()
    rows, loaded = trainer._rows, trainer._loaded
    together, entropies = logps_of(trainer, rows)
    assert together.shape == (12, max(len(each.completion.ids) for _, each in rows))
    for at, row in enumerate(rows):
        prompt, each = row
        ids = list(each.completion.ids)
        alone, entropy = logps_of(trainer, [row])
        torch.testing.assert_close(together[at, : len(ids)], alone[0], atol=2e-5, rtol=0)
        torch.testing.assert_close(entropies[at, : len(ids)], entropy[0], atol=2e-5, rtol=0)
        assert together[at, len(ids) :].eq(0).all()
        encoded = answered(prompt.encoded, ids)
        del encoded["labels"]
        with torch.no_grad():
            logits = loaded.model(**loaded.family.model_inputs(loaded.processor, encoded)).logits[0, -len(ids) - 1 : -1]
        expected = (logits.float() / 0.7).log_softmax(-1)
        torch.testing.assert_close(alone[0], expected[torch.arange(len(ids)), ids], atol=2e-5, rtol=0)
        torch.testing.assert_close(entropy[0], -(expected.exp() * expected).sum(-1), atol=2e-4, rtol=0)


def test_completions_repeat_with_the_seed_and_do_not_depend_on_their_batch(grpo):
    first, again, other, apart = (
        grpo("tiny_qwen3_vl", *words) for words in ([], [], ["seed=1"], ["rollouts.batch=3", "train.micro_batch=2"])
    )
    for trainer in (first, again, other, apart):
        trainer.train()
    assert written(first) == written(again) == written(apart)
    assert written(first) != written(other)
    assert len(set(written(first))) == 12  # two completions of a puzzle differ


def test_vision_tokens_are_never_drawn(grpo):
    trainer = grpo("tiny_qwen3_vl", "trainer.temperature=5.0")
    trainer.train()
    barred = set(trainer._loaded.family.vision_token_ids(trainer._loaded.processor))
    drawn = {token for _, ids in written(trainer) for token in ids}
    assert len(drawn) > 100
    assert not drawn & barred


def right_sometimes(trainer, right):
    """The trainer, which has gold written for the samples for which `right(asked)`, and "no" for others."""
    loaded = trainer._loaded

    def engine(step, asked, prompts, beat):
        made = []
        for one, prompt in zip(asked, prompts, strict=True):
            text = prompt.posed.task.gold(prompt.posed.puzzle.target) if right(one) else "no"
            ids = tuple(answer_ids(loaded, text))
            made.append((SimpleNamespace(text=text, ids=ids, finish_reason="stop"), None))
        return made

    trainer._engine = engine
    return trainer


def test_each_completion_earns_the_weighted_sum_and_its_advantage_is_within_its_group(grpo):
    trainer = right_sometimes(grpo("tiny_qwen3_vl", "trainer.scale_rewards=none"), lambda one: one.sample == 1)
    kept = {}
    compute = trainer._compute_loss
    trainer._compute_loss = lambda model, inputs: (
        kept.update(zip(inputs["row"].tolist(), inputs["advantages"].tolist(), strict=True)) or compute(model, inputs)
    )
    trainer.train()
    weights = {"pa": 1.0, "sc": 0.125, "valid": 0.05}
    rewards = [reward_of(each.scores, weights) for _, each in trainer._rows]
    assert rewards[0::2] == [0.0] * 6
    # rows out of a dataset have no edges
    assert sorted(set(rewards[1::2])) == [1.05, 1.175]
    for row, advantage in kept.items():
        mean = (rewards[row // 2 * 2] + rewards[row // 2 * 2 + 1]) / 2
        assert advantage == pytest.approx(rewards[row] - mean, abs=1e-6)
    (logged,) = (entry for entry in trainer.state.log_history if "reward" in entry)
    assert logged["rewards/pa/mean"] == logged["rewards/valid/mean"] == 0.5
    assert logged["reward"] == pytest.approx(sum(rewards) / 12)
    assert logged["invalid/ended"] == 0.5
    assert logged["teaching/2"] == logged["teaching/3"] == 1


def test_groups_that_teach_nothing_are_replaced_and_what_is_trained_on_is_what_was_found(grpo):
    # of the six places of the step three teach nothing at first, and one of these still nothing after a try
    teaches = {1, 2, 4, 6, 8}
    trainer = right_sometimes(
        grpo("tiny_qwen3_vl", "data.refill_tries=1"), lambda one: one.place in teaches and one.sample == 0
    )
    trainer.train()
    (logged,) = (entry for entry in trainer.state.log_history if "reward" in entry)
    assert logged["refill/asked"] == 3
    assert (logged["refill/replaced"], logged["refill/left"], logged["refill/tries"]) == (2, 1, 1)
    assert logged["rewards/pa/mean"] == pytest.approx(5 / 12)
    assert logged["frac_reward_zero_std"] == pytest.approx(1 / 6)
    assert [each.scores["pa"] for _, each in trainer._rows].count(1.0) == 5


@pytest.mark.parametrize("model", FAMILIES)
def test_constrained_completions_are_valid_and_train_on_what_was_decided_at_a_ratio_of_one(model, grpo):
    trainer = grpo(model, "rollouts.constrained=true", "trainer.temperature=0.8", "trainer.beta=0.0")
    trainer.train()
    (logged,) = (entry for entry in trainer.state.log_history if "reward" in entry)
    assert logged["rewards/valid/mean"] == 1
    assert logged["clip_ratio/region_mean"] == 0
    trainer = grpo(
        model, "rollouts.constrained=true", "trainer.temperature=0.8",
        "trainer.learning_rate=1e-30",
    )  # fmt: skip
    trainer.train()
    logps, _ = logps_of(trainer, trainer._rows)
    for row, (_, each) in enumerate(trainer._rows):
        decided = [decision.index for decision in each.decisions]
        assert 0 < len(decided) < len(each.completion.ids)
        drawn = torch.tensor([decision.log_prob for decision in each.decisions])
        ratio = (logps[row, decided] - drawn).exp()
        torch.testing.assert_close(ratio, torch.ones_like(ratio), atol=1e-5, rtol=0)
        forced = sorted(set(range(logps.shape[1])) - set(decided))
        assert logps[row, forced].eq(0).all()


def test_completions_are_cut_at_the_limit_that_evaluation_has(grpo):
    trainer = grpo("tiny_qwen3_vl")
    trainer.train()
    for prompt, each in trainer._rows:
        gold = prompt.posed.task.gold(prompt.posed.puzzle.target)
        assert prompt.limit == -(-5 * len(answer_ids(trainer._loaded, gold)) // 4) + 32
        assert len(each.completion.ids) == prompt.limit or each.completion.finish_reason == "stop"
    assert trainer.max_completion_length == max(prompt.limit for prompt, _ in trainer._rows)


@pytest.mark.parametrize("method", ["full", "lora"])
def test_kl_is_measured_from_the_model_before_the_first_step(method, grpo):
    trainer = grpo(
        "tiny_qwen3_vl", f"train.method={method}", "trainer.beta=0.1", "trainer.max_steps=2",
        "rollouts.constrained=true", "trainer.learning_rate=1e-2",
    )  # fmt: skip
    trainer.train()
    first, second = (entry["kl"] for entry in trainer.state.log_history if "kl" in entry)
    assert first == pytest.approx(0, abs=1e-6)
    assert second > 1e-4


def test_a_reference_that_no_process_could_hold_is_refused():
    check_reference(0.0, "fsdp2")
    check_reference(0.1, "ddp")
    with pytest.raises(ValueError, match=r"trainer\.beta: got 0\.1 with train\.sharding=fsdp2; allowed there: 0"):
        check_reference(0.1, "fsdp2")


def test_training_starts_from_the_weights_of_an_earlier_run_and_from_no_others(grpo, tmp_path):
    grpo("tiny_qwen3_vl", "seed=3").train()
    start = tmp_path / "run0/checkpoint-1"
    trainer = grpo("tiny_qwen3_vl", f"train.start={start}")
    expected = load_file(start / "model.safetensors")
    own = trainer.model.state_dict()
    assert all(torch.equal(own[name], tensor) for name, tensor in expected.items())
    with pytest.raises(
        ValueError, match=r"train\.start: got .*full weights, in a recipe with adapters.*model\.pretrained="
    ):
        grpo("tiny_qwen3_vl", f"train.start={start}", "train.method=lora")
    grpo("tiny_qwen3_vl", "train.method=lora").train()
    adapter = tmp_path / "run3/checkpoint-1"
    with pytest.raises(ValueError, match=r"train\.start: got .*an adapter, in a recipe without.*models\.merge"):
        grpo("tiny_qwen3_vl", f"train.start={adapter}")
    with pytest.raises(ValueError, match=r"train\.start: got nowhere; allowed is a folder that holds"):
        grpo("tiny_qwen3_vl", "train.start=nowhere")


@pytest.mark.parametrize(
    "words",
    [
        *(["trainer.loss_type=" + name] for name in ("grpo", "bnpo", "dr_grpo", "cispo", "sapo", "luspo", "vespo")),
        ["trainer.importance_sampling_level=sequence", "trainer.loss_type=grpo"],
        ["trainer.scale_rewards=batch"],
        ["trainer.multi_objective_aggregation=normalize_then_sum"],
        ["trainer.top_entropy_quantile=0.5", "trainer.entropy_coef=0.01"],
        ["trainer.use_adaptive_entropy=true", "trainer.entropy_target=2.0", "trainer.num_iterations=2"],
        ["trainer.mask_truncated_completions=true"],
        ["trainer.num_iterations=2", "trainer.off_policy_mask_threshold=0.5", "trainer.epsilon_high=0.28"],
    ],
    ids=" ".join,
)
def test_trls_losses_and_scalings_stay_open(words, grpo):
    trainer = right_sometimes(
        grpo("tiny_qwen3_vl", "trainer.max_steps=2", "trainer.learning_rate=1e-3", "train.checkpoint_every=2", *words),
        lambda one: one.sample == 1,
    )
    before = {name: weight.detach().clone() for name, weight in trainer.model.named_parameters()}
    trainer.train()
    logged = [entry for entry in trainer.state.log_history if "grad_norm" in entry]
    assert [entry["grad_norm"] > 0 for entry in logged] == [True, True]
    assert any(not torch.equal(weight, before[name]) for name, weight in trainer.model.named_parameters())


@pytest.mark.parametrize("along", ["row", "piece"])
def test_answers_by_cell_are_credited_along_the_way(along, grpo):
    by_cell = [f"data.parts.{n}.spec.answer_format=by_cell" for n in (2, 3)]
    words = ["rollouts.constrained=true", "trainer.num_generations=4", "trainer.scale_rewards=batch", *by_cell]
    plain, credited = (grpo("tiny_qwen3_vl", *words, f"reward.along={each}") for each in ("answer", along))
    told = []
    for trainer in (plain, credited):
        compute = trainer._compute_loss
        trainer._compute_loss = lambda model, inputs, compute=compute: (
            told.append(dict(zip(inputs["row"].tolist(), inputs["advantages"], strict=True))) or compute(model, inputs)
        )
        trainer.train()
    whole, parts = ({row: each for batch in some for row, each in batch.items()} for some in (told[:3], told[3:]))
    assert written(plain) == written(credited)
    for row, advantage in whole.items():
        first = parts[row][0]  # nothing is decided before the first token
        torch.testing.assert_close(first, advantage, atol=1e-5, rtol=1e-5)
    assert any(each.unique().numel() > 2 for each in parts.values())
    (logged,) = (entry for entry in credited.state.log_history if "reward" in entry)
    assert logged["grad_norm"] > 0


def test_credit_that_no_part_can_have_is_refused(grpo):
    with pytest.raises(ValueError, match=r"reward\.along: got piece, but no part's answers are decided bit by bit"):
        grpo("tiny_qwen3_vl", "reward.along=piece")
    with pytest.raises(ValueError, match=r"reward\.along: got row with trainer\.scale_rewards=group; allowed then"):
        grpo("tiny_qwen3_vl", "reward.along=row", "data.parts.2.spec.answer_format=by_cell")
