"""Operations by arithmetic against operations counted while a model runs."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from models.flops import example_flops
from models.lengths import Lengths
from models.tokens import encode_prompt


def encoded_with_images(loaded, conversation, picture, sizes):
    pictures = [picture(width, height, seed) for seed, (width, height) in enumerate(sizes)]
    encoded = encode_prompt(loaded, conversation("look", *[None] * len(sizes), "and answer"), pictures)
    return loaded.family.model_inputs(loaded.processor, encoded)


@pytest.mark.parametrize("sizes", [[(96, 64)], [(96, 96), (64, 128)]])
def test_linear_operations_are_those_that_the_model_runs(sizes, loaded, conversation, picture):
    encoded = encoded_with_images(loaded, conversation, picture, sizes)
    tokens, answer = encoded["input_ids"].shape[1], 5
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        loaded.model(**encoded, logits_to_keep=answer)
    kinds = {str(operation): flops for operation, flops in counter.get_flop_counts()["Global"].items()}
    attention = sum(flops for operation, flops in kinds.items() if "attention" in operation)
    flops = example_flops(loaded, loaded.model.config, Lengths(tokens - answer, answer), sizes)
    assert flops.text_linear + flops.vision_linear + flops.head == counter.get_total_flops() - attention
    assert flops.total == sum(flops)


def test_attention_is_quadratic_in_an_image_and_in_an_example_but_not_in_their_number(qwen):
    config = qwen.model.config
    one = example_flops(qwen, config, Lengths(1000, 0), [(64, 64)])
    larger = example_flops(qwen, config, Lengths(2000, 0), [(128, 128)])
    more = example_flops(qwen, config, Lengths(2000, 0), [(64, 64)] * 4)
    assert larger.vision_attention == 16 * one.vision_attention
    assert more.vision_attention == 4 * one.vision_attention
    assert larger.vision_linear == more.vision_linear == 4 * one.vision_linear
    assert larger.text_linear == 2 * one.text_linear
    assert larger.text_attention == pytest.approx(4 * one.text_attention, rel=1e-3)


def test_a_sliding_window_bounds_what_a_token_sees(gemma):
    config = gemma.model.config  # one layer of each kind
    window, per_pair = 1024, 4 * config.text_config.num_attention_heads * config.text_config.head_dim
    flops = example_flops(gemma, config, Lengths(window + 100, 0), [])
    full = (window + 100) * (window + 101) // 2
    assert flops.text_attention == per_pair * (full + window * (window + 1) // 2 + 100 * window)
