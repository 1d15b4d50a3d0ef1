"""Log-probabilities under a grammar's mask: those that answers were drawn with, and of a model as it is trained."""

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from torch.distributed import HashStore, destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel
from trl.trainer.utils import add_fused_lm_head

from models.constrained import generate_constrained
from models.drawing import Drawing, GumbelDraw
from models.generation import left_padded
from models.load import load_model
from models.tokens import encode_prompt
from recipes.loader import load_recipe
from recipes.schema import Scratch
from tasks import TASKS
from train.decided import decided_logps, masked_logps

JIGSHAPE = TASKS["jigshape"]
FAMILIES = ("tiny_qwen3_vl", "tiny_gemma3")
PUZZLES = [("by_id", 2), ("by_cell", 3), ("cells_then_ids", 2), ("by_id", 4), ("by_cell", 4)]


@pytest.fixture
def loaded_of():
    """`loaded_of(model)`: one with large random weights, whose choices depend on all that it sees."""

    def build(model):
        section = load_recipe(["recipe=quickstart", f"model={model}"]).model
        section = section.model_copy(update={"scratch": Scratch(text_init_std=0.2)})
        return load_model(section, seed=0, dtype=torch.float32)

    return build


def prompts(count):
    """Of a text each, with an image or two of different sizes, or none."""
    pixels = torch.randint(0, 256, (96, 96, 3), generator=torch.Generator().manual_seed(0)).to(torch.uint8).numpy()
    made = []
    for number in range(count):
        images = [pixels[: 32 * (number + 1) % 96 + 32, : 64 - number]] * (number % 3)
        parts = [{"type": "text", "text": "Solve this " * (number + 1)}, *[{"type": "image"} for _ in images]]
        made.append(([{"role": "user", "content": parts}], images))
    return made


def rolled_out(loaded, temperature, top_p=1.0):
    """Prompts and drawn answers of puzzles of several grids and formats, in one batch."""
    specs = [JIGSHAPE.Spec(answer_format=form, grid=grid) for form, grid in PUZZLES]
    asked = prompts(len(specs))
    draw = GumbelDraw(Drawing(temperature, top_p), range(len(specs)))
    return asked, generate_constrained(loaded, asked, [JIGSHAPE.grammar(spec, {}) for spec in specs], draw)


def training_batch(loaded, asked, completions):
    """(features, predicts, tokens, allowed) as TRL lays them out: prompts padded on the left, answers on the right."""
    pad_id = loaded.processor.tokenizer.pad_token_id
    features = left_padded([encode_prompt(loaded, *one) for one in asked], pad_id)
    width, longest = features["input_ids"].shape[1], max(len(one.ids) for one in completions)

    def right_padded(rows, fill=0):
        return torch.tensor([[*row] + [fill] * (longest - len(row)) for row in rows])

    predicts = torch.zeros(len(asked), width + longest, dtype=torch.bool)
    predicts[:, width - 1 : -1] = right_padded([one.decided for one in completions]).bool()
    zeros = torch.zeros(len(asked), longest, dtype=torch.long)
    more = {
        "input_ids": right_padded([one.ids for one in completions], pad_id),
        "attention_mask": right_padded([[1] * len(one.ids) for one in completions]),
        loaded.family.token_types: zeros,
    }
    for name, added in more.items():
        features[name] = torch.cat([features[name], added], dim=1)
    tokens = torch.tensor([one.ids[decision.index] for one in completions for decision in one.decisions])
    allowed = [decision.allowed for one in completions for decision in one.decisions]
    return loaded.family.model_inputs(loaded.processor, features), predicts, tokens, allowed


