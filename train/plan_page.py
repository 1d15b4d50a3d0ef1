"""A plan as a page of tables for a terminal of 100 columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from data_mix.mixture import evaluation_parts
from models.load import Loaded
from recipes import text_table
from recipes.schema import Part, Recipe
from tasks import TASKS
from train.cost import DECODE_S, DISK_GB_PER_S, Cost, Machine
from train.evaluation_memory import EvaluationMemory
from train.forecast import Batches, Forecast, flops_of
from train.memory import OVERHEAD_BYTES, Memory
from train.traced import Load

FEWEST_TOKENS, FEWEST_TAB_PX = 4.0, 2.0
"""Of a piece and of its tab, below which a model can hardly see them."""
SCRATCH_TIMES = "times are for GPUs; on a CPU, where a small model from scratch trains too, it takes far longer"
GIB = 2**30


class Sight(NamedTuple):
    """What is left of a part's images behind the processor."""

    drawn: tuple[int, int]
    scaled: tuple[int, int]
    images: int
    tokens: int
    """Of all its images."""
    piece_px: float | None
    piece_tokens: float | None
    """Image tokens, those of gaps and labels too, for each piece."""
    tab_px: float | None
    """How far a tab sticks out; 0 where pieces have none."""
    aligned: bool = False
    """Whether every image token sees one piece at the most, by the task's own layout."""


def sight(loaded: Loaded, part: Part, sizes: Sequence[tuple[int, int]]) -> Sight:
    """Of an example of a part, by the size of its first image."""
    family, processor, (width, height) = loaded.family, loaded.processor, sizes[0]
    scaled = family.scaled_size(processor, width, height)
    tokens = [family.image_tokens(processor, *size) for size in sizes]
    task = TASKS[part.task]
    detail = task.detail(task.Spec.model_validate(part.spec)) if task.detail and not part.dataset else None
    if detail is None:
        return Sight(sizes[0], scaled, len(sizes), sum(tokens), None, None, None)
    factor = min(scaled[0] / width, scaled[1] / height)
    per_piece = sum(tokens) / detail.pieces
    area = sum(width * height for width, height in sizes)
    aligned = scaled == sizes[0] and detail.token_px is not None and area == sum(tokens) * detail.token_px**2
    return Sight(
        sizes[0], scaled, len(sizes), sum(tokens), detail.piece * factor, per_piece, detail.tab * factor, aligned
    )


def sights(forecast: Forecast) -> dict[str, Sight]:
    """Of each part that has images, by its largest example; what is only evaluated comes last."""
    found = {}
    for name, examples in forecast.by_part().items():
        longest = max(examples, key=lambda one: one.lengths.total)
        if longest.image_sizes:
            found[name] = sight(forecast.loaded, forecast.recipe.data.parts[name], longest.image_sizes)
    for name, part in evaluation_parts(forecast.recipe).items():
        if name not in found and name in forecast.evaluated and forecast.evaluated[name].image_sizes:
            found[name] = sight(forecast.loaded, part, forecast.evaluated[name].image_sizes)
    return found


def sight_warnings(seen: dict[str, Sight]) -> list[str]:
    lines = []
    for part, one in seen.items():
        if one.piece_tokens is not None and one.piece_tokens < FEWEST_TOKENS and not one.aligned:
            lines.append(
                f"part {part}: a piece is left with {one.piece_tokens:.1f} image tokens, of at least 4 advised"
            )
        if one.tab_px and one.tab_px < FEWEST_TAB_PX:
            lines.append(f"part {part}: a tab is left with {one.tab_px:.1f} px; 2 or more are advised")
    return lines


