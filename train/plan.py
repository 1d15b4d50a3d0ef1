"""Say what a run will take, before anything is paid for: no weights, no GPU, no network.

    python -m train.plan recipe=mixed_grid gpus=8 gpu_memory_gb=80 [mfu=0.4] [peak_tflops=989] [dotted.key=value ...]

Exit status: 0; 2 when the run would be refused, or when it does not fit.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from textwrap import fill
from typing import NamedTuple

import transformers

from models.load import Loaded
from models.outline import Outline, outline
from models.towers import check_towers, train_towers
from recipes.command import CommandLine, run_command
from recipes.loader import load_recipe
from recipes.schema import Recipe, Towers
from train import plan_page
from train.cost import Machine, cost_of
from train.evaluation_memory import EvaluationMemory, evaluation_memory, rollout_memory
from train.forecast import Batches, Forecast, batches_of, forecast
from train.grpo_cost import grpo_cost
from train.grpo_forecast import GrpoForecast, grpo_batches, grpo_forecast
from train.grpo_page import grpo_cost_lines, rollouts_lines
from train.memory import OVERHEAD_BYTES, Memory, standing_memory, training_memory, vllm_memory
from train.parameters import training_state
from train.reference import check_reference
from train.sharding import check_sharding, choose_sharding, in_lockstep, lacks_deepspeed

USAGE = """\
usage: python -m train.plan recipe=NAME [gpus=1] [gpu_memory_gb=80] [mfu=0.4] [peak_tflops=989] [dotted.key=value ...]
  recipe         as for a run, and so is every dotted.key=value; python -m recipes --help lists them
  gpus           processes, one for each GPU, over all machines
  gpu_memory_gb  of one GPU
  mfu            share of the peak that training reaches, model operations only
  peak_tflops    of one GPU: 989 is an H100's in BF16"""
OWN = ("gpus", "gpu_memory_gb", "mfu", "peak_tflops")
WIDTH = 100
"""Characters of a line."""
MOST_WAITING = 0.3
"""What waiting may add to the time of training, as a share of it, before the page warns."""
ASIDE = 3
"""Smaller choices that are shown, at the most."""


class Plan(NamedTuple):
    """A run and what one process of it needs."""

    forecast: Forecast
    batches: Batches
    sharding: str
    memory: Memory
    evaluation: EvaluationMemory
    rollouts: EvaluationMemory | None = None
    """GRPO only, unless vLLM writes completions."""

    @property
    def peaks(self) -> dict[str, int]:
        """Bytes on one GPU, most of each kind of work."""
        peaks = {"training": self.memory.peak, "evaluations": self.evaluation.peak}
        return peaks | ({"rollouts": self.rollouts.peak} if self.rollouts else {})

    @property
    def peak(self) -> int:
        """Bytes on one GPU."""
        return max(self.peaks.values())

    @property
    def cautions(self) -> list[str]:
        """What to say of it, beside what the page shows."""
        lines = list(self.forecast.cautions)
        if lacks_deepspeed(self.sharding):
            lines.append(
                f"train.sharding={self.sharding} needs the deepspeed package, which is not installed here; the machine "
                "of the run must have it: pip install -e '.[deepspeed]'"
            )
        if self.batches.unevenness > MOST_WAITING:
            lines.append(
                f"waiting for the busiest process adds {self.batches.unevenness:.0%} to the time of training; "
                + self._evener
            )
        return lines

    @property
    def _evener(self) -> str:
        if isinstance(self.forecast, GrpoForecast) and self.forecast.batches.lockstep:
            return "give parts of like length a stage of their own (data.curriculum), or use fewer GPUs"
        return "set a larger train.effective_batch or use fewer GPUs"

    def fits(self, machine: Machine) -> bool:
        answering = [self.evaluation, *([self.rollouts] if self.rollouts else [])]
        return self.memory.fits(machine.gpu_bytes) and all(one.fits(machine.gpu_bytes) for one in answering)

    def fewer_at_once(self, machine: Machine) -> tuple[tuple[str, ...], Plan]:
        """Overrides by which as many answers are written at once as fit, and the plan with them; where not even one
        fits, none."""
        overrides, made = list[str](), self
        for name, field in (("evaluation", "eval.batch"), ("rollouts", "rollouts.batch")):
            one = getattr(self, name)
            if one and not one.fits(machine.gpu_bytes) and (most := one.most(machine.gpu_bytes)):
                overrides.append(f"{field}={most}")
                made = made._replace(**{name: one._replace(together=most)})
        return tuple(overrides), made


