"""The chunked loss head against cross entropy of all logits: values, gradients, and every way a model is wrapped."""

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from torch.distributed import HashStore, destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel

from train.batches import IGNORED, LOSS_FIELDS
from train.head import answer_loss, linear_nll
from train.loss import token_loss

VOCABULARY, WIDTH, ANSWERS = 301, 24, 17
FAMILIES = ("tiny_qwen3_vl", "tiny_gemma3")


@pytest.fixture
def case():
    """(hidden, weight, targets, weights); some weights are 0."""
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(ANSWERS, WIDTH, generator=generator, requires_grad=True)
    weight = torch.randn(VOCABULARY, WIDTH, generator=generator, requires_grad=True)
    targets = torch.randint(VOCABULARY, (ANSWERS,), generator=generator)
    weights = torch.rand(ANSWERS, generator=generator) * (torch.arange(ANSWERS) % 5 != 0)
    return hidden, weight, targets, weights


def dense_nll(hidden, weight, targets):
    return nn.functional.cross_entropy(nn.functional.linear(hidden, weight).float(), targets, reduction="none")


def gradients(loss, *tensors):
    return [gradient.clone() for gradient in torch.autograd.grad(loss, tensors)]


def assert_close(found, expected):
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("rows", [1, 4, ANSWERS - 1, ANSWERS, 100])
def test_loss_and_gradients_are_those_of_all_logits_in_any_number_of_chunks(case, rows):
    hidden, weight, targets, weights = case
    found = linear_nll(*case, chunk_bytes=rows * 4 * VOCABULARY)
    nll = dense_nll(hidden, weight, targets)
    assert_close(found.nll, nll.detach())
    assert_close(found.weighted_nll, (weights * nll).sum())
    assert torch.equal(found.correct, (hidden @ weight.t()).argmax(-1) == targets)
    assert_close(
        gradients(found.weighted_nll / 7, hidden, weight), gradients((weights * nll).sum() / 7, hidden, weight)
    )


def test_a_limit_below_one_token_means_one_token_at_a_time(case):
    assert_close(linear_nll(*case, chunk_bytes=1).nll, linear_nll(*case).nll)


@pytest.mark.parametrize("frozen", [0, 1])
def test_a_frozen_head_or_frozen_states_get_no_gradient_and_the_other_gets_its_own(case, frozen):
    hidden, weight, targets, weights = case
    case[frozen].requires_grad_(False)
    linear_nll(*case).weighted_nll.backward()
    assert case[frozen].grad is None
    trained = case[1 - frozen]
    [expected] = gradients((weights * dense_nll(hidden, weight, targets)).sum(), trained)
    assert_close(trained.grad, expected)


def test_a_tied_head_gets_the_gradient_of_both_its_uses(case):
    _, weight, targets, weights = case
    found = linear_nll(weight[targets].tanh(), weight, targets.roll(1), weights).weighted_nll
    expected = (weights * dense_nll(weight[targets].tanh(), weight, targets.roll(1))).sum()
    assert_close(gradients(found, weight), gradients(expected, weight))


def test_no_answer_is_a_loss_of_zero_with_zero_gradients(case):
    hidden, weight, targets, weights = case
    found = linear_nll(hidden[:0], weight, targets[:0], weights[:0])
    assert found.weighted_nll == 0
    assert found.nll.shape == found.correct.shape == (0,)
    assert [gradient.count_nonzero() for gradient in gradients(found.weighted_nll, hidden, weight)] == [0, 0]


def test_without_gradients_the_same_loss_is_computed_and_nothing_is_kept(case):
    with torch.no_grad():
        found = linear_nll(*case)
    assert not found.weighted_nll.requires_grad
    assert torch.equal(found.weighted_nll, linear_nll(*case).weighted_nll)


def test_of_equal_logits_the_first_is_the_models_choice():
    found = linear_nll(torch.ones(2, 4), torch.ones(5, 4), torch.tensor([0, 3]), torch.ones(2))
    assert found.correct.tolist() == [True, False]


def test_logits_far_beyond_the_range_of_exp_give_a_finite_loss(case):
    hidden, weight, targets, weights = (1e4 * case[0]).detach().requires_grad_(), *case[1:]
    found = linear_nll(hidden, weight, targets, weights)
    torch.testing.assert_close(found.nll, dense_nll(hidden, weight, targets))
    assert all(gradient.isfinite().all() for gradient in gradients(found.weighted_nll, hidden, weight))


def test_autocast_rounds_logits_as_ever_and_sums_the_heads_gradient_in_float32(case):
    hidden, weight, targets, weights = case
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = linear_nll(*case, chunk_bytes=4 * 4 * VOCABULARY)
        nll = dense_nll(hidden, weight, targets)
    assert found.weighted_nll.dtype == torch.float32
    assert_close(found.nll, nll.detach())
    exact = gradients((weights * dense_nll(hidden.double(), weight.double(), targets)).sum(), hidden, weight)
    usual = gradients((weights * nll).sum(), hidden, weight)
    for ours, dense, true in zip(gradients(found.weighted_nll, hidden, weight), usual, exact, strict=True):
        assert ours.dtype == torch.float32
        assert (ours - true).norm() <= 1.01 * (dense - true).norm()