def examples_table(forecast: Forecast) -> str:
    heads = ("examples", "image", "prompt text", "answer", "longest", "TFLOP", "vision attention")
    rows = [("tokens by part, mean", *heads)]
    longest: dict[str, int] = {}
    for one in forecast.longest.values():
        longest[one.part] = max(one.lengths.total, longest.get(one.part, 0))
    for name, examples in forecast.by_part().items():
        flops = [flops_of(forecast.loaded, one) for one in examples]
        image = [_image_tokens(forecast.loaded, one.image_sizes) for one in examples]
        total, attention = sum(one.total for one in flops), sum(one.vision_attention for one in flops)
        rows.append(
            (
                f"  {name}",
                f"{len(examples):,}",
                f"{_mean(image):,.0f}",
                f"{_mean([one.lengths.prompt - its for one, its in zip(examples, image, strict=True)]):,.0f}",
                f"{_mean([one.lengths.answer for one in examples]):,.0f}",
                f"{longest[name]:,}",
                f"{total / len(examples) / 1e12:,.3g}",
                f"{attention / total:.0%}",
            )
        )
    return _table(rows)


def _image_tokens(loaded: Loaded, sizes: Sequence[tuple[int, int]]) -> int:
    return sum(loaded.family.image_tokens(loaded.processor, *size) for size in sizes)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def sheets_table(seen: dict[str, Sight]) -> str:
    rows = [("images", "drawn px", "scaled to", "image tokens", "piece px", "tokens/piece", "tab px")]
    for name, one in seen.items():
        several = f"{one.images} x " if one.images > 1 else ""
        rows.append(
            (
                f"  {name}",
                f"{several}{one.drawn[0]}x{one.drawn[1]}",
                f"{one.scaled[0]}x{one.scaled[1]}",
                f"{one.tokens:,}",
                *("-" if value is None else f"{value:.1f}" for value in (one.piece_px, one.piece_tokens, one.tab_px)),
            )
        )
    return _table(rows)


def batches_lines(forecast: Forecast, batches: Batches) -> list[str]:
    made, largest = forecast.batches.arrange, batches.largest
    parts = sorted(forecast.measured[one].part for one in batches.longest)
    longest = " + ".join(f"{count} x {part}" for part, count in Counter(parts).items())
    return [
        f"{forecast.steps:,} steps of {forecast.recipe.train.effective_batch} = {made.describe()}",
        f"{forecast.seen:,} examples of {forecast.tokens:,} tokens in all",
        useful_line(forecast, batches),
        f"longest micro-batch: {shape_of(largest)} ({longest}); at most {largest.patches:,} patches",
    ]


def shape_of(load: Load) -> str:
    rows = f"{load.rows} rows of {load.length:,}" if load.rows > 1 else "1 row"
    return f"{load.tokens:,} tokens in {rows}"


def useful_line(forecast: Forecast, batches: Batches) -> str:
    waits = "micro-step" if forecast.batches.lockstep else "step"
    return (
        f"useful tokens {batches.useful:.1%}; waiting for each {waits}'s busiest process adds {batches.unevenness:.0%}"
    )


def memory_table(memory: Memory, machine: Machine, sharding: str) -> str:
    """What is there throughout, and the peaks of the two passes."""
    rows = [
        (f"memory per GPU, {sharding}", "GiB"),
        ("  weights", _gib(memory.weights)),
        ("  gradients, fp32", _gib(memory.gradients)),
        ("  AdamW state, fp32", _gib(memory.optimizer)),
    ]
    if memory.buckets:
        rows.append(("  DDP's buckets", _gib(memory.buckets)))
    if memory.gathered:
        rows.append(("  sharded weights while they are whole", _gib(memory.gathered)))
    if memory.reference:
        rows.append(("  what KL is measured from (trainer.beta)", _gib(memory.reference)))
    if memory.vllm:
        rows.append(("  colocated vLLM (trainer.vllm_gpu_memory_utilization)", _gib(memory.vllm)))
    rows += [
        ("  activations, most in the forward pass", _gib(memory.forward)),
        ("    of them kept for the backward pass", _gib(memory.kept)),
        ("    of them the loss head and its chunk of logits", _gib(memory.head)),
        ("  activations, most in the backward pass", _gib(memory.backward)),
        ("  all at the peak", _gib(memory.peak)),
        (f"  a GPU has, less about {OVERHEAD_BYTES // GIB} for CUDA itself", _gib(machine.gpu_bytes - OVERHEAD_BYTES)),
    ]
    return _table(rows)