def parse_machine(argv: Sequence[str]) -> tuple[Recipe, Machine]:
    """
    Raises:
        RecipeError: every problem of the command line and of the recipe at once.
    """
    line = CommandLine(argv, OWN)
    machine = Machine(
        gpus=line.number("gpus", 1),
        gpu_memory_gb=line.decimal("gpu_memory_gb", 80.0, most=10_000.0),
        mfu=line.decimal("mfu", 0.4, most=1.0),
        peak_tflops=line.decimal("peak_tflops", 989.0, most=1e6),
    )
    return line.recipe(), machine


def plan(recipe: Recipe, outlined: Outline, machine: Machine, known: Forecast | None = None) -> Plan:
    """
    Args:
        known: see `forecast`.

    Raises:
        ValueError: the run would be refused before its first step.
    """
    check_sharding(recipe, machine.gpus, {})
    check_towers(outlined.loaded.family, recipe.train)
    loaded = train_towers(outlined.loaded, recipe.train)
    sharding = sharding_of(loaded, recipe, machine)
    lockstep = in_lockstep(sharding)
    if recipe.reward is None:
        foreseen = forecast(recipe, outlined, loaded, machine.gpus, lockstep=lockstep, known=known)
        batches = batches_of(loaded, foreseen.measured, foreseen.batches)
    else:
        check_reference(recipe.trainer.get("beta") or 0.0, sharding)
        foreseen = grpo_forecast(recipe, outlined, loaded, machine.gpus, lockstep=lockstep, known=known)
        batches = grpo_batches(foreseen, foreseen.measured)
    memory = training_memory(loaded, recipe, sharding, machine.gpus, batches.largest)
    memory = replace(memory, vllm=vllm_memory(recipe, machine.gpu_bytes))
    rollouts = rollout_memory(foreseen, memory, sharding) if isinstance(foreseen, GrpoForecast) else None
    return Plan(foreseen, batches, sharding, memory, evaluation_memory(foreseen, memory, sharding), rollouts)


def sharding_of(loaded: Loaded, recipe: Recipe, machine: Machine) -> str:
    """What train.sharding comes to on that machine."""
    state = training_state(loaded.model).total
    return choose_sharding(recipe.train.sharding, machine.gpus, state, machine.gpu_bytes)


def smaller_choices(argv: Sequence[str], recipe: Recipe, machine: Machine, made: Plan) -> list[str]:
    """Lines of overrides that fit where the plan does not, the mildest first; at most ASIDE of them."""
    lines: list[str] = []
    for overrides in _candidates(recipe, machine, made):
        try:
            changed = load_recipe([*_without_own(argv), *overrides])
            if not _standing(changed, machine).fits(machine.gpu_bytes):
                continue
            tried = plan(changed, outline(changed.model), machine, made.forecast)
        except ValueError:  # another choice of the recipe does not go with this one
            continue
        fewer, tried = tried.fewer_at_once(machine)
        overrides = (*overrides, *fewer)
        if tried.fits(machine):
            lines.append(f"{' '.join(overrides)}: {tried.peak / plan_page.GIB:.1f} GiB")
        if len(lines) == ASIDE:
            break
    return lines


def _standing(recipe: Recipe, machine: Machine) -> Memory:
    """Quickly, without activations."""
    loaded = train_towers(outline(recipe.model).loaded, recipe.train)
    sharding = sharding_of(loaded, recipe, machine)
    return standing_memory(loaded, sharding, machine.gpus, bf16=recipe.train.precision == "bf16")


