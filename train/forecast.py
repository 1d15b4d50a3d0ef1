"""What a run will do, known before anything is loaded or rendered: its examples, batches, steps and operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from data_mix.curriculum import training_order
from data_mix.mixture import Mixture, evaluation_mixture, training_mixture
from data_mix.photos import PhotoSet, find_photos
from data_mix.scores import Scores
from eval_hooks.evaluate import plan_batches
from models.flops import Flops, example_flops
from models.load import Loaded
from models.outline import Outline
from recipes.schema import Recipe
from train.balance import StepBatches, step_batches
from train.bins import makespan
from train.check import Measured, check_lag, check_lengths, example_costs, measure_examples, num_steps
from train.packing import packs
from train.traced import Load

EPOCHS, MAX_STEPS = 3.0, -1
"""What transformers' trainer takes where a recipe says nothing."""


class Batches(NamedTuple):
    """Of a whole run."""

    useful: float
    """Share of real tokens among all that the language model computes."""
    largest: Load
    """No micro-batch has more of anything."""
    longest: list[int]
    """Examples of the micro-batch with the most tokens."""
    dearest: list[int]
    """Examples of the micro-batch with the most operations."""
    unevenness: float
    """The operations that the run lasts, waiting included, over the mean of a process's own, less one."""


@dataclass(frozen=True)
class Forecast:
    """A run that has not begun."""

    recipe: Recipe
    loaded: Loaded
    """Without weights; what trains is marked."""
    mixture: Mixture
    measured: dict[int, Measured]
    batches: StepBatches
    steps: int
    seen: int
    """Examples over all steps."""
    evaluated: dict[str, Measured]
    """The first puzzle of each part that is evaluated."""
    cautions: list[str]

    @property
    def tokens(self) -> int:
        """Real ones over all steps; where steps are not decided, as often as the mean example comes."""
        if self.batches.order.decided:
            steps = self.batches.order.possible_steps(self.steps)
            return sum(self.measured[one].lengths.total for step in steps for one in step)
        return round(self.seen * sum(one.lengths.total for one in self.measured.values()) / len(self.measured))

    @property
    def longest(self) -> Mapping[int, Measured]:
        """The longest row that each example may be."""
        return self.measured

    def by_part(self) -> dict[str, list[Measured]]:
        parts: dict[str, list[Measured]] = {}
        for one in self.measured.values():
            parts.setdefault(one.part, []).append(one)
        return dict(sorted(parts.items(), key=lambda part: max(one.lengths.total for one in part[1])))


def forecast(
    recipe: Recipe,
    outlined: Outline,
    loaded: Loaded,
    processes: int,
    *,
    lockstep: bool = False,
    known: Forecast | None = None,
) -> Forecast:
    """
    Args:
        loaded: the outline's model, as `train_towers` leaves it.
        lockstep: whether processes wait for each other after every micro-batch.
        known: of a recipe like this one; what both have in common is not measured again.

    Raises:
        ValueError: the run would be refused: examples are too long, steps or batches cannot be had, photos are too few.
    """
    photos, training, cautions = photos_of(recipe)
    mixture = training_mixture(training, photos)
    order = training_order(recipe, mixture, Scores())
    trainer = recipe.trainer
    steps = num_steps(
        len(mixture), recipe.train.effective_batch,
        trainer.get("num_train_epochs", EPOCHS), trainer.get("max_steps", MAX_STEPS),
    )  # fmt: skip
    measured = measured_by(recipe, loaded, mixture, order.positions(steps), known)
    asked = evaluation_mixture(training, photos, 1)
    with estimates_told(outlined):
        check_lengths(loaded, mixture, measured)
        costs = example_costs(measured, order)
        packed = packs(recipe, loaded)
        batches = step_batches(recipe, order, steps, processes, costs, packed=packed, lockstep=lockstep)
        evaluated = first_puzzles(recipe, loaded, asked)
    prefetch = trainer.get("dataloader_prefetch_factor") or 2
    check_lag(recipe.data.curriculum, batches.arrange.micro_steps, recipe.train.workers, prefetch)
    seen = sum(map(len, order.possible_steps(steps))) if order.decided else steps * recipe.train.effective_batch
    return Forecast(recipe, loaded, mixture, measured, batches, steps, seen, evaluated, cautions)


def measured_by(
    recipe: Recipe, loaded: Loaded, mixture: Mixture, positions: Sequence[int], known: Forecast | None
) -> dict[int, Measured]:
    """Examples by their positions, without measuring again what is known of them."""
    measured = in_common(known, recipe, mixture) if known else {}
    left = [at for at in positions if at not in measured]
    measured |= measure_examples(loaded, mixture, left, rank=0, processes=1)
    return {at: measured[at] for at in positions}


def first_puzzles(recipe: Recipe, loaded: Loaded, asked: Mixture) -> dict[str, Measured]:
    """The first puzzle of each part that is evaluated.

    Args:
        asked: one puzzle of each.

    Raises:
        ValueError: one is too long.
    """
    plan_batches(loaded, asked, recipe.eval.batch)
    return {one.part: one for one in measure_examples(loaded, asked, range(len(asked)), rank=0, processes=1).values()}


