"""A model card as text: YAML for the hub above, Markdown for people below. All that it says is data of others: clipped,
printable, escaped.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from huggingface_hub import EvalResult, ModelCardData
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id

from eval_hooks.board import CHANCE, PartResult, over_parts, part_result
from eval_hooks.intervals import LEVEL, Estimate
from eval_hooks.leaderboard_text import as_written, mean_and_interval, table_line
from eval_hooks.percent import percent
from eval_hooks.protocol import asked_again, of_votes
from eval_hooks.published import Figure, published
from eval_hooks.records import Record, printable
from eval_hooks.run_records import one_line
from eval_hooks.summary import PartSummary, Solved, summarize
from recipes.loader import to_yaml
from recipes.schema import Recipe
from tasks import TASKS

PIPELINE = "image-text-to-text"


def card_text(
    records: Sequence[Record], recipe: Recipe, *, adapter: bool, environment: str | None, solved: Solved
) -> str:
    """README.md of a model.

    Args:
        records: its answers; of one model, step, protocol and split, each once.
        recipe: of the run that trained it.
        adapter: whether its folder holds an adapter, not a full model.
        environment: the text of the run's environment.json; None: it is not known.
        solved: what programs earned, by puzzle.

    Raises:
        ValueError: the records do not belong together, or there is none.
    """
    if not records:
        raise ValueError("records: got none; allowed: one or more answers of the model; do evaluate it first")
    parts: dict[str, list[Record]] = {}
    for record in records:
        parts.setdefault(record.part, []).append(record)
    summary = summarize(records, solved)
    results = {name: _result(own, parts[name]) for name, own in summary.items()}
    step = records[0].step
    name = recipe.name if step is None else f"{recipe.name}, step {step}"
    body = [
        f"# {as_written(one_line(name))}",
        *_about(recipe, adapter),
        "## Scores",
        *_scores(parts, summary, results),
        "## How it was asked",
        *_asked(parts),
        *_again(records),
        "## Limits",
        _LIMITS,
        "## Recipe",
        _fenced(to_yaml(recipe), "yaml"),
    ]
    if environment is not None:
        body += ["## Versions", _fenced(environment, "json")]
    header = _header(name, parts, results, recipe, adapter).to_yaml(line_break="\n")
    return f"---\n{header}\n---\n\n" + "\n\n".join(body) + "\n"


def _result(summary: PartSummary, records: Sequence[Record]) -> PartResult:
    task = TASKS[summary.task]
    guessers = {name: row for name, row in summary.baselines.items() if name not in task.solvers}
    return part_result(task.name, [(record.key, record.scores) for record in records], guessers)


# ---- for the hub -------------------------------------------------------------------------------


def _header(
    name: str,
    parts: Mapping[str, Sequence[Record]],
    results: Mapping[str, PartResult],
    recipe: Recipe,
    adapter: bool,
) -> ModelCardData:
    base = recipe.model.pretrained if _on_the_hub(recipe.model.pretrained) else None
    sources = [part.dataset.name for part in recipe.data.parts.values() if part.dataset]
    tasks = sorted({records[0].task for records in parts.values()})
    tags = ["jigshape-train", *tasks, "trl", "sft", *(["lora"] if "lora" in recipe.train.methods().values() else [])]
    return ModelCardData(
        library_name="peft" if adapter else "transformers",
        base_model=base,
        base_model_relation=base and ("adapter" if adapter else "finetune"),
        pipeline_tag=PIPELINE,
        tags=list(dict.fromkeys(tags)),
        datasets=list(dict.fromkeys(filter(_on_the_hub, sources))) or None,
        model_name=one_line(name),
        eval_results=[
            EvalResult(
                task_type=PIPELINE,
                dataset_type=records[0].task,
                dataset_name=f"{records[0].task} {one_line(part)}",
                dataset_config=one_line(part),
                dataset_split=one_line(records[0].split),
                dataset_args={"version": records[0].version, "protocol": one_line(records[0].protocol)},
                metric_type=entry,
                metric_name=f"mean {entry}",
                metric_value=round(score.mean, 6),
            )
            for part, records in parts.items()
            for entry, score in results[part].entries.items()
        ],
    )


def _on_the_hub(name: str | None) -> bool:
    """Whether it is the name of something on the hub, for all that can be known without asking: no folder here."""
    if name is None:
        return False
    try:
        validate_repo_id(name)
    except HFValidationError:
        return False
    return not Path(name).exists()


# ---- for people --------------------------------------------------------------------------------


def _about(recipe: Recipe, adapter: bool) -> Iterator[str]:
    model, methods = recipe.model, recipe.train.methods()
    base = f"{model.pretrained} at {model.revision}" if model.revision else model.pretrained
    made = f"trained from {base}" if base else f"a small {model.family} from random weights"
    if adapter:
        kind = "An adapter (LoRA), to be loaded with PEFT on its base"
    else:
        kind = "A full model, an adapter merged into it" if "lora" in methods.values() else "A full model"
    trained = ", ".join(f"{name} ({part.task}, {part.count:,})" for name, part in recipe.data.parts.items())
    yield (
        f"{kind}: {_written(model.name)}, {_written(made)}, supervised on puzzles whose answers can be checked. "
        f"By tower: {', '.join(f'{tower} {method}' for tower, method in methods.items())}."
    )
    yield f"Trained on, puzzles an epoch: {_written(trained, 1000)}."


def _scores(
    parts: Mapping[str, Sequence[Record]], summary: Mapping[str, PartSummary], results: Mapping[str, PartResult]
) -> Iterator[str]:
    beyond = over_parts(results).get(CHANCE)
    if beyond is not None:
        score = f"**{mean_and_interval(beyond)} %** beyond {CHANCE} guessing, (x - c) / (1 - c)"
        yield f"Mean over the parts of the primary score: {score}: 0 for a guesser, 100 for all right."
    for task in dict.fromkeys(own.task for own in summary.values()):
        yield "\n".join(_table(task, parts, summary, results))
    figures = [_published(records[0].task, records).values() for records in parts.values()]
    sources = dict.fromkeys(figure.source for own in figures for figure in own)
    others = f"; figures of {_written(', '.join(sources))}, of other puzzles of the kind" if sources else ""
    yield (
        f"In percent, with {100 * LEVEL:.0f} % intervals for other puzzles of the kind. Invalid answers score 0; cut: "
        "at the token limit. *Italic*: guessers (exact expectations); programs that have learnt nothing and have "
        f"solved all these puzzles{others}."
    )


def _table(
    task: str,
    parts: Mapping[str, Sequence[Record]],
    summary: Mapping[str, PartSummary],
    results: Mapping[str, PartResult],
) -> Iterator[str]:
    primary = TASKS[task].primary
    own = {name: each for name, each in results.items() if summary[name].task == task}
    entries = [e for e in TASKS[task].entries if any(e in each.entries for each in own.values())]
    shown = sorted((e for e in entries if not e.startswith(f"{primary}_")), key=lambda entry: entry != primary)
    yield table_line([as_written(each) for each in (task, "n", *shown, "invalid", "cut")])
    yield table_line([":---", *["---:"] * (len(shown) + 3)])
    for name, result in own.items():
        told = summary[name]
        shares = [percent(count / told.n) for count in (told.invalid, told.truncated)]
        yield table_line(
            [_written(name), told.counted, *(mean_and_interval(result.entries.get(e)) for e in shown), *shares]
        )
        figures = {model: figure.means for model, figure in _published(task, parts[name]).items()}
        for reference, means in (told.baselines | figures).items():
            cells = [mean_and_interval(_exactly(means.get(entry))) for entry in shown]
            yield table_line([f"*{as_written(reference)}*", "", *cells, "", ""])


def _published(task: str, records: Sequence[Record]) -> Mapping[str, Figure]:
    specs = [TASKS[task].Spec.model_validate_json(spec) for spec in {json.dumps(record.spec) for record in records}]
    return published(task, specs, records[0].protocol)


def _exactly(mean: float | None) -> Estimate | None:
    return None if mean is None else Estimate(mean, mean, mean, 0)


def _asked(parts: Mapping[str, Sequence[Record]]) -> Iterator[str]:
    first = next(iter(parts.values()))[0]
    versions = dict.fromkeys(f"{records[0].task} {records[0].version}" for records in parts.values())
    counts = {name: len({record.key for record in records}) for name, records in parts.items()}
    facts = {
        "model": first.model,
        "step": "-" if first.step is None else str(first.step),
        "protocol": first.protocol,
        "split": first.split,
        "task versions": ", ".join(versions),
        "puzzles": ", ".join(f"{name} {count}" for name, count in counts.items()),
    }
    yield "\n".join(f"- {name}: {_written(fact, 1000)}" for name, fact in facts.items())


def _again(records: Sequence[Record]) -> Iterator[str]:
    """The command that asks and scores again, for protocols that it knows."""
    first = records[0]
    voted = of_votes(first.protocol)
    protocol, samples = voted or (first.protocol, 1 + max(record.sample for record in records))
    words = asked_again(protocol, samples)
    if not words:
        return
    words += [f"eval.split={one_line(first.split)}", f"eval.final_count={1 + max(r.index for r in records)}"]
    yield (
        "To score it again, from a clone of jigshape-train, with the recipe below as `recipe.yaml` and this folder as "
        "FOLDER (photos that lie elsewhere: `data.photos.folder=DIR`):"
    )
    yield _fenced(f"python -m eval_hooks.run recipe=recipe.yaml checkpoint=FOLDER {shlex.join(words)}", "sh")
    if voted:
        yield f"That asks for the {samples} answers to each puzzle. Their vote, RECORDS being the file that it names:"
        yield _fenced("python -m eval_hooks.votes records=RECORDS", "sh")


_LIMITS = """\
- The scores are of these kinds of puzzles, asked in this way. They say little of other tasks, photos or prompts.
- Intervals know of other puzzles, not of another training seed. Scores of other task versions, splits or protocols do
  not compare with these.
- The photos asked about were held out of this training. What the base model has seen is unknown.
- The base model's licence and limits hold for this one, too."""


def _written(text: str, most: int = 120) -> str:
    return as_written(one_line(text, most))


def _fenced(text: str, language: str) -> str:
    """A block of code that its content cannot end."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{printable(text).rstrip()}\n{fence}"
