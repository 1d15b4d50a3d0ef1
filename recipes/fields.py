"""What a pydantic model allows, in words: read from its JSON schema, so no text can differ from the check."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

Path = tuple[str | int, ...]
Model = TypeVar("Model", bound=BaseModel)
_TYPES = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "string": "text",
    "null": "null",
    "object": "a mapping",
}


def dotted(path: Path) -> str:
    """`("data", "parts", "4x4")` as `data.parts.4x4`."""
    return ".".join(map(str, path))


def shown(value: Any) -> str:
    """A value as a recipe would write it, shortened."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Advice for a name that is not known: the likeliest, if one is near."""
    names = list(known)
    begun = [other for other in names if len(name) > 2 and other.startswith(name.lower())]
    near = begun or difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.6)
    return f"did you mean {near[0]}?" if near else "do use one of these"


def problem(path: Path | str, got: str, allowed: str, do: str) -> str:
    """One line of every error here: `path: got X; allowed: Y; do Z`."""
    place = path if isinstance(path, str) else dotted(path)
    return f"{place}: got {got}; allowed: {allowed}; {do}"


def _resolved(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    return schema


def _branches(schema: dict[str, Any], root: dict[str, Any]) -> list[dict[str, Any]]:
    schema = _resolved(schema, root)
    return [_resolved(option, root) for option in schema.get("anyOf", [schema])]


def _child(schema: dict[str, Any], step: str | int, root: dict[str, Any]) -> dict[str, Any] | None:
    for branch in _branches(schema, root):
        if isinstance(step, int):
            items = branch.get("prefixItems", [])
            if step < len(items):
                return items[step]
            if isinstance(branch.get("items"), dict):
                return branch["items"]
        elif step in branch.get("properties", {}):
            return branch["properties"][step]
        elif isinstance(branch.get("additionalProperties"), dict):
            return branch["additionalProperties"]
    return None


def allowed(schema: dict[str, Any], root: dict[str, Any]) -> str:
    """`a whole number >= 1, or null`."""
    return ", or ".join(dict.fromkeys(_allowed_branch(branch, root) for branch in _branches(schema, root)))


def _allowed_branch(schema: dict[str, Any], root: dict[str, Any]) -> str:
    if "enum" in schema or "const" in schema:
        return " | ".join(map(str, schema.get("enum", [schema.get("const")])))
    if schema.get("type") == "array":
        if "prefixItems" in schema:
            return f"[{', '.join(allowed(item, root) for item in schema['prefixItems'])}]"
        text = f"a list of at least {schema['minItems']}" if "minItems" in schema else "a list"
        return f"{text}, each {allowed(schema['items'], root)}" if schema.get("items") else text
    if "properties" in schema:
        return f"a mapping of {', '.join(schema['properties'])}"
    text = _TYPES.get(schema.get("type", ""), "any value")
    limits = [
        f"{sign} {schema[key]:g}" if isinstance(schema[key], float) else f"{sign} {schema[key]}"
        for key, sign in (("minimum", ">="), ("exclusiveMinimum", ">"), ("maximum", "<="), ("exclusiveMaximum", "<"))
        if key in schema
    ]
    if schema.get("minProperties"):
        limits.append(f"with at least {schema['minProperties']} entry")
    return f"{text} {' and '.join(limits)}" if limits else text


def listing(schema: dict[str, Any], root: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """(dotted name, what it allows and its default, its docstring) of every field, in the order of the schema."""
    for name, field in schema.get("properties", {}).items():
        path = f"{prefix}{name}"
        inner = next((b for b in _branches(field, root) if "properties" in b or "additionalProperties" in b), None)
        mapping = inner.get("additionalProperties") if inner else None
        if inner and "properties" in inner:
            yield from listing(inner, root, f"{path}.")
            if isinstance(mapping, dict):
                yield f"{path}.NAME", allowed(mapping, root), ""
            continue
        default = f" [{shown(field['default'])}]" if "default" in field else ""
        about = " ".join(field.get("description", "").split())
        if isinstance(mapping, dict) and "properties" in (named := _branches(mapping, root)[0]):
            yield path, f"a mapping by name{default}", about
            yield from listing(named, root, f"{path}.NAME.")
        else:
            yield path, f"{allowed(field, root)}{default}", about


def problems_of(model: type[BaseModel], value: Any, at: Path = ()) -> list[str]:
    """Every way in which `value` (JSON-able) is not a `model`, each as path: got; allowed; do. [] if it is one."""
    try:
        validate(model, value)
    except ValidationError as error:
        root = model.model_json_schema()
        lines = (_explain(detail, root, value, at) for detail in error.errors(include_url=False))
        return list(dict.fromkeys(lines))
    return []


def validate(model: type[Model], value: Any) -> Model:
    """`value` as a `model`, strictly: no 1.0 for 1, no "1" for 1. Raises pydantic's ValidationError."""
    return model.model_validate_json(json.dumps(value), strict=True)  # as JSON, strict still takes a list for a tuple


def _explain(detail: Any, root: dict[str, Any], value: Any, at: Path) -> str:
    """One pydantic error in our words. The steps of `loc` that are no names (a union's branches) are left out."""
    schema, got, path = root, value, list(at)
    for step in detail["loc"]:
        child = _child(schema, step, root)
        there = range(len(got)) if isinstance(got, list) else got if isinstance(got, dict) else ()
        inside = step in there
        missing = detail["type"] == "missing" and isinstance(step, str)
        if child is None or not (inside or missing):
            break
        schema, path = child, [*path, step]
        got = got[step] if inside else None
    place = tuple(path)
    if detail["type"] == "extra_forbidden":
        name = str(detail["loc"][-1])
        known = next((list(b["properties"]) for b in _branches(schema, root) if "properties" in b), [])
        return problem((*place, name), "an unknown name", ", ".join(known) or "nothing", did_you_mean(name, known))
    if detail["type"] == "missing" and isinstance(detail["loc"][-1], str):
        return problem(place, "nothing", allowed(schema, root), f"do set {dotted(place)}")
    if detail["type"] in ("value_error", "assertion_error"):
        text = str(detail["msg"]).split(", ", 1)[-1]
        where = dotted(place) or "recipe"
        return f"{where}: {text}" if text.startswith("got ") else problem(where, shown(got), text, "do change it")
    return problem(place, shown(got), allowed(schema, root), _advice(got, schema, root, place))


def _advice(got: Any, schema: dict[str, Any], root: dict[str, Any], place: Path) -> str:
    branches = _branches(schema, root)
    kinds = {branch.get("type") for branch in branches}
    choices = [str(choice) for branch in branches for choice in branch.get("enum", [branch.get("const")]) if choice]
    name = place[-1] if place else "it"
    if choices and isinstance(got, str):
        return did_you_mean(got, choices)
    if "integer" in kinds and isinstance(got, float) and got.is_integer() and abs(got) < 1e15:
        return f"do write {name}={int(got)}"
    if "boolean" in kinds and isinstance(got, str):
        return "do write true or false"
    if kinds & {"integer", "number"} and isinstance(got, str):
        return f"do write {name} as a number, without quotes or other characters"
    if "string" in kinds and isinstance(got, int | float):
        return f'do write "{got}" in quotes (in a shell {name}=\'"{got}"\')'
    return f"do change {dotted(place) or 'it'}"