def _candidates(recipe: Recipe, machine: Machine, made: Plan) -> list[tuple[str, ...]]:
    parts = {name: max(one.lengths.total for one in examples) for name, examples in made.forecast.by_part().items()}
    names, lengths = list(parts), list(parts.values())
    most = recipe.train.max_pack_tokens or recipe.model.max_tokens

    def cut(length: int) -> list[list[str]]:
        """Ways to make micro-batches smaller, where no example is longer than that."""
        if recipe.reward is not None:
            return [[], *([f"train.micro_batch={one}"] for one in _smaller(recipe.train.micro_batch))]
        return [[f"train.max_pack_tokens={length}"] if recipe.train.batching != "plain" and length < most else []]

    lora = ["train.method=lora", *(["train.towers=null"] if recipe.train.towers != Towers() else [])]
    lora = [] if recipe.train.method == "lora" else lora
    found: list[list[str]] = []
    if made.memory.fits(machine.gpu_bytes):
        found.append(list(made.fewer_at_once(machine)[0]))
    again = [] if recipe.trainer.get("gradient_checkpointing", False) else ["trainer.gradient_checkpointing=true"]
    found.append([])
    if machine.gpus > 1:
        found.append(["train.sharding=fsdp2"])
    found += cut(lengths[-1])
    if recipe.train.methods()["vision"] == "full":
        found += [["train.towers.vision.method=frozen", *one] for one in cut(lengths[-1])]
    for kept in range(len(parts), 0, -1):
        dropped = [f"data.parts.{name}=null" for name in names[kept:]]
        found += [[*lora, *dropped, *one] for one in cut(lengths[kept - 1])]
    # what is dropped would not be enough without it
    return [overrides for overrides in dict.fromkeys((*again, *one) for one in found) if overrides]


def _smaller(micro_batch: int) -> Iterator[int]:
    """Micro-batches into which such a one can be cut."""
    return (one for one in range(micro_batch // 2, 0, -1) if micro_batch % one == 0)


def _without_own(argv: Sequence[str]) -> list[str]:
    return [token for token in argv if token.partition("=")[0] not in OWN]


def report(argv: Sequence[str]) -> str:
    """The whole page.

    Raises:
        ValueError: the run would be refused; or it does not fit, and then the page has been printed.
    """
    recipe, machine = parse_machine(argv)
    outlined = outline(recipe.model)
    made = plan(recipe, outlined, machine)
    seen = plan_page.sights(made.forecast)
    doing, costing = _run_lines(made, machine)
    warnings = [*plan_page.sight_warnings(seen), *made.cautions]
    page = [
        plan_page.head_line(recipe, machine),
        plan_page.parameters_line(made.forecast.loaded.model),
        *(fill(note, WIDTH, initial_indent="  ", subsequent_indent="    ") for note in outlined.notes),
        "",
        plan_page.examples_table(made.forecast),
        "",
        plan_page.sheets_table(seen),
        "",
        *doing,
        "",
        plan_page.memory_table(made.memory, machine, made.sharding),
        "",
        *costing,
        *([""] if warnings else []),
        *(_broken(f"warning: {line}") for line in warnings),
    ]
    text = "\n".join(page)
    if made.fits(machine):
        return text
    print(text, flush=True)
    print("\nlooking for a smaller choice that fits", file=sys.stderr)
    choices = smaller_choices(argv, recipe, machine, made)
    need = f"{(made.peak + OVERHEAD_BYTES) / plan_page.GIB:.1f} GiB per GPU"
    work = max(made.peaks, key=made.peaks.__getitem__)
    where = "" if work == "training" else f" in {work}"
    raise ValueError(
        f"got a run that needs about {need}{where}; allowed: {machine.gpu_memory_gb:g} (gpu_memory_gb); "
        + ("do choose one of these, which fit:" if choices else "do choose a smaller model, or more GPUs")
        + "".join(f"\n  {line}" for line in choices)
    )


def _run_lines(made: Plan, machine: Machine) -> tuple[list[str], list[str]]:
    """Of what the run does, and of what that takes."""
    foreseen, batches, evaluation = made.forecast, made.batches, made.evaluation
    if isinstance(foreseen, GrpoForecast):
        doing = rollouts_lines(foreseen, batches)
        costing = grpo_cost_lines(foreseen, grpo_cost(foreseen, machine), made.rollouts, evaluation, machine)
        return [_broken(line) for line in doing], [_broken(line) for line in costing]
    lines = plan_page.cost_lines(foreseen, cost_of(foreseen, batches, machine), evaluation, machine)
    return plan_page.batches_lines(foreseen, batches), lines


def _broken(line: str) -> str:
    return fill(line, WIDTH, subsequent_indent="  ")


def main(argv: Sequence[str]) -> int:
    transformers.logging.set_verbosity_error()
    warnings.filterwarnings("ignore", message=".*activation_checkpointing.*")  # between two libraries
    return run_command(argv, USAGE, report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
