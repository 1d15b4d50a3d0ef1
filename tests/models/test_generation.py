"""Greedy generation."""

from __future__ import annotations

import torch

from models.generation import generate, left_padded
from models.tokens import encode_prompt
from models.towers import train_towers
from recipes.schema import Lora, Train


def _prefer(loaded, tokens: list[str]) -> None:
    """Makes one of two tokens by far the likeliest, always."""
    head = loaded.model.get_output_embeddings().weight
    direction = torch.ones(head.shape[1]) + torch.arange(head.shape[1]) / 7
    with torch.no_grad():
        for sign, token in zip((100, -100), tokens, strict=True):
            head[loaded.processor.tokenizer.convert_tokens_to_ids(token)] = sign * direction


def test_batch_mates_change_nothing(loaded, prompts):
    together = generate(loaded, prompts, 12)
    alone = [generate(loaded, [prompt], 12)[0] for prompt in prompts]
    assert [one.text for one in together] == [one.text for one in alone]


def _inputs(loaded, prompt):
    return loaded.family.model_inputs(loaded.processor, encode_prompt(loaded, *prompt))


def test_padded_prompts_give_the_logits_of_unpadded_ones(loaded, prompts):
    encoded = [_inputs(loaded, prompt) for prompt in prompts]
    with torch.no_grad():
        batched = loaded.model(**left_padded(encoded, loaded.processor.tokenizer.pad_token_id)).logits[:, -1]
        single = torch.cat([loaded.model(**one).logits[:, -1] for one in encoded])
    torch.testing.assert_close(batched, single, atol=1e-5, rtol=1e-4)


def test_the_cache_changes_nothing(loaded, prompts):
    """Each generated token is the likeliest one when the whole text so far is read anew."""
    encoded = _inputs(loaded, prompts[0])
    forbidden = loaded.family.vision_token_ids(loaded.processor)
    ids = []
    for _ in range(8):
        with torch.no_grad():
            logits = loaded.model(**encoded).logits[0, -1]
        logits[forbidden] = -torch.inf
        ids.append(int(logits.argmax()))
        for name, value in (("input_ids", ids[-1]), ("attention_mask", 1)):
            encoded[name] = torch.cat([encoded[name], torch.tensor([[value]])], dim=1)
        for name in encoded.keys() & {"token_type_ids", "mm_token_type_ids"}:
            encoded[name] = torch.cat([encoded[name], torch.tensor([[0]])], dim=1)
    assert generate(loaded, [prompts[0]], 8)[0].text == loaded.processor.tokenizer.decode(ids)


def test_vision_tokens_are_never_written(model, build, prompts):
    loaded = build(model)
    _prefer(loaded, list(loaded.family.vision_tokens[:2]))
    with torch.no_grad():
        likeliest = int(loaded.model(**_inputs(loaded, prompts[2])).logits[0, -1].argmax())
    assert likeliest in loaded.family.vision_token_ids(loaded.processor)
    for completion in generate(loaded, prompts, 6):
        assert not any(token in completion.text for token in loaded.family.vision_tokens)


def test_an_answer_that_ends_its_turn_stops_and_the_end_is_not_part_of_the_text(model, build, prompts):
    loaded = build(model)
    _prefer(loaded, [loaded.family.end_of_turn, loaded.family.stop_tokens[0]])
    for completion in generate(loaded, prompts, 6):
        assert (completion.text, completion.finish_reason, completion.num_tokens) == ("", "stop", 1)
        assert completion.ids[0] in loaded.family.stop_token_ids(loaded.processor)
        assert len(completion.ids) == 1


def test_an_answer_that_does_not_end_is_cut_off_at_the_limit(model, build, prompts):
    loaded = build(model)
    _prefer(loaded, ["0", "1"])
    completions = generate(loaded, prompts, 6)
    assert {(one.finish_reason, one.num_tokens) for one in completions} == {("length", 6)}
    decode = loaded.processor.tokenizer.decode
    assert all(decode(one.ids) == one.text for one in completions)
    assert all(len(one.text) == 6 and set(one.text) <= {"0", "1"} and one.seconds > 0 for one in completions)


def test_each_answer_is_cut_off_at_its_own_limit(loaded, prompts):
    alone = [generate(loaded, [prompt], limit)[0] for prompt, limit in zip(prompts, (3, 9, 6), strict=True)]
    together = generate(loaded, prompts, [3, 9, 6])
    for one, other in zip(together, alone, strict=True):
        assert (one.text, one.finish_reason, one.num_tokens) == (other.text, other.finish_reason, other.num_tokens)
    assert [one.num_tokens for one in together] == [3, 9, 6]


def test_sampling_settings_that_come_with_a_model_are_not_used(model, build, prompts):
    loaded = build(model)
    expected = [one.text for one in generate(loaded, prompts, 8)]
    settings = {"do_sample": True, "temperature": 5.0, "top_k": 3, "repetition_penalty": 1.9, "min_new_tokens": 3}
    for name, value in settings.items():
        setattr(loaded.model.generation_config, name, value)
    assert [one.text for one in generate(loaded, prompts, 8)] == expected
    assert loaded.model.generation_config.do_sample is True


def test_the_model_is_left_as_found_under_gradient_checkpointing(model, build, prompts):
    loaded = build(model)
    expected = [one.text for one in generate(loaded, prompts, 8)]
    loaded.model.activation_checkpointing_enable()
    loaded.model.config.use_cache = False
    loaded.model.train()
    loaded.model.get_input_embeddings().eval()
    modes = [module.training for module in loaded.model.modules()]
    assert [one.text for one in generate(loaded, prompts, 8)] == expected
    assert [module.training for module in loaded.model.modules()] == modes
    assert loaded.model.config.use_cache is False
    assert loaded.model.is_activation_checkpointing


def test_a_model_with_adapters_answers_as_its_merged_weights_do(model, build, prompts):
    adapted = train_towers(build(model), Train(method="lora", lora=Lora(rank=4), precision="fp32"))
    with torch.no_grad():
        for parameter in adapted.model.parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)) / 10)
    answers = [one.text for one in generate(adapted, prompts, 8)]
    adapted.model.merge_adapter()
    assert [one.text for one in generate(adapted, prompts, 8)] == answers
    assert answers != [one.text for one in generate(build(model), prompts, 8)]


def test_no_prompts_give_no_completions(loaded):
    assert generate(loaded, [], 8) == []
