"""From `recipe=NAME dotted.key=value ...` to one checked Recipe, or to every problem at once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from recipes import fields
from recipes.checks import recipe_problems
from recipes.fields import did_you_mean, problem, shown
from recipes.schema import Recipe
from recipes.strict_yaml import StrictYamlError, dump_yaml, parse_value, parse_yaml

RECIPES = Path(__file__).parent
"""Folder of the recipes; RECIPES / "models" holds the model files."""

USAGE = """\
usage: COMMAND recipe=NAME [model=NAME] [dotted.key=value ...]
  recipe=NAME     recipes/NAME.yaml, or a path that ends in .yaml
  model=NAME      recipes/models/NAME.yaml, in place of the recipe's whole model
  key=value       any field below: train.micro_batch=2, data.parts.4x4.count=500, trainer.learning_rate=1e-5
  key=null        remove what the recipe says, so that the default holds; data.parts.16x16=null drops that part"""


class RecipeError(ValueError):
    """A recipe that cannot be run. `problems` holds every reason: path: got X; allowed: Y; do Z."""

    def __init__(self, problems: list[str]) -> None:
        count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''} in the recipe"
        super().__init__("\n  ".join([f"{count}:", *problems]))
        self.problems = problems


def load_recipe(argv: list[str]) -> Recipe:
    """The recipe that a command line names, with its base, its model and its overrides in it.

    Prints the usage and leaves the program with code 0 on help, --help or -h. Raises RecipeError with every problem.
    """
    if any(token in ("help", "--help", "-h") for token in argv):
        print(usage())
        raise SystemExit(0)
    overrides, problems = _tokens(argv)
    names = [value for path, value in overrides if path == ("recipe",)]
    if not names:
        advice = "do write recipe=NAME, or COMMAND --help"
        raise RecipeError([problem("recipe", "nothing", " | ".join(recipe_names()), advice), *problems])
    file = _find("recipe", names[-1], RECIPES, problems)
    layers = _layers(file, problems) if file else None
    if file is None or layers is None:
        raise RecipeError(problems)
    tree: dict[str, Any] = {}
    for layer in layers:
        tree = _laid(tree, layer, problems)
    # A model's name stands for the whole file: it comes first, wherever it is written.
    for path, value in sorted(overrides, key=lambda override: override[0] != ("model",)):
        if path == ("recipe",) or (path[0] == "model" and len(path) > 1 and isinstance(tree.get("model"), str)):
            continue
        parts = _parts(tree)
        if value is None and path[:-1] == ("data", "parts") and path[-1] not in parts:
            problems.append(problem(path, "null", ", ".join(parts), did_you_mean(path[-1], parts)))
            continue
        for step in reversed(path):
            value = {step: value}
        tree = _laid(tree, value, problems)
    tree.setdefault("name", file.stem)
    tree.setdefault("output_dir", f"runs/{tree['name']}")
    found = recipe_problems(tree)
    if isinstance(tree.get("model"), str):  # its file could not be read, which is said already
        found = [line for line in found if not line.startswith("model:")]
    if problems or found:
        raise RecipeError([*problems, *found])
    return fields.validate(Recipe, tree)


def recipe_from_command_line(argv: list[str]) -> Recipe:
    """load_recipe for a script: says the problems on stderr and leaves with code 2."""
    try:
        return load_recipe(argv)
    except RecipeError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None


def to_yaml(recipe: Recipe) -> str:
    """YAML that names every field and that load_recipe reads back as the same recipe."""
    return dump_yaml(recipe.model_dump(mode="json"))


def recipe_names() -> list[str]:
    """The recipes that `recipe=NAME` finds."""
    return sorted(file.stem for file in RECIPES.glob("*.yaml"))


def model_names() -> list[str]:
    """The models that `model=NAME` finds."""
    return sorted(file.stem for file in (RECIPES / "models").glob("*.yaml"))


def usage() -> str:
    """How to call a command, and every field with what it allows, its default and its meaning."""
    schema = Recipe.model_json_schema()
    lines = [USAGE, f"recipes: {', '.join(recipe_names())}", f"models: {', '.join(model_names())}", "fields:"]
    for name, allowed, about in fields.listing(schema, schema):
        lines.append(f"  {name}: {allowed}")
        if about:
            lines.append(f"      {about}")
    return "\n".join(lines)


def merged(base: Any, over: Any) -> Any:
    """`over` laid on `base`: mappings merge by key, a null removes what stands there, all else replaces."""
    if not isinstance(base, dict) or not isinstance(over, dict):
        return over
    result = dict(base)
    for key, value in over.items():
        if value is None and key in result:
            del result[key]
        else:
            result[key] = merged(result.get(key), value)
    return result


def _tokens(argv: list[str]) -> tuple[list[tuple[tuple[str, ...], Any]], list[str]]:
    """Every token as (path, value), and what is wrong with the others."""
    overrides: list[tuple[tuple[str, ...], Any]] = []
    problems = []
    for token in argv:
        name, equals, text = token.partition("=")
        path = tuple(name.split("."))
        if not equals or name.startswith("-") or not all(path):
            bare = ".".join(filter(None, name.lstrip("-").split("."))) or "key"
            advice = f"do write {bare}={text or 'VALUE'}"
            problems.append(problem(token, "a bare word or an option", "recipe=NAME and dotted.key=value", advice))
        elif not text:
            problems.append(problem(name, "nothing after =", "a value", f"do write {name}=null or {name}='\"\"'"))
        elif name == "base":
            problems.append(problem("base", text, "only inside a recipe file", f"do write recipe={text}"))
        elif name == "recipe":
            overrides.append((path, text))
        else:
            try:
                overrides.append((path, parse_value(text)))
            except StrictYamlError as error:
                problems += [f"{name}: {line}" for line in error.problems]
    return overrides, problems


def _find(kind: str, name: str, folder: Path, problems: list[str], beside: Path | None = None) -> Path | None:
    """The file of a name in `folder`, or of a path that ends in .yaml; None, and the problem noted, without."""
    known = sorted(file.stem for file in folder.glob("*.yaml"))
    if name in known:
        return folder / f"{name}.yaml"
    path = (beside or Path()) / name
    is_path = name.endswith((".yaml", ".yml"))
    if is_path and path.is_file():
        return path
    allowed = f"{' | '.join(known)}, or a path that ends in .yaml"
    advice = f"do check that {path} is a file" if is_path else did_you_mean(name, known)
    problems.append(problem(kind, shown(name), allowed, advice))
    return None


def _read_mapping(file: Path, problems: list[str]) -> dict[str, Any] | None:
    try:
        value = parse_yaml(file.read_text(encoding="utf-8"))
    except StrictYamlError as error:
        problems.extend(f"{file}: {line}" for line in error.problems)
        return None
    except (OSError, UnicodeDecodeError) as error:
        problems.append(problem(str(file), str(error), "a readable UTF-8 text file", "do check the file"))
        return None
    if not isinstance(value, dict) or not value:
        problems.append(problem(str(file), shown(value), "a mapping", f"do start from a file in {RECIPES.name}/"))
        return None
    return value


def _layers(file: Path, problems: list[str]) -> list[dict[str, Any]] | None:
    """The recipe's mapping, after its base's if it has one; None, with the problem noted, where one cannot be read."""
    tree = _read_mapping(file, problems)
    if tree is None or "base" not in tree:
        return None if tree is None else [tree]
    name = tree.pop("base")
    if not isinstance(name, str):
        problems.append(problem("base", shown(name), " | ".join(recipe_names()), "do name one recipe"))
        return None
    base_file = _find("base", name, RECIPES, problems, beside=file.parent)
    base = _read_mapping(base_file, problems) if base_file else None
    if base is None:
        return None
    if "base" in base:
        advice = f"do extend {base['base']}, and write out what {name} changes"
        problems.append(problem("base", f"{name}, which has a base itself", "one level", advice))
        return None
    # These belong to one run, not to those who extend it.
    return [{key: value for key, value in base.items() if key not in ("name", "output_dir")}, tree]


def _laid(tree: dict[str, Any], layer: dict[str, Any], problems: list[str]) -> dict[str, Any]:
    """`layer` merged over `tree`; a model that is named replaces the model below it."""
    name = layer.get("model")
    if isinstance(name, str):
        file = _find("model", name, RECIPES / "models", problems)
        model = _read_mapping(file, problems) if file else None
        expanded = {"name": file.stem} | model if file and model else name
        tree = {key: value for key, value in tree.items() if key != "model"}
        layer = layer | {"model": expanded}
    return merged(tree, layer)


def _parts(tree: dict[str, Any]) -> dict[str, Any]:
    data = tree.get("data")
    parts = data.get("parts") if isinstance(data, dict) else None
    return parts if isinstance(parts, dict) else {}
