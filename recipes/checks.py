"""What a recipe must mean, beyond what the schema can say. Each part is checked as soon as it is one in form."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from recipes import fields
from recipes.curriculum_checks import curriculum_problems
from recipes.fields import did_you_mean, problem, shown
from recipes.grpo_checks import grpo_problems, sft_problems
from recipes.reward_checks import reward_problems
from recipes.schema import Curriculum, Dataset, Eval, Model, Part, Recipe, Reward, Rollouts, SplitShares, Train
from recipes.tower_checks import tower_problems
from recipes.trainer_keys import GRPO, SFT, trainer_problems
from recipes.weighting_checks import weighting_problems
from tasks import TASKS

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+-]*")
_FOLDER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
_PLAIN = "letters, digits, _, + and -"
_DATASET_COLUMNS = ("images", "answer", "messages", "prompt", "photo_id")
_IMAGE_FIELDS = {"qwen3_vl": {"min_px", "max_px"}, "gemma3": {"side_px"}}


def recipe_problems(tree: dict[str, Any]) -> list[str]:
    """Everything that is wrong with a recipe given as plain mappings, schema and meaning. [] if it is one."""
    problems = fields.problems_of(Recipe, tree)
    name = tree.get("name")
    if isinstance(name, str) and not _FOLDER_NAME.fullmatch(name):
        allowed = f"{_PLAIN}, and dots within: it names folders"
        problems.append(problem("name", shown(name), allowed, "do set name=NAME"))
    model = _as(Model, tree.get("model"))
    if model:
        problems += _model_problems(model)
    parts = _parts(tree, "data")
    problems += _parts_problems(("data", "parts"), parts)
    asked = _parts(tree, "eval")
    problems += _parts_problems(("eval", "parts"), asked)
    problems += _leak_problems(parts, asked)
    evaluated = asked or {name: part for name, part in parts.items() if not _dataset(part)}
    rewarded = tree.get("reward") is not None
    judged, trained = _as(Eval, tree.get("eval", {})), _as(Train, tree.get("train", {}))
    if judged:
        problems += _eval_problems(judged, evaluated)
        if curriculum := _curriculum(tree):
            problems += curriculum_problems(curriculum, parts, evaluated, judged, rewarded)
    if trained and judged:
        problems += weighting_problems(trained, parts, evaluated, judged)
    if trained:
        problems += _train_problems(trained) + tower_problems(trained, tree.get("trainer"))
        problems += _attention_problems(model, trained) + _packing_problems(model, trained) if model else []
    reward = _as(Reward, tree["reward"]) if rewarded else None
    if reward:
        problems += reward_problems(reward, _sound(parts))
    trainer = tree.get("trainer", {})
    if isinstance(trainer, dict):
        problems += trainer_problems(trainer, GRPO if rewarded else SFT)
    rollouts = _as(Rollouts, tree.get("rollouts", {}))
    if rollouts and not rewarded:
        problems += sft_problems(rollouts, _inside(tree, "data", "refill_tries"))
    if rollouts and rewarded and trained and isinstance(trainer, dict):
        problems += grpo_problems(trained, rollouts, trainer)
    problems += _photos_problems(tree)
    return list(dict.fromkeys(problems))


def _as(model: type[fields.Model], value: Any) -> fields.Model | None:
    """The value as a section, or None where the schema already said what is wrong with it."""
    try:
        return fields.validate(model, value)
    except ValidationError:
        return None


def _inside(tree: dict[str, Any], section: str, name: str) -> Any:
    inside = tree.get(section)
    return inside.get(name) if isinstance(inside, dict) else None


def _parts(tree: dict[str, Any], section: str) -> dict[str, Any]:
    parts = _inside(tree, section, "parts")
    return parts if isinstance(parts, dict) else {}


def _sound(parts: dict[str, Any]) -> dict[str, Part]:
    """The parts whose task is known and whose spec is one of its specs."""
    read = {name: _as(Part, value) for name, value in parts.items()}
    return {
        name: part
        for name, part in read.items()
        if part and part.task in TASKS and _as(TASKS[part.task].Spec, part.spec)
    }


def _curriculum(tree: dict[str, Any]) -> Curriculum | None:
    given = _inside(tree, "data", "curriculum")
    return _as(Curriculum, given) if given is not None else None


def _model_problems(model: Model) -> list[str]:
    problems = []
    if model.pretrained and model.scratch:
        problems.append(problem("model", "pretrained and scratch", "exactly one of them", "do remove one of the two"))
    if not model.pretrained and not model.scratch:
        advice = "do set model.pretrained to a hub name or a folder"
        problems.append(problem("model", "neither pretrained nor scratch", "exactly one of them", advice))
    if model.revision and not model.pretrained:
        advice = "do remove it"
        problems.append(problem("model.revision", shown(model.revision), "null without pretrained", advice))
    if model.architecture and not model.pretrained:
        advice = "do remove it"
        problems.append(problem("model.architecture", "sizes", "null without pretrained", advice))
    wanted = _IMAGE_FIELDS[model.family]
    for name, value in model.image:
        if name in wanted and value is None:
            allowed = f"a whole number of pixels, the family {model.family} needs it"
            problems.append(problem(f"model.image.{name}", "nothing", allowed, f"do set model.image.{name}"))
        if name not in wanted and value is not None:
            allowed = f"{', '.join(sorted(wanted))} in the family {model.family}"
            problems.append(problem(f"model.image.{name}", shown(value), allowed, "do remove it"))
    low, high = model.image.min_px, model.image.max_px
    if low and high and low > high:
        problems.append(problem("model.image.min_px", str(low), f"up to max_px, {high}", "do lower it"))
    return problems


def _attention_problems(model: Model, trained: Train) -> list[str]:
    """Flash Attention computes in 16 bits only."""
    return [
        problem(
            f"model.attention.{tower}", "flash_attention_2 with train.precision=fp32", "auto, sdpa or eager there",
            f"do set train.precision=bf16 or model.attention.{tower}=auto",
        )
        for tower, asked in model.attention
        if asked == "flash_attention_2" and trained.precision == "fp32"
    ]  # fmt: skip


def _packing_problems(model: Model, trained: Train) -> list[str]:
    """Packed examples are kept apart by attention that need not know the images."""
    if trained.batching != "packed":
        return []
    if model.family == "gemma3":
        allowed = "auto, balanced or plain for gemma3, whose image tokens attend to later ones"
        return [problem("train.batching", "packed", allowed, "do set train.batching=balanced")]
    if model.attention.language == "eager":
        allowed = "auto, sdpa or flash_attention_2 where train.batching=packed"
        return [problem("model.attention.language", "eager", allowed, "do set model.attention.language=auto")]
    return []


def _parts_problems(at: tuple[str, str], parts: dict[str, Any]) -> list[str]:
    problems = []
    for name, value in parts.items():
        if not _PLAIN_NAME.fullmatch(name):
            allowed = f"{_PLAIN}: it names files and metrics"
            problems.append(problem((*at, name), f"the name {shown(name)}", allowed, "do rename the part"))
        part = _as(Part, value)
        if part is None:
            continue
        if part.task not in TASKS:
            place, advice = (*at, name, "task"), did_you_mean(part.task, TASKS)
            problems.append(problem(place, shown(part.task), " | ".join(TASKS), advice))
            continue
        problems += fields.problems_of(TASKS[part.task].Spec, part.spec, (*at, name, "spec"))
        problems += _pair_problems((*at, name), part, parts)
        problems += _dataset_problems((*at, name), part)
    return problems


def _pair_problems(at: tuple[str, ...], part: Part, parts: dict[str, Any]) -> list[str]:
    """A pair's first part has streams of its own and poses the same task."""
    if part.paired_with is None:
        return []
    place, name = (*at, "paired_with"), part.paired_with
    if part.dataset:
        return [problem(place, shown(name), "null in a part that has a dataset", "do remove one of the two")]
    others = {other: _as(Part, value) for other, value in parts.items() if other != at[-1]}
    free = [
        other
        for other, its in others.items()
        if its and its.task == part.task and not its.paired_with and not its.dataset
    ]
    allowed = " | ".join(free) or f"a part of task {part.task} that is not paired itself, and there is none"
    if name in free:
        return []
    got, advice = shown(name), did_you_mean(name, free)
    if name == at[-1]:
        got = "the part itself"
    elif other := others.get(name):
        advice = "do name one of these" if free else "do remove it"
        if other.task != part.task:
            got += f", a part of task {other.task}"
        elif other.dataset:
            got += ", a part with a dataset"
        elif other.paired_with:
            got += f", which is paired with {other.paired_with}"
            advice = f"do name {other.paired_with}" if other.paired_with in free else advice
    return [problem(place, got, allowed, advice)]


