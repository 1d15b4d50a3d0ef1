"""Write a page where a person sees what the model will see.

    python -m data_mix.show recipe=quickstart [split=eval] [count=3] [out=DIR] [dotted.key=value ...]

No weights are loaded. Nothing may import this command: alone in data_mix it asks `models`, for the tokens.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import transformers
from PIL import Image
from tqdm import tqdm

from data_mix.mixture import Posed, first_puzzles
from data_mix.page import ImageTokens, Picture, Shown, Tokens, by_part, page, token_range
from data_mix.photos import find_photos
from data_mix.splits import SPLITS
from models.load import Encoder, load_encoder
from models.tokens import answer_ids, prompt_length
from recipes.command import CommandLine, run_command
from recipes.fields import problem
from recipes.schema import Recipe
from tasks import Puzzle

USAGE = """\
usage: python -m data_mix.show recipe=NAME [split=train] [count=3] [out=DIR] [dotted.key=value ...]
  recipe      as for a run, and so is every dotted.key=value; python -m recipes --help lists them
  split       train, eval or test
  count       the first so many examples of each part are shown
  out         folder of the page and its images; default: shown/<name of the recipe>-<split>"""

INDEX = "index.html"


@dataclass(frozen=True)
class Request:
    """What the command line asks for."""

    recipe: Recipe
    split: str
    count: int
    out: Path


def parse_request(argv: Sequence[str]) -> Request:
    """
    Raises:
        RecipeError: every problem of the command line and of the recipe at once.
    """
    line = CommandLine(argv, ("split", "count", "out"))
    split, count = line.choice("split", SPLITS, "train"), line.number("count", 3)
    recipe = line.recipe()
    return Request(recipe, split, count, Path(line.text("out") or f"shown/{recipe.name}-{split}").expanduser())


def tokens_of(encoder: Encoder, puzzle: Puzzle, gold: str) -> Tokens:
    """What a puzzle with this reference answer costs.

    Raises:
        ValueError: the model takes no such prompt.
    """
    family, processor = encoder.family, encoder.processor
    images = tuple(
        ImageTokens(size, family.scaled_size(processor, *size), family.image_tokens(processor, *size))
        for size in puzzle.image_sizes
    )
    prompt = prompt_length(encoder, puzzle.messages, list(puzzle.image_sizes))
    return Tokens(images, prompt, len(answer_ids(encoder, gold)), encoder.max_tokens)


def write_example(posed: Posed, encoder: Encoder | str, folder: Path) -> Shown:
    """Render one example and write its images as <part>-<index>-*.png.

    Args:
        encoder: or why there is none.
    """
    puzzle, task, stem = posed.puzzle, posed.task, f"{posed.part}-{posed.index:04d}"
    gold = task.gold(puzzle.target)
    example = posed.example()
    images = tuple(
        _write(Image.fromarray(pixels), folder, f"{stem}-image{number}.png")
        for number, pixels in enumerate(example.images, 1)
    )
    drawn = posed.picture(task.parse(gold, puzzle.spec))
    truth = None if drawn is None else _write(drawn, folder, f"{stem}-truth.png")
    try:
        tokens = encoder if isinstance(encoder, str) else tokens_of(encoder, puzzle, gold)
    except ValueError as error:
        tokens = str(error)
    return Shown(posed, example.ambiguous, images, truth, tokens)


def _write(image: Image.Image, folder: Path, file: str) -> Picture:
    image.save(folder / file, compress_level=1)  # the default takes seconds for a sheet of 16x16
    return Picture(file, *image.size)


def show(request: Request) -> str:
    """Write the page and its images.

    Returns:
        Lines for a person: where the page is, and the tokens of every part.

    Raises:
        ValueError: photos are too few or too small, or the folder cannot be written.
    """
    recipe = request.recipe
    puzzles = first_puzzles(recipe, find_photos(recipe.data.photos), request.split, request.count)
    print(f"reading the processor of {recipe.model.name}", file=sys.stderr)  # without a network this can take a while
    encoder: Encoder | str
    try:
        encoder = load_encoder(recipe.model)
    except ValueError as error:
        encoder = str(error)
    try:
        request.out.mkdir(parents=True, exist_ok=True)
        examples = [
            write_example(posed, encoder, request.out)
            for posed in tqdm(puzzles, desc="drawing examples", unit="ex", leave=False)
        ]
        about = [f"What the model {recipe.model.name} will see, and what it should answer."]
        text = page(f"{recipe.name}, {request.split} split", about, examples)
        (request.out / INDEX).write_text(text, encoding="utf-8")
    except OSError as error:
        got = f"{request.out} ({error.strerror or error})"
        raise ValueError(problem("out", got, "a folder that can be written", "do name another, out=DIR")) from error
    lines = [*puzzles.summary(), f"page: {request.out / INDEX}"]
    reasons = dict.fromkeys(one.tokens for one in examples if isinstance(one.tokens, str))
    lines += [f"tokens: not known here ({reason})" for reason in reasons]
    rows = [(part, str(len(ours)), token_range(ours)) for part, ours in by_part(examples)]
    lines += [f"{part:<16} {count:>8}  {tokens}" for part, count, tokens in [("part", "examples", "tokens"), *rows]]
    return "\n".join(lines)


def main(argv: Sequence[str]) -> int:
    transformers.logging.set_verbosity_error()
    return run_command(argv, USAGE, lambda words: show(parse_request(words)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
