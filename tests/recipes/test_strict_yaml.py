import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes.strict_yaml import StrictYamlError, dump_yaml, parse_value, parse_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-5", 1e-5),
        ("1.0e-5", 1e-5),
        ("-.5", -0.5),
        ("1_000", "1_000"),
        ("0x10", 16),
        ("0o10", 8),
        ("010", 10),
        ("12:30:45", "12:30:45"),
        ("2026-11-30", "2026-11-30"),
        ("true", True),
        ("False", False),
        ("no", "no"),
        ("on", "on"),
        ("yes", "yes"),
        ("~", None),
        ("null", None),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("4x4", "4x4"),
        ("1e", "1e"),
        ("+", "+"),
        ("<<", "<<"),
        ("=", "="),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text, value):
    parsed = parse_yaml(text)
    assert parsed == value
    assert type(parsed) is type(value)
    assert parse_value(text) == value


def test_nan_is_a_number():
    assert math.isnan(parse_yaml(".nan"))


def test_every_repeated_key_is_refused_with_both_lines():
    with pytest.raises(StrictYamlError) as error:
        parse_yaml("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n")
    assert len(error.value.problems) == 2
    assert "line 4" in str(error.value)
    assert "first on line 3" in str(error.value)
    assert "line 5" in str(error.value)


@pytest.mark.parametrize("text", ["a: &x 1\nb: *x", "a: !!python/object:os.system 1", "a: !!str 1", "*x"])
def test_anchors_aliases_and_tags_are_refused(text):
    with pytest.raises(StrictYamlError, match=r"got the .*; allowed: .*; do "):
        parse_yaml(text)


@pytest.mark.parametrize("text", ["4: x", "true: x", "null: x", "[a]: x", "1.5: x"])
def test_keys_are_text(text):
    with pytest.raises(StrictYamlError, match="line 1: got the key"):
        parse_yaml(text)


def test_quoted_keys_and_values_are_text():
    assert parse_yaml('{"4": "no", "a": "1"}') == {"4": "no", "a": "1"}


@pytest.mark.parametrize("text", ["a: [1", "a: b: c", "\ta: 1", "a: '", "a\n---\nb", "\x00", "[" * 100_000, "9" * 5000])
def test_broken_text_is_an_error_of_ours(text):
    with pytest.raises(StrictYamlError):
        parse_yaml(text)


def test_command_line_values_need_no_quotes_for_hashes_and_colons():
    assert parse_value("my photos #2: best") == "my photos #2: best"
    assert parse_value("& more") == "& more"
    assert parse_value("[1, 2]") == [1, 2]
    assert parse_value("{a: 1e-3}") == {"a": 1e-3}
    assert parse_value('"12"') == "12"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_what_is_dumped_is_read_back(value):
    assert parse_yaml(dump_yaml(value)) == value


@pytest.mark.parametrize("text", ["1e-5", "0o7", "1e5", "no", "2026-11-30", "null", "", ".5e3", "=", "<<"])
def test_text_that_looks_like_another_type_stays_text(text):
    assert parse_yaml(dump_yaml({"a": text})) == {"a": text}


@given(st.text(max_size=30))
def test_no_text_raises_anything_but_ours(text):
    for parse in (parse_yaml, parse_value):
        with contextlib.suppress(StrictYamlError):
            parse(text)
