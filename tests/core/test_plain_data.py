"""Allowed and refused content of fault set texts."""

from __future__ import annotations

import datetime

import pytest
import yaml

from tests.support import ROOT
from wirefault.core import yaml_text
from wirefault.core.plain_data import PlainDataError, plain_data, read_yaml

INSIDE_ITSELF: list[object] = []
INSIDE_ITSELF.append(INSIDE_ITSELF)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("14:30", "14:30"),
        ("2024-01-31", "2024-01-31"),
        ("2024-13-45", "2024-13-45"),
        ("no", "no"),
        ("on", "on"),
        ("010", "010"),
        ("1_000", "1_000"),
        ("1e-5", 1e-5),
        ("-.5", -0.5),
        ("3.", 3.0),
        ("3", 3),
        ("true", True),
        ("", None),
        ("~", None),
        ("{a: }", {"a": None}),
        ("[&a {x: 1}, {<<: *a, y: 2}, {<<: *a, x: 3}]", [{"x": 1}, {"x": 1, "y": 2}, {"x": 3}]),
        ("\ufeffa: 1", {"a": 1}),
        ('{"a": "\\ud83d\\ude00"}', {"a": "\U0001f600"}),
    ],
)
def test_plain_words_stay_text(text, value):
    data = read_yaml(text, "f")
    assert data == value and type(data) is type(value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: 1\na: 2", "f:2: duplicate key a"),
        ("a: {b: 1, b: 2}", "f:1: duplicate key b"),
        ('{"a": 1, "a": 2}', "f: duplicate key a"),
        ("a: 1\n\x01", "f:2: not YAML: special characters are not allowed"),
        ("a: 1\n--- 3", "f:2: not YAML: but found another document"),
        ("!!python/object:os.system {}", "f:1: not YAML: could not determine a constructor"),
        ("!!int x", "f: not YAML: invalid literal"),
        ("!!timestamp x", "f: not YAML: "),
        ("\n" + "[" * 100_000, "f:2: nested too deeply"),
        ("{a: " * 3_000, "f:1: nested too deeply"),
        ("9" * 5_000, "f: Exceeds the limit (4300 digits)"),
        ("a: " + "9" * 5_000, "f: not YAML: Exceeds the limit (4300 digits)"),
    ],
)
def test_unreadable_text_is_refused_with_line(text, says):
    with pytest.raises(PlainDataError) as error:
        read_yaml(text, "f")
    assert str(error.value).startswith(says) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"a": [{"b": float("nan")}]}, "f: a[1].b: must be a finite number, not nan"),
        ({"a": {"b": float("inf")}}, "f: a.b: must be a finite number, not inf"),
        ({"a": {1: 2}}, "f: a: the key 1 must be a text: put it in quotes"),
        ({1: 2}, "f: the key 1 must be a text: put it in quotes"),
        (
            {"a": datetime.date(2024, 1, 31)},
            "f: a: datetime.date(2024, 1, 31) must be a text, number, list or",
        ),
        ({"a": b"x"}, "f: a: b'x' must be a text, number, list or mapping"),
        ({"a": "\ud800"}, "f: a: contains a lone surrogate"),
        ({"\ud800": 1}, "f: contains a lone surrogate"),
        (INSIDE_ITSELF, "f[1][1]"),
    ],
)
def test_value_outside_json_is_refused_with_key(value, says):
    with pytest.raises(PlainDataError) as error:
        plain_data(value, "f")
    assert str(error.value).startswith(says)


def test_tuples_become_lists():
    assert plain_data({"a": (1, ("b",))}, "f") == {"a": [1, ["b"]]}


@pytest.mark.parametrize(
    "file", [*ROOT.glob("wirefault/**/*.yaml"), *ROOT.glob("examples/**/*.yaml")], ids=str
)
def test_both_parsers_agree(file):
    text = file.read_text(encoding="utf-8")
    quick = yaml.load(text, yaml_text._QuickLoader)
    assert quick == yaml.load(text, yaml_text._Loader)


def test_quick_parser_rejects_are_read_by_full_parser():
    assert read_yaml("a: >\n  \tb", "f") == {"a": "\tb"}


@pytest.mark.parametrize(
    ("first", "next_"),
    [("[x, x, x, x, x, x, x, x, x]", "[{}]"), ("{x: 1}", "{{<<: [{}]}}")],
    ids=["lists", "merged keys"],
)
def test_alias_bomb_is_refused(first, next_):
    lines = [f"a0: &a0 {first}"]
    for number in range(1, 10):
        aliases = ", ".join([f"*a{number - 1}"] * 9)
        lines.append(f"a{number}: &a{number} {next_.format(aliases)}")
    with pytest.raises(PlainDataError, match=r"^bomb\.yaml: more than 1,000,000 values with aliases"):
        read_yaml("\n".join(lines), "bomb.yaml")


def test_aliases_are_expanded():
    assert read_yaml("a: &a {x: 1}\nb: [*a, *a]\n", "f.yaml") == {"a": {"x": 1}, "b": [{"x": 1}] * 2}