def _dataset_problems(at: tuple[str, ...], part: Part) -> list[str]:
    place, task = (*at, "dataset"), TASKS[part.task]
    if part.dataset is None:
        advice = f"do set {fields.dotted(place)}.name"
        return [problem(place, "nothing", f"a dataset, task {task.name} poses none", advice)] if task.data_only else []
    known = [*_DATASET_COLUMNS, *task.Spec.model_fields]
    problems = [
        problem((*place, "columns", name), "an unknown name", ", ".join(known), did_you_mean(name, known))
        for name in part.dataset.columns
        if name not in known
    ]
    if {"messages", "prompt"} <= part.dataset.columns.keys():
        advice = "do remove one of the two"
        problems.append(problem((*place, "columns"), "messages and prompt", "one of them", advice))
    return problems


def _leak_problems(trained: dict[str, Any], judged: dict[str, Any]) -> list[str]:
    """Rows that are trained on are no test."""
    return [
        problem(
            ("eval", "parts", name, "dataset"), f"rows that data.parts.{other} may train on",
            "rows that are not trained on", "do name another dataset or split, or another value in `where`",
        )
        for name, value in judged.items()
        for other, its in trained.items()
        if (asked := _dataset(value)) and (used := _dataset(its)) and _may_overlap(asked, used)
    ]  # fmt: skip


