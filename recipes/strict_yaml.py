"""YAML without its traps: 1e-5 is a number, `no` is a word, and a repeated key is an error.

The scalars follow the YAML 1.2 core schema; PyYAML's own are those of YAML 1.1. Anchors, aliases, tags and keys that
are not text are refused: a recipe needs none of them, and each has surprised someone.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

_TAG = "tag:yaml.org,2002:"
_DIGIT_STARTS = list("-+.0123456789")
_RESOLVERS: list[tuple[str, str, list[str]]] = [
    ("null", r"(?:~|null|Null|NULL|)", ["~", "n", "N", ""]),
    ("bool", r"(?:true|True|TRUE|false|False|FALSE)", list("tTfF")),
    ("int", r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)", _DIGIT_STARTS),
    (
        "float",
        r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))",
        _DIGIT_STARTS,
    ),
]
_MAX_DIGITS = 300


class StrictYamlError(ValueError):
    """Text that is no strict YAML. `problems` says every reason found, each with its line."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class _StrictLoader(yaml.SafeLoader):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.problems: list[str] = []

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            name = getattr(event, "anchor", "")
            raise yaml.MarkedYAMLError(
                problem=f"got the anchor or alias {name!r}; allowed: values written out; do write the value itself, "
                "in quotes if it is text that starts with & or *",
                problem_mark=event.start_mark,
            )
        if getattr(event, "tag", None):
            raise yaml.MarkedYAMLError(
                problem=f"got the tag {event.tag!r}; allowed: plain values; do leave the tag out",
                problem_mark=event.start_mark,
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        mapping: dict[Any, Any] = {}
        first_line: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if key_node.tag != f"{_TAG}str":
                shown = key_node.value if isinstance(key_node, yaml.ScalarNode) else f"a {key_node.id}"
                self.problems.append(f'line {line}: got the key {shown}; allowed: text; do write "{shown}" in quotes')
                continue
            key = key_node.value
            if key in first_line:
                self.problems.append(
                    f"line {line}: got the key {key!r} again (first on line {first_line[key]}); allowed: once; "
                    "do remove one of the two"
                )
                continue
            first_line[key] = line
            mapping[key] = self.construct_object(value_node, deep=True)
        return mapping

    def construct_strict_map(self, node: yaml.MappingNode) -> dict[Any, Any]:
        return self.construct_mapping(node)

    def construct_strict_int(self, node: yaml.ScalarNode) -> int:
        if len(node.value) > _MAX_DIGITS:
            raise yaml.MarkedYAMLError(
                problem=f"got {len(node.value)} digits; allowed: up to {_MAX_DIGITS}; do write a smaller number",
                problem_mark=node.start_mark,
            )
        bases = {"0o": 8, "0x": 16}
        return int(node.value, bases.get(node.value[:2], 10))

    def construct_strict_float(self, node: yaml.ScalarNode) -> float:
        return float(re.sub(r"\.(?=[iInN])", "", node.value))


class _StrictDumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


_StrictLoader.yaml_implicit_resolvers = {}  # none of YAML 1.1's
for _kind, _pattern, _starts in _RESOLVERS:
    _compiled = re.compile(rf"^{_pattern}$")
    _StrictLoader.add_implicit_resolver(_TAG + _kind, _compiled, _starts)
    _StrictDumper.add_implicit_resolver(_TAG + _kind, _compiled, _starts)  # beside YAML 1.1's: quoted when in doubt
_StrictLoader.add_constructor(f"{_TAG}map", _StrictLoader.construct_strict_map)
_StrictLoader.add_constructor(f"{_TAG}int", _StrictLoader.construct_strict_int)
_StrictLoader.add_constructor(f"{_TAG}float", _StrictLoader.construct_strict_float)


def parse_yaml(text: str) -> Any:
    """The value that one YAML document holds: None, bool, int, float, str, list or dict with text keys.

    Raises StrictYamlError naming lines.
    """
    loader: _StrictLoader | None = None
    try:
        loader = _StrictLoader(text)
        value = loader.get_single_data()
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f"line {error.problem_mark.line + 1}: "
        context = f" ({error.context})" if error.context else ""
        raise StrictYamlError([*(loader.problems if loader else []), f"{line}{error.problem}{context}"]) from error
    except yaml.YAMLError as error:
        raise StrictYamlError([f"got text that YAML cannot hold: {error}".replace("\n", " ")]) from error
    except RecursionError as error:
        raise StrictYamlError(["got brackets nested too deeply; allowed: some dozens; do flatten it"]) from error
    if loader.problems:
        raise StrictYamlError(loader.problems)
    return value


def parse_value(text: str) -> Any:
    """The value of `key=text` on a command line: [..], {..} and quotes are YAML, all else is one plain scalar.

    So `#` and `: ` in a folder's name need no quotes. Raises StrictYamlError.
    """
    if text.startswith(("[", "{", '"', "'")):
        return parse_yaml(text)
    tag = _StrictLoader("").resolve(yaml.ScalarNode, text, (True, False))
    return text if tag == f"{_TAG}str" else parse_yaml(text)


def dump_yaml(value: Any) -> str:
    """Block-style YAML that parse_yaml reads back as an equal value."""
    return yaml.dump(value, Dumper=_StrictDumper, sort_keys=False, allow_unicode=False, width=100)
