"""Prompts and answers as tokens."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from models.load import Loaded
from models.tokens import answer_encoding, answer_ids, encode_prompt, prompt_length

SIDES = st.integers(min_value=8, max_value=300)
SIZES = st.lists(st.tuples(SIDES, SIDES), max_size=3)
WORDS = st.text(st.sampled_from("ab 1,\n{}"), max_size=12)


def _decoded(loaded: Loaded, messages: list[dict], images: list[np.ndarray]) -> str:
    return loaded.processor.tokenizer.decode(encode_prompt(loaded, messages, images)["input_ids"][0])


@settings(max_examples=25, deadline=None)
@given(sizes=SIZES, words=st.lists(WORDS, min_size=4, max_size=4))
@pytest.mark.parametrize("name", ["qwen", "gemma"])
def test_the_length_by_arithmetic_is_the_length_of_the_tokens(name, sizes, words, request, conversation):
    loaded = request.getfixturevalue(name)
    parts = [words[0]]
    for word, _ in zip(words[1:], sizes, strict=False):
        parts += [None, word]
    messages = conversation(*parts)
    encoded = encode_prompt(loaded, messages, [np.zeros((height, width, 3), np.uint8) for width, height in sizes])
    assert prompt_length(loaded, messages, sizes) == encoded["input_ids"].shape[1]


def test_image_tokens_by_arithmetic_are_those_in_the_prompt(loaded, conversation, picture):
    images = [picture(97, 33), picture(40, 200)]
    encoded = encode_prompt(loaded, conversation("a", None, "b", None, "c"), images)
    expected = sum(loaded.family.image_tokens(loaded.processor, *image.shape[1::-1]) for image in images)
    assert (encoded["input_ids"] == loaded.model.config.image_token_id).sum() == expected


def test_a_qwen_prompt_reads_as_its_chat_format(qwen, conversation, picture):
    assert _decoded(qwen, conversation("A", None, "B\n"), [picture(32, 32)]) == (
        "<|im_start|>system\nYou solve puzzles.<|im_end|>\n<|im_start|>user\nA"
        "<|vision_start|><|image_pad|><|vision_end|>B\n<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_gemma_prompt_reads_as_its_chat_format_with_one_bos_and_the_system_text_in_the_user_turn(
    gemma, conversation, picture
):
    tokens = "<image_soft_token>" * 4
    assert _decoded(gemma, conversation("A", None, "B\n"), [picture(32, 32)]) == (
        "<bos><start_of_turn>user\nYou solve puzzles.\n\nA\n\n<start_of_image>" + tokens + "<end_of_image>\n\n"
        "B\n<end_of_turn>\n<start_of_turn>model\n"
    )


def test_a_conversation_without_system_or_images_and_with_plain_string_content_is_encoded(loaded):
    messages = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": "three"},
    ]
    text = _decoded(loaded, messages, [])
    assert text.index("one") < text.index("two") < text.index("three")
    assert "pixel_values" not in encode_prompt(loaded, messages, [])
    assert prompt_length(loaded, messages, []) == encode_prompt(loaded, messages, [])["input_ids"].shape[1]


@pytest.mark.parametrize("count", [0, 2])
def test_images_that_do_not_match_their_places_are_refused(count, loaded, conversation, picture):
    with pytest.raises(ValueError, match=rf"got {count} images for a prompt with 1 places"):
        encode_prompt(loaded, conversation("a", None), [picture(32, 32)] * count)
    with pytest.raises(ValueError, match=rf"got {count} images"):
        prompt_length(loaded, conversation("a", None), [(32, 32)] * count)


def test_an_answer_decodes_to_itself_and_the_end_of_turn(loaded):
    text = '{"0":[1,0],"1":[0,12]}'
    assert loaded.processor.tokenizer.decode(answer_ids(loaded, text)) == text + loaded.family.end_of_turn


@given(text=st.text(st.sampled_from('{}[]",:0123456789 é🧩\n'), max_size=40))
@settings(max_examples=50, deadline=None)
@pytest.mark.parametrize("name", ["qwen", "gemma"])
def test_answer_spans_cover_the_text_in_order(name, text, request):
    loaded = request.getfixturevalue(name)
    ids, spans = answer_encoding(loaded, text)
    assert len(ids) == len(spans)
    assert spans[-1] == (len(text), len(text))
    covered = [char for start, stop in spans for char in range(start, stop)]
    assert sorted(set(covered)) == list(range(len(text)))
    assert spans == sorted(spans)


def test_answer_spans_of_json_are_exact(loaded):
    text = '{"0":[1,0],"13":[0,10]}'
    ids, spans = answer_encoding(loaded, text)
    tokens = loaded.processor.tokenizer.convert_ids_to_tokens(ids)
    assert [text[start:stop] for start, stop in spans[:-1]] == tokens[:-1]
    assert tokens[-1] == loaded.family.end_of_turn


def test_an_image_as_an_array_is_the_same_to_the_model_as_in_pillow(loaded, picture):
    images = [picture(97, 64), picture(64, 200)]
    pixels = [loaded.processor.image_processor(kind, return_tensors="pt")["pixel_values"] for kind in (
        images, [Image.fromarray(image) for image in images]
    )]  # fmt: skip
    assert torch.equal(*pixels)