def test_a_bf16_head_gets_bf16_gradients(case):
    hidden, weight = (tensor.detach().bfloat16().requires_grad_() for tensor in case[:2])
    found = linear_nll(hidden, weight, *case[2:])
    assert_close(found.nll, dense_nll(hidden, weight, case[2]).detach())
    assert [gradient.dtype for gradient in gradients(found.weighted_nll, hidden, weight)] == [torch.bfloat16] * 2


def trained_gradients(model):
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    return found


def library_loss(model, inputs):
    """The same sum from the library's own logits of every position."""
    features = {name: value for name, value in inputs.items() if name not in LOSS_FIELDS}
    labels, weights = inputs["labels"][:, 1:], inputs["loss_weights"][:, 1:]
    logits = model(**features).logits[:, :-1].float()
    nll = nn.functional.cross_entropy(logits.transpose(1, 2), labels, reduction="none", ignore_index=IGNORED)
    correct = (logits.argmax(-1) == labels) & inputs["informative"][:, 1:]
    return (weights * nll).sum(), nll[inputs["informative"][:, 1:]].sum(), correct.sum()


@pytest.fixture
def model_and_batch(mixed_recipe, trainer_of):
    """`model_and_batch(model, *overrides)`: a trainer's model and a batch of one 4x4 and one 8x8."""

    def build(model, *overrides):
        trainer = trainer_of(mixed_recipe(model, "train.predictable_weight=0.3", *overrides))
        lengths = {len(trainer.train_dataset[i]["posed"].puzzle.target["cells"]): i for i in range(8)}
        rows = [trainer.train_dataset[lengths[num_pieces]] for num_pieces in (16, 64)]
        return trainer.model.train(), trainer._prepare_inputs(trainer.data_collator(rows))

    return build


@pytest.mark.parametrize("checkpointing", ["true", "false"])
@pytest.mark.parametrize("method", ["full", "lora"])
@pytest.mark.parametrize("model", FAMILIES)
def test_both_families_get_the_loss_and_gradients_of_the_librarys_logits(model, method, checkpointing, model_and_batch):
    model, batch = model_and_batch(
        model, f"train.method={method}", f"trainer.gradient_checkpointing={checkpointing}", "train.lora.dropout=0"
    )
    result = token_loss(model, batch, parts=4)
    result.weighted_nll.backward()
    found = trained_gradients(model)
    expected_loss, informative_nll, correct = library_loss(model, batch)
    expected_loss.backward()
    expected = trained_gradients(model)
    torch.testing.assert_close(result.weighted_nll, expected_loss, rtol=1e-5, atol=0)
    torch.testing.assert_close(result.by_part.sum(0)[0], informative_nll.double(), rtol=1e-5, atol=0)
    assert result.by_part.sum(0)[1] == correct
    assert found.keys() == expected.keys()
    scale = max(gradient.abs().max() for gradient in expected.values())
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name] / scale, gradient / scale, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("search", [True, False], ids=["find unused", "all used"])
def test_ddp_finds_every_gradient_in_one_forward_of_the_wrapped_model(search, model_and_batch):
    model, batch = model_and_batch("tiny_gemma3")
    assert model.lm_head.weight is model.get_input_embeddings().weight
    token_loss(model, batch, parts=4).weighted_nll.backward()
    alone = trained_gradients(model)
    init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    try:
        wrapped = DistributedDataParallel(model, find_unused_parameters=search)
        for _ in range(2):  # a parameter that the first step missed would fail the second
            token_loss(wrapped, batch, parts=4).weighted_nll.backward()
            for name, gradient in trained_gradients(model).items():
                assert_close(gradient, alone[name])
    finally:
        destroy_process_group()


def test_the_head_is_left_as_it_was_even_when_the_model_fails(model_and_batch):
    model, batch = model_and_batch("tiny_qwen3_vl")
    token_loss(model, batch, parts=4)
    one_image = {"pixel_values": batch["pixel_values"][:16], "image_grid_thw": torch.tensor([[1, 4, 4]])}
    with pytest.raises(ValueError, match=r"[Ii]mage"):
        token_loss(model, {**batch, **one_image}, parts=4)
    assert len(model.lm_head._forward_pre_hooks) == 0


def answers_of(batch):
    answered = batch["labels"][:, 1:] != IGNORED
    targets = batch["labels"][:, 1:][answered]
    return nn.functional.pad(answered, (0, 1)), targets, torch.ones(len(targets))


def test_a_head_with_an_adapter_of_its_own_is_refused(model_and_batch):
    model, batch = model_and_batch("tiny_qwen3_vl")
    adapted = get_peft_model(model, LoraConfig(target_modules=["lm_head"]))
    with pytest.raises(ValueError, match="take the head out of the LoRA targets"):
        answer_loss(adapted, {}, *answers_of(batch))


def test_a_softcap_that_the_library_leaves_out_is_refused(model_and_batch):
    model, batch = model_and_batch("tiny_gemma3")
    model.config.get_text_config().final_logit_softcapping = 30.0
    with pytest.raises(ValueError, match=r"got a model with final_logit_softcapping=30\.0"):
        answer_loss(model, {}, *answers_of(batch))
