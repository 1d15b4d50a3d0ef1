"""How fast a worker makes examples, with transformers' processors and with ours, and how many feed one H100.

    python benchmarks/data.py [grids=4,8,12,16] [repeats=7] [seconds=4]

One core, one cached photo, published sheets, the real models' image sizes and a vocabulary made on the spot; medians of
calls in turn. Before: the processor makes floats and patches of images and tokens of text. After: `encode_prompt` makes
bytes and tokens, and `Family.model_inputs` the floats, where the model is. Both must give equal inputs, or the script
stops. `loader` counts examples that arrive from one worker process of a DataLoader during `seconds`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import skimage
import torch
from PIL import Image
from sheets import CachedPhoto, medians_ms
from torch.utils.data import DataLoader

from models.load import Encoder, load_encoder
from models.tokens import answer_encoding, encode_prompt, prompt_length
from recipes.schema import ImageSize, Model, Scratch
from tasks import Example
from tasks.jigshape import TASK
from tasks.jigshape.spec import Spec

MODELS = {
    "qwen3_vl": ImageSize(min_px=65536, max_px=16777216),
    "gemma3": ImageSize(side_px=896),
}

# Qwen3-VL-8B, from its config; parameters in 1e9
VISION, MERGERS, LANGUAGE, LM_HEAD = 0.416, 0.160, 6.946, 0.622
VISION_LAYERS, VISION_WIDTH = 27, 1152
LANGUAGE_LAYERS, LANGUAGE_WIDTH = 36, 4096  # width of all query heads together
ANSWER_TOKENS = {4: 103, 8: 439, 12: 1091, 16: 2131}  # in the real vocabulary
PROMPT_TEXT_TOKENS = 150  # about
H100_TFLOPS, MFU = 989, 0.40  # dense BF16
SHARES = {4: 3000, 8: 2000, 12: 1000, 16: 500}  # of the mixed_grid recipe

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

Inputs = dict[str, torch.Tensor]


def processors_own(encoder: Encoder, example: Example) -> Inputs:
    """A prompt as transformers' processor makes it."""
    processor = encoder.processor
    text = processor.apply_chat_template(example.puzzle.messages, add_generation_prompt=True, tokenize=False)
    return dict(
        processor(text=[text], images=example.images, return_tensors="pt", text_kwargs={"add_special_tokens": False})
    )


def processors_own_tokens(encoder: Encoder, example: Example, expanded: str) -> list[list[int]]:
    """The text's part of `processors_own`; expanded is the prompt with all image tokens written out."""
    processor = encoder.processor
    processor.apply_chat_template(example.puzzle.messages, add_generation_prompt=True, tokenize=False)
    return processor.create_mm_token_type_ids(processor.tokenizer([expanded], add_special_tokens=False)["input_ids"])


def ours(encoder: Encoder, example: Example) -> Inputs:
    return encode_prompt(encoder, example.puzzle.messages, example.images)


class Made:
    """Examples by seed, from pose to tokens."""

    def __init__(self, encoder: Encoder, spec: Spec, photo: CachedPhoto, encode: Callable[..., Inputs]) -> None:
        self.encoder, self.spec, self.photo, self.encode = encoder, spec, photo, encode

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, seed: int) -> Inputs:
        example = TASK.make(self.spec, self.photo, seed)
        ids, _ = answer_encoding(self.encoder, TASK.gold(example.puzzle.target))
        return {**self.encode(self.encoder, example), "answer": torch.tensor(ids)}


def arriving_per_second(made: Made, seconds: float) -> float:
    """Examples that one worker process delivers; it may run on any core."""
    batches = iter(DataLoader(made, batch_size=None, num_workers=1, multiprocessing_context="fork"))
    next(batches)
    started, count = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        next(batches)
        count += 1
    return count / (time.perf_counter() - started)


def h100_seconds(grid: int, image_tokens: int) -> float:
    """Seconds that one H100 takes to train Qwen3-VL-8B on an example, all weights; prints the arithmetic."""
    patches, answer = 4 * image_tokens, ANSWER_TOKENS[grid]
    tokens = image_tokens + PROMPT_TEXT_TOKENS + answer
    terms = {
        f"vision linears 2 x {VISION}e9 x {patches:,} patches": 2 * VISION * 1e9 * patches,
        f"vision attention 4 x {VISION_LAYERS} x {VISION_WIDTH} x {patches:,}^2": (
            4 * VISION_LAYERS * VISION_WIDTH * patches**2
        ),
        f"mergers 2 x {MERGERS}e9 x {image_tokens:,}": 2 * MERGERS * 1e9 * image_tokens,
        f"language linears 2 x {LANGUAGE}e9 x {tokens:,} tokens": 2 * LANGUAGE * 1e9 * tokens,
        f"language attention, causal half, 2 x {LANGUAGE_LAYERS} x {LANGUAGE_WIDTH} x {tokens:,}^2": (
            2 * LANGUAGE_LAYERS * LANGUAGE_WIDTH * tokens**2
        ),
        f"LM head 2 x {LM_HEAD}e9 x {answer:,} answer tokens": 2 * LM_HEAD * 1e9 * answer,
    }
    forward = sum(terms.values()) / 1e12
    seconds = 3 * forward / (MFU * H100_TFLOPS)
    print(f"\n{grid}x{grid}, TFLOP forward:")
    for name, flops in terms.items():
        print(f"  {flops / 1e12:7.2f}  {name}")
    print(
        f"  {forward:7.2f}  in all; x 3 with backward / ({MFU} x {H100_TFLOPS} TFLOP/s) = {seconds:.3f} s per example"
    )
    return seconds