def cost_lines(forecast: Forecast, cost: Cost, evaluation: EvaluationMemory, machine: Machine) -> list[str]:
    return [
        f"training: {pflop(cost.flops)} PFLOP; {time_of(cost.training_h)} on {rate(machine)}",
        *beside_lines(forecast, cost, evaluation),
        f"all: about {time_of(cost.hours)}, {gpu_hours_of(machine, cost.hours)} GPU hours",
        *([SCRATCH_TIMES] if forecast.recipe.model.scratch else []),
    ]


def beside_lines(forecast: Forecast, cost: Cost, evaluation: EvaluationMemory) -> list[str]:
    """Of saves and evaluations."""
    recipe = forecast.recipe
    kept = "all are kept" if recipe.train.keep_checkpoints is None else f"at most {cost.kept} at once"
    return [
        f"saves: {cost.saves} checkpoint(s) of {_size(cost.checkpoint_bytes)}; {kept}, {_size(cost.disk_bytes)}; "
        f"{time_of(cost.saving_h)} at {DISK_GB_PER_S} GB/s",
        f"evaluations: {cost.evaluations}, {cost.evaluated:,} puzzles; about {time_of(cost.evaluation_h)} "
        f"({1000 * DECODE_S:.0f} ms per answer token and batch of {recipe.eval.batch})",
        *([holding_line("evaluations", evaluation, "puzzles", "eval.batch")] if evaluation.together else []),
    ]


def holding_line(what: str, memory: EvaluationMemory, each: str, field: str) -> str:
    return (
        f"{what} hold about {_gib(memory.peak)} GiB per GPU, {_gib(memory.answer)} of it for each of "
        f"{memory.together} {each} at once ({field})"
    )


def parameters_line(model: Any) -> str:
    """Of a model as `train_towers` leaves it, adapters included."""
    parameters = list(model.parameters())
    trained = sum(one.numel() for one in parameters if one.requires_grad)
    return f"  parameters: {sum(one.numel() for one in parameters):,}, of which {trained:,} train"


def head_line(recipe: Recipe, machine: Machine) -> str:
    gpus = f"{_gpus(machine)} of {machine.gpu_memory_gb:g} GB"
    return f"plan of {recipe.name}: {recipe.model.name}, {recipe.train.method}, {gpus}"


def rate(machine: Machine) -> str:
    return f"{_gpus(machine)} at {machine.mfu:.0%} of {machine.peak_tflops:g} TFLOP/s each"


def gpu_hours_of(machine: Machine, hours: float) -> str:
    total = machine.gpus * hours
    return f"{total:,.0f}" if total >= 10 else f"{total:.2g}"


def _gpus(machine: Machine) -> str:
    return f"{machine.gpus} GPU{'s' if machine.gpus > 1 else ''}"


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Columns two spaces apart."""
    return text_table.aligned([(first, *(f" {cell}" for cell in rest)) for first, *rest in rows])


def _gib(size: int) -> str:
    return f"{size / GIB:,.2f}" if size >= GIB / 10 else f"{size / GIB:.1g}"


def pflop(flops: float) -> str:
    return f"{flops / 1e15:,.0f}" if flops >= 1e17 else f"{flops / 1e15:.3g}"


def _size(size: float) -> str:
    return f"{size / 1e9:,.0f} GB" if size >= 1e10 else f"{size / 1e6:,.0f} MB" if size >= 1e6 else f"{size:,.0f} bytes"


def time_of(hours: float) -> str:
    return (
        f"{hours:,.1f} h" if hours >= 1 else f"{60 * hours:,.1f} min" if hours >= 1 / 60 else f"{3600 * hours:,.1f} s"
    )