@pytest.mark.parametrize(("temperature", "top_p"), [(0.7, 1.0), (1.0, 1.0), (1.0, 0.5)])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_first_importance_ratio_is_one_for_every_decision(family, temperature, top_p, loaded_of):
    loaded = loaded_of(family)
    asked, completions = rolled_out(loaded, temperature, top_p)
    logps, _ = decided_logps(loaded.model, *training_batch(loaded, asked, completions), temperature)
    drawn = torch.tensor([decision.log_prob for one in completions for decision in one.decisions])
    assert len(drawn) == len(logps)
    assert drawn.std() > 0.1  # the model has opinions
    torch.testing.assert_close((logps.detach() - drawn).exp(), torch.ones(len(drawn)), atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_values_and_gradients_are_those_of_a_softmax_over_the_librarys_logits(family, loaded_of):
    loaded = loaded_of(family)
    features, predicts, tokens, allowed = training_batch(loaded, *rolled_out(loaded, 0.7))
    found = decided_logps(loaded.model, features, predicts, tokens, allowed, 0.7)
    logits = loaded.model(**features).logits[predicts]
    rows = [torch.log_softmax(row[list(some)] / 0.7, dim=0) for row, some in zip(logits, allowed, strict=True)]
    chosen = [some.index(token) for some, token in zip(allowed, tokens.tolist(), strict=True)]
    expected = (
        torch.stack([row[index] for row, index in zip(rows, chosen, strict=True)]),
        torch.stack([-(row.exp() * row).sum() for row in rows]),
    )
    share = torch.linspace(-1, 1, len(tokens))
    parameters = [one for one in loaded.model.parameters() if one.requires_grad]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
        gradients = torch.autograd.grad((share * ours).sum(), parameters, retain_graph=True, allow_unused=True)
        wanted = torch.autograd.grad((share * theirs).sum(), parameters, retain_graph=True, allow_unused=True)
        scale = max(gradient.abs().max() for gradient in wanted if gradient is not None)
        for gradient, other in zip(gradients, wanted, strict=True):
            if other is None:
                assert gradient is None
            else:
                torch.testing.assert_close(gradient / scale, other / scale, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_that_trl_has_patched_and_that_has_adapters_under_ddp_gives_the_same(family, loaded_of):
    loaded = loaded_of(family)
    batch = training_batch(loaded, *rolled_out(loaded, 1.0))
    expected = decided_logps(loaded.model, *batch, 1.0)
    add_fused_lm_head(loaded.model, temperature=1.0)
    adapted = get_peft_model(loaded.model, LoraConfig(target_modules=["q_proj"]))
    init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    try:
        wrapped = DistributedDataParallel(adapted, find_unused_parameters=True)
        for _ in range(2):  # a parameter that the first step missed would fail the second
            found = decided_logps(wrapped, *batch, 1.0)
            found[0].sum().backward()
    finally:
        destroy_process_group()
    for ours, alone in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, alone, atol=1e-5, rtol=1e-5)
    assert any(one.grad is not None and one.grad.any() for one in adapted.parameters())


def test_a_batch_without_decisions_has_a_gradient_of_zero():
    hidden, weight = torch.randn(0, 8, requires_grad=True), torch.randn(20, 8, requires_grad=True)
    logps, entropies = masked_logps(hidden, weight, torch.zeros(0, dtype=torch.long), [], 1.0)
    assert logps.shape == entropies.shape == (0,)
    (logps.sum() + entropies.sum()).backward()
    assert not weight.grad.any()


def test_tokens_that_are_not_allowed_at_a_choice_count_for_nothing_there():
    generator = torch.Generator().manual_seed(0)
    hidden, weight = torch.randn(2, 8, generator=generator), nn.Parameter(torch.randn(20, 8, generator=generator))
    logps, entropies = masked_logps(hidden, weight, torch.tensor([7, 3]), [(2, 7), (3, 9, 11)], 2.0)
    first = torch.softmax(hidden[0] @ weight[[2, 7]].t() / 2, dim=0)
    torch.testing.assert_close(logps[0], first[1].log())
    torch.testing.assert_close(entropies[0], -(first * first.log()).sum())
    [gradient] = torch.autograd.grad(logps[0], weight)
    assert gradient.any(dim=1).nonzero()[:, 0].tolist() == [2, 7]
