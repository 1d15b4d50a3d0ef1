"""Rollouts by another engine, with a stand-in for TRL's VLLMGeneration: real tokens by a real copy of the model."""

import tempfile
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import AutoModelForImageTextToText

from data_mix.streams import stream
from models import FAMILIES
from models.family import token_id
from models.load import load_model, load_weights_into
from models.merge import merged
from models.towers import train_towers
from recipes.loader import load_recipe
from train import grpo as script
from train.guard import RunError
from train.rollouts import Written
from train.vllm_engine import VllmEngine, named_weights

TINY = ("tiny_qwen3_vl", "tiny_gemma3")


def recipe_of(model, *overrides):
    return load_recipe(["recipe=mixed_grid", f"model={model}", "data.photos.use=reuse", "output_dir=run", *overrides])


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """{model: folder of a tiny model that prefers some tokens by far, as trained ones do}."""
    made = {}
    for name in TINY:
        recipe, made[name] = recipe_of(name), tmp_path_factory.mktemp(name)
        loaded = load_model(recipe.model, seed=0, dtype=torch.float32)
        loaded.model.model.language_model.norm.weight.data += 5
        loaded.model.save_pretrained(made[name])
        loaded.processor.save_pretrained(made[name])
    return made


class StandIn:
    """What TRL and the engine use of VLLMGeneration: reads a folder, and what it is handed, by the names of files."""

    arrives, raw, other_limits = True, False, False

    def __init__(
        self, model, accelerator, processing_class, mode, temperature, top_p, top_k, min_p, repetition_penalty,
        max_completion_length, generation_kwargs, max_model_length, **others,
    ):  # fmt: skip
        self.accelerator, self.processing_class, self.mode = accelerator, processing_class, mode
        self.temperature, self.top_p, self.top_k, self.min_p = temperature, top_p, top_k, min_p
        self.repetition_penalty, self.max_completion_length = repetition_penalty, max_completion_length
        self.generation_kwargs, self.max_model_length = generation_kwargs or {}, max_model_length
        self.copy = AutoModelForImageTextToText.from_pretrained(model.name_or_path, dtype=torch.float32).eval()
        self.family = FAMILIES[self.copy.config.model_type]
        self.image = token_id(processing_class, self.family.image_token)
        self.vllm_client = SimpleNamespace(
            image_features=self.image_features,
            get_server_info=lambda: {"model_config": {"logprobs_mode": "processed_logprobs"}},
        )
        self.syncs, self.drawn_by = 0, []

    def sync_weights(self):
        self.syncs += 1
        with tempfile.TemporaryDirectory() as folder:
            weights = {name: tensor.clone().contiguous() for name, tensor in self._iter_named_params()}
            save_file(weights, Path(folder, "model.safetensors"))
            if self.arrives:
                load_weights_into(self.copy, folder)

    def image_features(self, images):
        counts = [[self._count(one) + self.other_limits for one in some] for some in images]
        places = [[{"offset": 0, "length": count} for count in some] for some in counts]
        return [{"mm_placeholders": {"image": some}} for some in places]

    def _count(self, image):
        return self.family.image_tokens(self.processing_class, *image.size)

    def _read(self, ids, images):
        """As a colocated vLLM does: an image for the first token that stands for one."""
        written = self.processing_class.tokenizer.decode(ids)
        if ids.count(self.image) > len(images):
            at = ids.index(self.image)
            return [*ids[:at], *[self.image] * self._count(images[0]), *ids[at + 1 :]], ids
        encoded = self.processing_class(text=[written], images=[images], add_special_tokens=False)
        return encoded["input_ids"][0], encoded["input_ids"][0]

    def generate(self, prompts, images, num_generations, profiler=None):
        self.drawn_by.append((self.top_p, self.top_k))
        each = num_generations if self.mode == "server" else 1
        told, drawn, logps = [], [], []
        for ids, some in zip(prompts[::each], images[::each], strict=True):
            said, real = (ids, ids) if self.mode == "server" else self._read(ids, some)
            told += [said] * each
            for completion, found in self._complete(real, some, each):
                assert len(real) + len(completion) <= self.max_model_length
                drawn.append(completion)
                logps.append([[one] for one in found])
        return told, drawn, logps, None

    def _complete(self, ids, images, number):
        inputs = self.processing_class.image_processor(images=images, return_tensors="pt")
        types = (torch.tensor([ids]) == self.image).long()
        made = self.copy.generate(
            input_ids=torch.tensor([ids]), attention_mask=torch.ones_like(types), **{self.family.token_types: types},
            **{key: value for key, value in inputs.items() if key in ("pixel_values", "image_grid_thw")},
            do_sample=True, temperature=self.temperature, top_p=self.top_p, top_k=self.top_k,
            max_new_tokens=self.max_completion_length, num_return_sequences=number,
            eos_token_id=self.generation_kwargs["stop_token_ids"], pad_token_id=0,
            suppress_tokens=list(self.generation_kwargs["logit_bias"]), output_scores=True, output_logits=True,
            return_dict_in_generate=True,
        )  # fmt: skip
        spoken = torch.stack(made.logits if self.raw else made.scores, 1).float().log_softmax(-1)
        for row, tokens in zip(spoken, made.sequences[:, len(ids) :].tolist(), strict=True):
            stops = [at for at, one in enumerate(tokens) if one in self.generation_kwargs["stop_token_ids"]]
            tokens = tokens[: stops[0] + 1] if stops else tokens
            yield tokens, [float(row[at, token]) for at, token in enumerate(tokens)]


