"""Writes recipes/trainer_fields.json: what the installed TRL's configs take, for a check that needs no torch.

python -m train.trainer_fields
"""

from __future__ import annotations

import dataclasses
import enum
import json
import types
import typing

from transformers import TrainingArguments
from trl import GRPOConfig, SFTConfig

from recipes.trainer_keys import FIELDS_FILE

_JSON_TYPES = {bool: "bool", int: "int", float: "float", str: "str", dict: "dict", list: "list", type(None): "null"}


def _kinds(annotation: object) -> tuple[set[str], list[str]]:
    """The JSON types that an annotation takes, and the texts if it is an enum."""
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        parts = [_kinds(option) for option in typing.get_args(annotation)]
        return set().union(*(kinds for kinds, _ in parts)), [text for _, texts in parts for text in texts]
    if origin is typing.Literal:
        return {_JSON_TYPES[type(value)] for value in typing.get_args(annotation)}, []
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return {"str"}, [str(member.value) for member in annotation]
    known = _JSON_TYPES.get(origin or annotation)  # type: ignore[call-overload]
    return ({known} if known else set()), []


def config_fields(config: type[TrainingArguments]) -> dict[str, dict[str, list[str]]]:
    """Name -> {"types": [...], "choices": [...] where the field is closed}, in the order of names."""
    hints = typing.get_type_hints(config)
    fields = {}
    for field in sorted(dataclasses.fields(config), key=lambda field: field.name):
        kinds, texts = _kinds(hints[field.name])
        choices = list(field.metadata.get("choices") or texts)
        fields[field.name] = {"types": sorted(kinds)} | ({"choices": choices} if choices else {})
    return fields


def fields_text() -> str:
    """The file: {config: {name: ...}}, for each config that a recipe can be for."""
    fields = {config.__name__: config_fields(config) for config in (GRPOConfig, SFTConfig)}
    return json.dumps(fields, indent=1) + "\n"


def main() -> None:
    """Write the file anew."""
    FIELDS_FILE.write_text(fields_text(), encoding="utf-8")
    print(f"wrote {FIELDS_FILE}")


if __name__ == "__main__":
    main()
