"""Models from scratch: the same bits each time, and tokenizers like the real ones."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from models.scratch import build_scratch
from recipes.schema import Scratch

ANSWER = '{"0":[1,0],"13":[0,10],"255":[15,15]}'


def test_the_same_seed_gives_the_same_bits_whatever_came_before(model, loaded):
    torch.manual_seed(123)
    torch.rand(7)
    again, processor = build_scratch(model, 0)
    first, second = loaded.model.state_dict(), again.state_dict()
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert processor.tokenizer.get_vocab() == loaded.processor.tokenizer.get_vocab()


def test_another_seed_gives_other_weights(model, loaded):
    other, _ = build_scratch(model, 1)
    name = loaded.family.vision_positions
    assert not torch.equal(other.get_parameter(name), loaded.model.get_parameter(name))


def test_building_leaves_the_callers_random_state_alone(model):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    build_scratch(model, 0)
    assert torch.equal(torch.rand(3), expected)


def test_another_process_learns_the_same_vocabulary(loaded, model):
    script = (
        "from models.scratch import build_scratch; from recipes.schema import Model; import sys; "
        "_, processor = build_scratch(Model.model_validate_json(sys.argv[1]), 0); "
        "print(processor.tokenizer.backend_tokenizer.to_str(), end='')"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, model.model_dump_json()], capture_output=True, text=True, check=True
    )
    assert run.stdout == loaded.processor.tokenizer.backend_tokenizer.to_str()


def test_digits_are_tokens_of_their_own(loaded):
    tokens = loaded.processor.tokenizer.convert_ids_to_tokens(loaded.processor.tokenizer(ANSWER)["input_ids"])
    assert [token for token in tokens if any(char.isdigit() for char in token)] == list("0101301025515" + "15")


def test_any_text_survives_the_tokenizer(loaded):
    tokenizer = loaded.processor.tokenizer
    text = 'Ünïcödé 日本語 🧩\n\n  two  spaces\t{"0":[1,2]}\r\n'
    assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]) == text


def test_the_vision_position_embedding_starts_at_the_asked_deviation(model, build):
    wide = model.model_copy(update={"scratch": Scratch(vision_position_std=0.5)})
    loaded = build(wide)
    assert loaded.model.get_parameter(loaded.family.vision_positions).std().item() == pytest.approx(0.5, rel=0.1)


def test_only_parameters_are_cast_so_that_rotary_frequencies_stay_fp32(model, build):
    loaded = build(model, dtype=torch.bfloat16)
    assert {parameter.dtype for parameter in loaded.model.parameters()} == {torch.bfloat16}
    frequencies = [buffer for name, buffer in loaded.model.named_buffers() if "inv_freq" in name]
    assert frequencies
    assert {buffer.dtype for buffer in frequencies} == {torch.float32}


def test_embeddings_are_tied_as_in_the_real_models(qwen, gemma):
    tied = [
        one.model.get_input_embeddings().weight is one.model.get_output_embeddings().weight for one in (qwen, gemma)
    ]
    assert tied == [False, True]


def test_a_width_that_the_heads_do_not_divide_is_refused(model):
    odd = model.model_copy(update={"scratch": Scratch(text_hidden=50)})
    with pytest.raises(ValueError, match=r"got model\.scratch\.text_hidden=50.*multiples of 32.*set it to 32"):
        build_scratch(odd, 0)
