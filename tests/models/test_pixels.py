"""Prompts and images against what transformers' own processors make of them, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from models.load import Loaded
from models.tokens import encode_prompt

SIDES = st.integers(min_value=8, max_value=300)
SIZES = st.lists(st.tuples(SIDES, SIDES), max_size=4)
WORDS = st.text(st.sampled_from("ab 1,\n{}"), max_size=12)


def _reference(loaded: Loaded, messages: list[dict], images: list[np.ndarray]) -> dict[str, torch.Tensor]:
    processor = loaded.processor
    text = processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    return dict(
        processor(text=[text], images=images or None, return_tensors="pt", text_kwargs={"add_special_tokens": False})
    )


def _require_equal(got: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert got.keys() == expected.keys()
    for name, tensor in expected.items():
        assert got[name].dtype == tensor.dtype, name
        assert torch.equal(got[name], tensor), name


@settings(max_examples=40, deadline=None)
@given(sizes=SIZES, words=st.lists(WORDS, min_size=5, max_size=5))
@example(sizes=[(96, 64)], words=["", "", "", "", ""])  # Qwen3-VL: already of the size that the model wants
@example(sizes=[(112, 112)], words=["a", "b", "", "", ""])  # Gemma3: the same
@example(sizes=[(64, 64), (64, 64), (33, 70), (64, 64)], words=["\n", "\n\n", " ", "", "1"])
@example(sizes=[(8, 300), (300, 8)], words=["a", "b", "c", "d", "e"])
@pytest.mark.parametrize("name", ["qwen", "gemma"])
def test_a_prompt_is_to_the_bit_what_the_processor_makes_of_it(name, sizes, words, request, conversation, picture):
    loaded = request.getfixturevalue(name)
    images = [picture(*size, seed=seed) for seed, size in enumerate(sizes)]
    parts = [words[0]]
    for word, _ in zip(words[1:], images, strict=False):
        parts += [None, word]
    messages = conversation(*parts)
    got = loaded.family.model_inputs(loaded.processor, encode_prompt(loaded, messages, images))
    _require_equal(got, _reference(loaded, messages, images))


@pytest.mark.parametrize("size", [(724, 744), (333, 517), (32, 32)])
def test_large_images_are_equal_too_and_with_another_mean_and_deviation(size, build, model, conversation, picture):
    loaded = build(model)
    loaded.processor.image_processor.image_mean = [0.48145466, 0.4578275, 0.40821073]
    loaded.processor.image_processor.image_std = [0.26862954, 0.26130258, 0.27577711]
    images, messages = [picture(*size)], conversation("a", None)
    got = loaded.family.model_inputs(loaded.processor, encode_prompt(loaded, messages, images))
    _require_equal(got, _reference(loaded, messages, images))


def test_images_travel_as_one_byte_for_each_value_of_the_scaled_image(loaded, conversation, picture):
    images = [picture(64, 96), picture(50, 70)]
    encoded = encode_prompt(loaded, conversation(None, None), images)
    sizes = [loaded.family.scaled_size(loaded.processor, image.shape[1], image.shape[0]) for image in images]
    assert encoded["pixel_values"].dtype == torch.uint8
    assert encoded["pixel_values"].numel() == sum(3 * width * height for width, height in sizes)


def test_prompts_joined_as_bytes_are_those_joined_as_floats(loaded, conversation, picture):
    encoded = [
        encode_prompt(loaded, conversation(*[None] * len(sizes)), [picture(*size) for size in sizes])
        for sizes in ([(64, 96)], [(64, 96), (90, 40)], [(90, 40)])
    ]
    names = encoded[0].keys() & {"pixel_values", "image_grid_thw"}
    joined = {name: torch.cat([one[name] for one in encoded]) for name in names}
    floats = [loaded.family.model_inputs(loaded.processor, one)["pixel_values"] for one in encoded]
    assert torch.equal(loaded.family.pixel_values(loaded.processor, joined), torch.cat(floats))


def test_a_model_refuses_images_that_are_still_bytes(loaded, conversation, picture):
    encoded = encode_prompt(loaded, conversation("a", None), [picture(64, 64)])
    with pytest.raises((RuntimeError, ValueError)), torch.no_grad():
        loaded.model(**encoded)


@pytest.mark.gpu
@pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a CUDA device: floats made on one are compared with those of a CPU"
)
def test_floats_made_on_a_gpu_are_those_of_the_processor_too(loaded, conversation, picture):
    images, messages = [picture(64, 96), picture(113, 70)], conversation("a", None, "b", None)
    on_gpu = {name: tensor.cuda() for name, tensor in encode_prompt(loaded, messages, images).items()}
    got = loaded.family.model_inputs(loaded.processor, on_gpu)
    _require_equal({name: tensor.cpu() for name, tensor in got.items()}, _reference(loaded, messages, images))
