"""What a GRPO run will do, known before anything is loaded or rendered: the puzzles that it asks, and the rows that it
trains on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from data_mix.curriculum import CurriculumOrder
from data_mix.mixture import Mixture, evaluation_mixture, training_mixture
from data_mix.order import Order
from data_mix.phases import prompt_curriculum
from data_mix.prompt_batches import Rollout
from data_mix.scores import Scores
from data_mix.streams import stream
from eval_hooks.evaluate import answer_limit
from models.lengths import Lengths
from models.load import Encoder, Loaded
from models.outline import Outline
from recipes.grpo_checks import NUM_GENERATIONS
from recipes.schema import Recipe
from train.arguments import accumulation_steps
from train.balance import StepBatches
from train.check import Measured, check_lag, check_lengths, num_steps
from train.forecast import (
    EPOCHS,
    MAX_STEPS,
    Batches,
    Forecast,
    batches_of,
    estimates_told,
    first_puzzles,
    flops_of,
    measured_by,
    patches_of,
    photos_of,
)
from train.traced import Load


class Schedule(NamedTuple):
    """How often a run asks, and trains on what it was answered."""

    rollout: Rollout
    rollouts: int
    """How often it asks."""
    steps: int
    """Optimizer steps."""


def schedule_of(recipe: Recipe, processes: int) -> Schedule:
    """
    Raises:
        ValueError: there would be no step, or effective_batch is not micro_batch x processes x a whole number.
    """
    trainer, micro_steps = recipe.trainer, accumulation_steps(recipe, processes)
    completions, uses = trainer.get("num_generations", NUM_GENERATIONS), trainer.get("num_iterations", 1)
    rollout = Rollout(recipe.train.effective_batch // completions, completions, processes, micro_steps, uses)
    examples = sum(part.count for part in recipe.data.parts.values())
    epochs, max_steps = trainer.get("num_train_epochs", EPOCHS), trainer.get("max_steps", MAX_STEPS)
    rollouts = num_steps(examples, rollout.puzzles, epochs, -(-max_steps // uses))
    return Schedule(rollout, rollouts, max_steps if max_steps > 0 else rollouts * uses)


def may_come(recipe: Recipe, mixture: Mixture, order: Order, rollouts: int) -> Sequence[int]:
    """The puzzles that a run may ask, by their positions in the mixture."""
    return range(len(mixture)) if recipe.data.refill_tries else order.positions(rollouts)


@dataclass(frozen=True)
class ShuffledRows:
    """The completions of each process in micro-batches, in an order that only the run itself draws: one like it."""

    rollout: Rollout
    micro_batch: int

    @property
    def micro_steps(self) -> int:
        return self.rollout.micro_steps

    @property
    def processes(self) -> int:
        return self.rollout.processes

    def shares(self, examples: Sequence[int]) -> list[list[int]]:
        """Of each process, the puzzle of each of its completions."""
        every = [at for at in examples for _ in range(self.rollout.completions)]
        each = len(every) // self.processes
        return [every[start : start + each] for start in range(0, len(every), each)]

    def __call__(self, examples: Sequence[int]) -> list[list[int]]:
        draw = stream("rows", *map(int, examples))
        shuffled = [[share[at] for at in draw.permutation(len(share))] for share in self.shares(examples)]
        starts = range(0, self.micro_batch * self.micro_steps, self.micro_batch)
        return [share[start : start + self.micro_batch] for start in starts for share in shuffled]

    def describe(self) -> str:
        return f"micro-batch {self.micro_batch} x accumulation {self.micro_steps} x processes {self.processes}"


@dataclass(frozen=True)
class GrpoForecast(Forecast):
    """A GRPO run that has not begun. Its `measured` are puzzles with their reference answers, its `batches` those of
    rollouts, its `seen` completions that are trained on."""

    schedule: Schedule
    rows: dict[int, Measured]
    """Of each puzzle, prompt and the longest completion that it may have."""

    @property
    def longest(self) -> Mapping[int, Measured]:
        return self.rows

    @property
    def tokens(self) -> int:
        """If completions are as long as reference answers."""
        return round(self.over_rollouts({at: one.lengths.total for at, one in self.measured.items()}) * self.uses)

    @property
    def uses(self) -> int:
        return self.schedule.rollout.uses

    def over_rollouts(self, each: Mapping[int, float]) -> float:
        """The sum over all completions that the run trains on, each once.

        Args:
            each: of a completion of each puzzle.
        """
        asked = list(self.batches.order.possible_steps(self.schedule.rollouts))
        mean = sum(each[at] for positions in asked for at in positions) / len(asked)
        return mean * self.schedule.rollouts * self.schedule.rollout.completions


def grpo_forecast(
    recipe: Recipe,
    outlined: Outline,
    loaded: Loaded,
    processes: int,
    *,
    lockstep: bool = False,
    known: Forecast | None = None,
) -> GrpoForecast:
    """As `train.forecast.forecast`, of a recipe with a reward."""
    photos, training, cautions = photos_of(recipe)
    mixture, schedule = training_mixture(training, photos), schedule_of(recipe, processes)
    rollout, rollouts, steps = schedule
    curriculum = prompt_curriculum(recipe.data)
    order = CurriculumOrder(curriculum, mixture.positions(), rollout.puzzles, recipe.seed, Scores())
    measured = measured_by(recipe, loaded, mixture, may_come(recipe, mixture, order, rollouts), known)
    asked = evaluation_mixture(training, photos, 1)
    with estimates_told(outlined):
        check_lengths(loaded, mixture, measured)
        evaluated = first_puzzles(recipe, loaded, asked)
    prefetch = recipe.trainer.get("dataloader_prefetch_factor") or 2
    check_lag(curriculum, rollout.uses * rollout.micro_steps, recipe.train.workers, prefetch)
    return GrpoForecast(
        recipe, loaded, mixture, measured,
        StepBatches(order, rollouts, ShuffledRows(rollout, recipe.train.micro_batch), lockstep=lockstep),
        steps, steps * recipe.train.effective_batch, evaluated, cautions,
        schedule, {at: at_limit(loaded, one) for at, one in measured.items()},
    )  # fmt: skip


def at_limit(loaded: Loaded, one: Measured) -> Measured:
    """Of a puzzle, prompt and the longest completion that it may have."""
    longest = one._replace(lengths=limited(loaded, one.lengths))
    return longest._replace(flops=flops_of(loaded, longest).total)


def limited(encoder: Encoder, lengths: Lengths) -> Lengths:
    """With the longest completion that there may be in place of the reference answer."""
    return lengths._replace(answer=answer_limit(lengths, encoder.max_tokens))


def grpo_batches(forecast: GrpoForecast, measured: Mapping[int, Measured]) -> Batches:
    """What the micro-batches of a run have in common.

    Args:
        measured: of each puzzle its rows: as long as the reference answer, or as `GrpoForecast.rows`.
    """
    recipe, loaded, batches = forecast.recipe, forecast.loaded, forecast.batches
    largest = largest_load(recipe, loaded, forecast.measured, batches.order, forecast.schedule)
    return batches_of(loaded, measured, batches)._replace(largest=largest)


def largest_load(
    recipe: Recipe, loaded: Loaded, measured: Mapping[int, Measured], order: Order, schedule: Schedule
) -> Load:
    """No micro-batch of a GRPO run has more of anything, whichever of its process's completions it gets.

    Each is as long as it may be. Where groups are replaced or a curriculum decides, puzzles are as large as any of
    their part.

    Args:
        measured: every puzzle that the run may ask, with its reference answer.
    """
    rows = {}
    for at, one in measured.items():
        lengths = limited(loaded, one.lengths)
        rows[at] = (lengths.total, patches_of(loaded, one.image_sizes), lengths.answer)
    if recipe.data.refill_tries or not order.decided:
        parts: dict[str, tuple[int, ...]] = {}
        for at, row in rows.items():
            part = measured[at].part
            parts[part] = tuple(map(max, row, parts.get(part, row)))
        rows = {at: parts[one.part] for at, one in measured.items()}
    together, spread = recipe.train.micro_batch, ShuffledRows(schedule.rollout, recipe.train.micro_batch)
    length = patches = answer = 0
    for positions in order.possible_steps(schedule.rollouts):
        for share in spread.shares(positions):
            own = [rows[at] for at in share]
            lengths, images, answers = (sorted(each, reverse=True) for each in zip(*own, strict=True))
            length, patches = max(length, lengths[0]), max(patches, sum(images[:together]))
            answer = max(answer, sum(answers[:together]))
    return Load(together, length, patches, answer)