def _dataset(value: Any) -> Dataset | None:
    part = _as(Part, value)
    return part.dataset if part else None


def _may_overlap(one: Dataset, other: Dataset) -> bool:
    names = [os.path.realpath(Path(given.name).expanduser()) for given in (one, other)]
    if names[0] != names[1]:
        return False
    if None not in (one.split, other.split) and one.split != other.split:
        return False
    return all(one.where[column] == other.where[column] for column in one.where.keys() & other.where.keys())


def _eval_problems(judged: Eval, parts: dict[str, Any]) -> list[str]:
    problems = []
    for name, entries in judged.require.items():
        place = f"eval.require.{name}"
        if name not in parts:
            problems.append(problem(place, "an unknown part", ", ".join(parts), did_you_mean(name, parts)))
            continue
        part = _as(Part, parts[name])
        known = TASKS[part.task].entries if part and part.task in TASKS else tuple(entries)
        problems += [
            problem(f"{place}.{entry}", "an unknown score entry", ", ".join(known), did_you_mean(entry, known))
            for entry in entries
            if entry not in known
        ]
    if judged.require and judged.final_count == 0:
        allowed = "at least 1 where eval.require is given"
        problems.append(problem("eval.final_count", "0", allowed, "do raise it, or remove eval.require"))
    return problems


def _train_problems(train: Train) -> list[str]:
    plain = train.batching == "plain"
    if plain and train.max_pack_tokens:
        allowed, advice = "null where train.batching=plain", "do set train.batching, or remove it"
        return [problem("train.max_pack_tokens", str(train.max_pack_tokens), allowed, advice)]
    if not plain and train.micro_batch != 1:
        allowed = f"1 where train.batching={train.batching}: tokens, not examples, fill a micro-batch"
        advice = "do set train.max_pack_tokens instead, or train.batching=plain"
        return [problem("train.micro_batch", str(train.micro_batch), allowed, advice)]
    if train.effective_batch % train.micro_batch:
        allowed = f"a whole multiple of train.micro_batch, {train.micro_batch}"
        return [problem("train.effective_batch", str(train.effective_batch), allowed, "do change one of the two")]
    return []


def _photos_problems(tree: dict[str, Any]) -> list[str]:
    photos = _inside(tree, "data", "photos")
    if not isinstance(photos, dict):
        return []
    problems = []
    shares = _as(SplitShares, photos.get("shares", {}))
    if shares and shares.eval + shares.test >= 1:
        got, allowed = f"{shares.eval:g} + {shares.test:g}", "eval + test below 1, the rest is for training"
        problems.append(problem("data.photos.shares", got, allowed, "do lower one of them"))
    if "folder" in photos and photos["folder"] in ([], ""):
        allowed = "a folder, a list of folders, or null for the bundled photos"
        problems.append(problem("data.photos.folder", shown(photos["folder"]), allowed, "do name a folder"))
    return problems