@contextmanager
def estimates_told(outlined: Outline) -> Iterator[None]:
    """Where text tokens are estimated, a refusal for lengths says so."""
    try:
        yield
    except ValueError as error:
        if outlined.estimated_text and "_tokens: got" in str(error):
            raise ValueError(f"{error} (text tokens are estimated here, and rather too many than too few)") from error
        raise


def in_common(known: Forecast, recipe: Recipe, mixture: Mixture) -> dict[int, Measured]:
    """What is known of the examples of those parts that two recipes share, by their positions in the second's mixture.

    A part's examples are its own, whatever other parts there are.
    """
    first = known.recipe
    if (first.seed, first.model, first.data.photos) != (recipe.seed, recipe.model, recipe.data.photos):
        return {}
    before = known.mixture.positions()
    return {
        at: known.measured[was]
        for name, positions in mixture.positions().items()
        if first.data.parts.get(name) == recipe.data.parts[name]
        for was, at in zip(before[name], positions, strict=True)
        if was in known.measured
    }


def photos_of(recipe: Recipe) -> tuple[PhotoSet | None, Recipe, list[str]]:
    """The photos, the recipe to pose puzzles by, and what to say of it.

    What is counted does not depend on what photos show. So where none are named, and the bundled ones are too few, they
    stand in for those that the run will need.
    """
    photos = find_photos(recipe.data.photos)
    try:
        training_mixture(recipe, photos)
        evaluation_mixture(recipe, photos, max(recipe.eval.count, recipe.eval.final_count))
    except ValueError as error:
        if recipe.data.photos.folder is not None:
            raise
        stand_in = recipe.data.photos.model_copy(update={"use": "reuse", "min_piece_px": 1})
        why = str(error).splitlines()[0].partition("; do ")[0]
        caution = f"photos: none are named (data.photos.folder), and the bundled ones do not serve a run: {why}"
        return (
            photos,
            recipe.model_copy(update={"data": recipe.data.model_copy(update={"photos": stand_in})}),
            [caution],
        )
    return photos, recipe, []


def micro_batches(batches: StepBatches) -> Iterator[list[list[int]]]:
    """The bins of each step, or of steps like it where a run's own are not decided."""
    for examples in batches.order.possible_steps(batches.steps):
        yield batches.arrange(examples)


def batches_of(loaded: Loaded, measured: Mapping[int, Measured], batches: StepBatches) -> Batches:
    """What all micro-batches of a run have in common."""
    processes = batches.arrange.processes
    patches = {at: patches_of(loaded, one.image_sizes) for at, one in measured.items()}
    real = computed = 0
    lasting = mean = most = 0.0
    largest = Load(0, 0, 0, 0)
    longest: list[int] = []
    dearest: list[int] = []
    for bins in micro_batches(batches):
        work = [float(sum(measured[one].flops for one in bin_)) for bin_ in bins]
        for bin_, flops in zip(bins, work, strict=True):
            if not bin_:
                continue
            load = _load([measured[one] for one in bin_], sum(patches[one] for one in bin_), padded=not batches.packed)
            shape = (load.rows, load.length) if load.tokens > largest.tokens else (largest.rows, largest.length)
            longest = bin_ if load.tokens > largest.tokens else longest
            largest = Load(*shape, max(load.patches, largest.patches), max(load.answer, largest.answer))
            most, dearest = max((most, dearest), (flops, bin_), key=lambda pair: pair[0])
            real += sum(measured[one].lengths.total for one in bin_)
            computed += load.tokens
        lasting += makespan(work, processes, lockstep=batches.lockstep)
        mean += sum(work) / processes
    return Batches(real / computed, largest, longest, dearest, lasting / mean - 1)


def _load(examples: Sequence[Measured], patches: int, *, padded: bool) -> Load:
    lengths = [one.lengths.total for one in examples]
    answer = sum(one.lengths.answer for one in examples)
    return Load(len(lengths), max(lengths), patches, answer) if padded else Load(1, sum(lengths), patches, answer)


def patches_of(loaded: Loaded, sizes: Sequence[tuple[int, int]]) -> int:
    side = loaded.family.vision_tower(loaded.model.config).patch_px
    scaled = [loaded.family.scaled_size(loaded.processor, *size) for size in sizes]
    return sum((width // side) * (height // side) for width, height in scaled)


def flops_of(loaded: Loaded, one: Measured) -> Flops:
    """Of a forward pass over one example."""
    return example_flops(loaded, loaded.model.config, one.lengths, one.image_sizes)


def training_flops(recipe: Recipe, flops: Flops) -> int:
    """Forward and backward, as a model FLOP utilisation counts: without what gradient checkpointing computes again.

    A backward pass takes as much again for the gradients of what a layer was given, and once more for those of its
    weights, where they train in full; adapters' own are not counted. Below the lowest tower that trains there is none.
    """
    methods = recipe.train.methods()
    linear = 3 if methods["language"] == "full" else 2
    below = 1
    if methods["vision"] != "frozen":
        below = 3 if methods["vision"] == "full" else 2
    return (
        linear * (flops.text_linear + flops.head)
        + 3 * flops.text_attention
        + below * flops.vision_linear
        + (3 if below > 1 else 1) * flops.vision_attention
    )
