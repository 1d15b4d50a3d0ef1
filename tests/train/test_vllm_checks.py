"""What a run with vLLM is refused for before its model is loaded, or before its trainer is built."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import pytest
import torch
from transformers import Gemma3TextConfig

from models.lengths import Lengths
from models.load import load_encoder, load_model
from recipes.loader import load_recipe
from train.arguments import grpo_arguments
from train.check import Measured
from train.grpo import prepare
from train.vllm_checks import check_images, check_kv_memory, check_vllm, kv_bytes_per_token, plan_vllm

GIB = 2**30


@pytest.fixture
def asked(in_tmp_path):
    """`asked(*overrides)`: a recipe with vLLM, and its arguments."""

    def build(*overrides):
        recipe = load_recipe(
            ["recipe=mixed_grid", "model=tiny_qwen3_vl", "reward={}", "data.photos.use=reuse", "output_dir=run",
             "train.batching=plain", "train.precision=fp32", "train.effective_batch=8", "train.micro_batch=2",
             "trainer.use_vllm=true", *overrides]
        )  # fmt: skip
        return recipe, grpo_arguments(recipe, processes=1)

    return build


@pytest.fixture
def installed(monkeypatch):
    """As if vLLM were there."""
    monkeypatch.setattr("train.vllm_checks.find_spec", lambda name: name)


@contextmanager
def served(**model):
    """The address of a server that says this of its model."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"vllm_config": {"model_config": model}}).encode())

        def log_message(self, *words):
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_everything_that_is_wrong_without_vllm_is_told_at_once_before_the_model_is_loaded(in_tmp_path, monkeypatch):
    monkeypatch.setattr("train.grpo.load_for_training", lambda *about: pytest.fail("it was loaded"))
    with pytest.raises(ValueError, match=r"install it into a second environment.*docs/vllm\.md") as refused:
        prepare(
            ["recipe=mixed_grid", "model=tiny_qwen3_vl", "reward={}", "data.photos.use=reuse", "wandb.mode=disabled",
             "output_dir=run", "train.batching=plain", "train.precision=fp32", "train.effective_batch=8",
             "train.micro_batch=2", "trainer.use_vllm=true"]
        )  # fmt: skip
    assert "trainer.vllm_mode: got colocate; allowed: server without a CUDA GPU" in str(refused.value)
    assert "model.scratch: got a model from scratch; allowed: pretrained weights" in str(refused.value)


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["model.revision=v1"], r"model\.revision: got \"v1\"; allowed: none"),
        (
            ["trainer.vllm_mode=colocate", "trainer.vllm_tensor_parallel_size=2"],
            r"trainer\.vllm_tensor_parallel_size: got 2; allowed: a divisor of",
        ),
        (["trainer.generation_kwargs={top_k: 5}"], r"trainer\.generation_kwargs\.top_k: got 5"),
        (["trainer.generation_kwargs={logprobs: 2}"], r"trainer\.generation_kwargs\.logprobs: got 2"),
    ],
)
def test_what_vllm_would_not_do_as_the_recipe_says_is_refused(overrides, told, asked, installed):
    words = ["model.scratch=null", "model.pretrained=folder", "trainer.vllm_mode=server"]
    check_vllm(*asked(*words, "trainer.generation_kwargs={seed: 1}"), processes=3, rank=1)
    with pytest.raises(ValueError, match=told):
        check_vllm(*asked(*words, *overrides), processes=3, rank=1)


def test_a_server_is_asked_whether_it_can_serve(asked, installed):
    right = {"model": "folder", "logprobs_mode": "processed_logprobs"}
    words = ["model.scratch=null", "model.pretrained=folder", "trainer.vllm_mode=server"]

    def check(url, rank=0):
        check_vllm(*asked(*words, f"trainer.vllm_server_base_url={url}"), processes=1, rank=rank)

    with served(**right) as url:
        check(url)
    with pytest.raises(ValueError, match=r"got http.*do start it: VLLM_SERVER_DEV_MODE=1 vllm serve folder "):
        check(url)  # it is gone
    check(url, rank=1)  # which never talks to it
    with served(**right | {"logprobs_mode": "raw_logprobs"}) as url, pytest.raises(ValueError, match="raw_logprobs"):
        check(url)
    with served(**right | {"model": "another"}) as url, pytest.raises(ValueError, match='whose model is "another"'):
        check(url)


@pytest.fixture
def saved(asked, tmp_path):
    """A tiny model, and the recipe words that load it from its folder."""
    recipe, _ = asked()
    loaded = load_model(recipe.model, seed=0, dtype=torch.float32)
    loaded.model.save_pretrained(tmp_path / "saved")
    loaded.processor.save_pretrained(tmp_path / "saved")
    return loaded, ["model.scratch=null", f"model.pretrained={tmp_path / 'saved'}"]


def test_a_processor_on_disk_that_sees_images_otherwise_is_refused(asked, saved):
    loaded, words = saved
    same, _ = asked(*words)
    check_images(same, loaded, [(100, 200), (300, 300), (3000, 3000)])
    fewer, _ = asked(*words, "model.image.max_px=65536")
    check_images(fewer, load_encoder(fewer.model), [(100, 200)])
    with pytest.raises(ValueError, match=r"an image of 300x300 px is 64 tokens, of 256x256 px; .*: 81 tokens"):
        check_images(fewer, load_encoder(fewer.model), [(100, 200), (300, 300)])


def test_vllm_is_told_the_longest_prompt_and_the_longest_answer(asked, saved, monkeypatch):
    loaded, words = saved
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (0, 80 * GIB))
    recipe, args = asked(*words)
    args.max_completion_length = 160
    measured = [Measured("a", Lengths(500, 50), 0, ((64, 64),)), Measured("b", Lengths(300, 100), 0)]
    plan_vllm(recipe, args, loaded, measured, rank=0)
    assert args.vllm_max_model_length == 660
    with served(max_model_len=659) as url:
        args.vllm_mode, args.vllm_server_base_url = "server", url
        with pytest.raises(ValueError, match=r"max_model_len is 659; .* do start it with --max-model-len 660"):
            plan_vllm(recipe, args, loaded, measured, rank=0)


def test_keys_and_values_of_the_longest_sequence_must_fit_beside_the_weights(caplog):
    caplog.set_level("INFO")
    text = Gemma3TextConfig(num_hidden_layers=34, num_key_value_heads=4, head_dim=256)
    assert kv_bytes_per_token(text) == 2 * 34 * 4 * 256 * 2 == 139_264
    args = SimpleNamespace(vllm_gpu_memory_utilization=0.3, vllm_tensor_parallel_size=1)
    weights, longest = 8 * GIB, 8192  # of which each needs 1.0625 GiB
    check_kv_memory(args, longest, weights, kv_bytes_per_token(text), 40 * GIB)
    assert "0.3 x 40.0 GiB of a GPU - 8.00 GiB of weights = 4.00 GiB" in caplog.text
    assert "8,192 tokens x 139,264 bytes, needs 1.06 GiB: 3 of them fit at once" in caplog.text
    with pytest.raises(ValueError, match=r"= 1\.00 GiB .* needs 1\.06 GiB; do set .*utilization=0\.35 or more"):
        check_kv_memory(args, longest, weights, kv_bytes_per_token(text), 30 * GIB)
    args.vllm_tensor_parallel_size = 2
    check_kv_memory(args, longest, weights, kv_bytes_per_token(text), 30 * GIB)