@pytest.fixture
def by_vllm(tmp_path, monkeypatch, folders):
    """`by_vllm(model, *overrides, **faults)`: a trainer whose vLLM is a stand-in, on two sizes of sheets."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(script, "check_vllm", lambda *about: None)
    monkeypatch.setattr("train.vllm_checks._check_server_length", lambda *about: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (0, 80 * 2**30))

    def build(model, *overrides, **faults):
        stand_in = type("StandIn", (StandIn,), faults)
        monkeypatch.setattr("trl.trainer.grpo_trainer.VLLMGeneration", stand_in)
        spec = "{{task: jigshape, count: 8, spec: {{grid: {}, piece_px: 40, tab_ratio: 0.3}}}}"
        trainer = script.prepare(
            [
                "recipe=mixed_grid", f"model={model}", "model.scratch=null", f"model.pretrained={folders[model]}",
                "reward={}", "data.photos.use=reuse", "wandb.mode=disabled", "output_dir=run",
                *(f"data.parts.{n}x{n}=null" for n in (4, 8, 12, 16)),
                *(f"data.parts.{n}={spec.format(n)}" for n in (2, 3)),
                "train.batching=plain", "train.precision=fp32", "train.workers=0", "train.effective_batch=8",
                "train.micro_batch=4", "trainer.num_generations=2", "trainer.max_steps=1", "trainer.warmup_steps=0",
                "trainer.learning_rate=3e-2", "trainer.gradient_checkpointing=false", "eval.count=0",
                "eval.final_count=0", "trainer.use_vllm=true", "trainer.temperature=0.6", *overrides,
            ]
        ).trainer  # fmt: skip
        noise = iter(stream("reward").random(99))  # untrained answers earn nothing, which would teach nothing
        trainer._judge = lambda posed, completion, logps: Written(
            completion, {"pa": next(noise), "sc": 0.0, "valid": 1.0}, 0.0, 0.0, logps
        )
        return trainer

    return build


@pytest.mark.parametrize("mode", ["colocate", "server"])
@pytest.mark.parametrize("model", TINY)
def test_steps_train_on_what_an_honest_engine_writes(model, mode, by_vllm):
    trainer = by_vllm(model, f"trainer.vllm_mode={mode}", "trainer.max_steps=2")
    before = {name: weight.detach().clone() for name, weight in trainer.model.named_parameters()}
    trainer.train()
    assert trainer.vllm_generation.syncs == 2
    assert any(not torch.equal(weight, before[name]) for name, weight in trainer.model.named_parameters())
    barred = set(trainer._loaded.family.vision_token_ids(trainer._loaded.processor))
    for prompt, each in trainer._rows:
        assert len(each.logps) == len(each.completion.ids) <= prompt.limit
        assert (each.completion.finish_reason == "length") == (len(each.completion.ids) == prompt.limit)
        assert not barred.intersection(each.completion.ids)
    if model == "tiny_qwen3_vl":
        assert len({prompt.encoded["input_ids"].shape for prompt, _ in trainer._rows}) == 2
    for logged in (entry for entry in trainer.state.log_history if "reward" in entry):
        assert logged["sampling/sampling_logp_difference/mean"] < 0.01


def test_an_adapter_arrives_merged(by_vllm):
    trainer = by_vllm("tiny_qwen3_vl", "train.method=lora", "trainer.max_steps=2")
    trainer.train()
    last = [entry for entry in trainer.state.log_history if "reward" in entry][-1]
    assert last["sampling/sampling_logp_difference/mean"] < 0.01


def test_rollouts_that_are_proven_are_drawn_by_temperature_alone(by_vllm):
    trainer = by_vllm("tiny_qwen3_vl", "trainer.max_steps=3", "trainer.top_p=0.9", "trainer.top_k=7")
    trainer.train()
    assert trainer.vllm_generation.drawn_by == [(1.0, 0), (1.0, 0), (0.9, 7)]


@pytest.mark.parametrize("model", TINY)
def test_prompts_whose_images_are_expanded_twice_are_told(model, by_vllm, monkeypatch):
    sent = lambda self, prompts: [one.encoded["input_ids"][0].tolist() for one in prompts]  # noqa: E731
    monkeypatch.setattr(VllmEngine, "_sent", sent)
    with pytest.raises(RunError, match="an image is expanded twice"):
        by_vllm(model).train()


def test_a_server_that_makes_another_number_of_tokens_of_an_image_is_told(by_vllm):
    with pytest.raises(RunError, match="tokens of a prompt's images, and training"):
        by_vllm("tiny_qwen3_vl", "trainer.vllm_mode=server", other_limits=True).train()


@pytest.mark.parametrize("mode", ["colocate", "server"])
@pytest.mark.parametrize("model", TINY)
def test_weights_that_do_not_arrive_are_told_at_the_second_rollout(model, mode, by_vllm):
    trainer = by_vllm(model, f"trainer.vllm_mode={mode}", "trainer.max_steps=2", arrives=False)
    with pytest.raises(RunError, match=r"rollout 2: .* the weights have not arrived"):
        trainer.train()
    assert trainer.state.global_step == 1


@pytest.mark.parametrize("arrives", [True, False])
def test_weights_that_training_starts_from_must_have_arrived_before_the_first_rollout(arrives, by_vllm, folders):
    start = folders["tiny_qwen3_vl"].with_name("start")
    other = load_model(recipe_of("tiny_qwen3_vl").model, seed=1, dtype=torch.float32)
    other.model.save_pretrained(start)
    trainer = by_vllm("tiny_qwen3_vl", f"train.start={start}", arrives=arrives)
    with nullcontext() if arrives else pytest.raises(RunError, match=r"rollout 1: .* the weights have not arrived"):
        trainer.train()


@pytest.mark.parametrize("model", TINY)
def test_log_probabilities_without_the_temperature_are_told(model, by_vllm):
    with pytest.raises(RunError, match=r"rollout 1: .* not those at trainer.temperature=0.6"):
        by_vllm(model, raw=True).train()


@pytest.mark.parametrize("model", TINY)
def test_weights_are_handed_over_under_the_names_of_files(model, folders):
    loaded = load_model(recipe_of(model).model, seed=0, dtype=torch.float32)
    with safe_open(folders[model] / "model.safetensors", "pt") as stored:
        assert {name for name, _ in named_weights(loaded.model)} == set(stored.keys())


@pytest.mark.parametrize("model", TINY)
def test_an_adapter_is_merged_into_copies_as_the_merge_command_does(model, folders):
    recipe = recipe_of(model, "train.method=lora")
    loaded = load_model(recipe.model, seed=0, dtype=torch.bfloat16)
    adapted = train_towers(loaded, recipe.train).model
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            parameter.data.normal_(std=0.1)
    before = {name: value.clone() for name, value in adapted.state_dict().items()}
    handed = dict(named_weights(adapted))
    assert all(torch.equal(value, before[name]) for name, value in adapted.state_dict().items())
    expected = dict(named_weights(merged(adapted)))
    assert handed.keys() == expected.keys()
    assert all(torch.equal(value, expected[name]) for name, value in handed.items())