class Costs(NamedTuple):
    """Medians of one core in ms per example, where there are two: before and after."""

    pose: float
    render: float
    images: tuple[float, float]
    prompt: tuple[float, float]
    """Without images."""
    answer: float
    all: tuple[float, float]
    floats: float
    """`Family.model_inputs`, on a GPU where there is one."""
    megabytes: tuple[float, float]
    """What a prompt's inputs take on their way to the model."""
    arriving: tuple[float, float]
    """Examples per second out of a DataLoader with one worker."""


def measure(encoder: Encoder, spec: Spec, photo: CachedPhoto, repeats: int, seconds: float) -> Costs:
    family, processor = encoder.family, encoder.processor
    example = TASK.make(spec, photo, 0)
    gold = TASK.gold(example.puzzle.target)
    before, after = processors_own(encoder, example), ours(encoder, example)
    expanded = processor.tokenizer.decode(before["input_ids"][0])
    require_equal(family.model_inputs(processor, after), before)
    made = [Made(encoder, spec, photo, encode) for encode in (processors_own, ours)]
    there = {name: tensor.to(DEVICE) for name, tensor in after.items()}

    def floats(_: int) -> None:
        family.model_inputs(processor, there)
        if DEVICE == "cuda":
            torch.cuda.synchronize()

    pose, render, answer, *pairs = medians_ms(
        [
            lambda seed: TASK.pose(spec, photo, seed),
            lambda _: TASK.render(example.puzzle, photo),
            lambda _: answer_encoding(encoder, gold),
            lambda _: processor.image_processor(example.images, return_tensors="pt"),
            lambda _: family.encode_images(processor, example.images),
            lambda _: processors_own_tokens(encoder, example, expanded),
            lambda _: prompt_length(encoder, example.puzzle.messages, list(example.puzzle.image_sizes)),
            made[0].__getitem__,
            made[1].__getitem__,
            floats,
        ],
        repeats,
    )
    return Costs(
        pose=pose,
        render=render,
        images=(pairs[0], pairs[1]),
        prompt=(pairs[2], pairs[3]),
        answer=answer,
        all=(pairs[4], pairs[5]),
        floats=pairs[6],
        megabytes=(_megabytes(before), _megabytes(after)),
        arriving=(arriving_per_second(made[0], seconds), arriving_per_second(made[1], seconds)),
    )


def require_equal(got: Inputs, expected: Inputs) -> None:
    if got.keys() != expected.keys() or not all(torch.equal(got[name], expected[name]) for name in expected):
        sys.exit("the two ways give different inputs")


def _megabytes(inputs: Inputs) -> float:
    return sum(tensor.nbytes for tensor in inputs.values()) / 1e6


def line(name: str, costs: Costs) -> str:
    """A row of the table: ms, and examples per second in brackets."""

    def rate(*times_ms: float) -> str:
        return " → ".join(
            f"{ms:.2f} ({1e3 / ms:,.1f})" if ms < 10 else f"{ms:.0f} ({1e3 / ms:,.1f})" for ms in times_ms
        )

    cells = [
        name,
        rate(costs.pose),
        rate(costs.render),
        rate(*costs.images),
        rate(*(prompt + costs.answer for prompt in costs.prompt)),
        rate(*costs.all),
        " → ".join(f"{number:,.1f}" for number in costs.arriving),
        " → ".join(f"{number:,.1f}" for number in costs.megabytes),
        f"{costs.floats:.2f}",
    ]
    return f"| {' | '.join(cells)} |"


def main(argv: list[str]) -> None:
    given = dict(argument.split("=", 1) for argument in argv)
    grids = [int(grid) for grid in given.get("grids", "4,8,12,16").split(",")]
    repeats, seconds = int(given.get("repeats", 7)), float(given.get("seconds", 4))
    torch.set_num_threads(1)
    photo = CachedPhoto(Image.fromarray(skimage.data.astronaut()))
    arriving, image_tokens = {}, {}  # of Qwen3-VL, by grid
    print("ms per example (examples per second), before → after")
    print(f"| | pose | render | images | tokens | all | loader, per second | MB | floats on {DEVICE} |")
    print("|---|---|---|---|---|---|---|---|---|")
    for family, size in MODELS.items():
        encoder = load_encoder(Model(name=family, family=family, scratch=Scratch(), image=size, max_tokens=16384))
        for grid in grids:
            spec = Spec(grid=grid)
            costs = measure(encoder, spec, photo, repeats, seconds)
            print(line(f"{family} {grid}×{grid}", costs), flush=True)
            if family == "qwen3_vl":
                arriving[grid] = costs.arriving
                (sheet,) = TASK.pose(spec, photo, 0).image_sizes
                image_tokens[grid] = encoder.family.image_tokens(encoder.processor, *sheet)
    needed_s = {grid: h100_seconds(grid, tokens) for grid, tokens in image_tokens.items()}
    print("\nworkers that feed one H100: examples per second that it trains on / those that a worker delivers (loader)")
    for grid, rates in arriving.items():
        before, after = (1 / needed_s[grid] / rate for rate in rates)
        print(f"  {grid}×{grid}: {before:.3f} → {after:.3f}")
    trained_s = sum(SHARES[grid] * needed_s[grid] for grid in arriving)
    before, after = (sum(SHARES[grid] / rates[way] for grid, rates in arriving.items()) / trained_s for way in (0, 1))
    print(f"  all of these in mixed_grid's shares: {before:.3f} → {after:.3f}")


if __name__ == "__main__":
    main(sys.argv[1:])
