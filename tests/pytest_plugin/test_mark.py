"""The marker's arguments, and ids of tests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wirefault.core.errors import InputError
from wirefault.pytest_plugin.mark import read_mark
from wirefault.pytest_plugin.session import episode_key
from wirefault.pytest_plugin.verdict import paid_models, without_repetition
from wirefault.wiring.links import Link, Links

LINKS = Links([Link("shop", "http://127.0.0.1:9000")])


@pytest.mark.parametrize(
    ("faults", "names"),
    [
        ("unavailable", ["unavailable"]),
        ({"fault": "lose_reply"}, ["lose_reply"]),
        (["unavailable", {"fault": "delay"}], ["unavailable", "delay"]),
        ({"faults": [{"fault": "reset"}]}, ["reset"]),
        ([{"toxic": "latency", "with": {"latency": 5}}], ["latency"]),
        ("", []),
    ],
)
def test_faults_are_read_as_people_write_them(faults: Any, names: list[str]) -> None:
    mark = read_mark((), {"faults": faults}, LINKS)
    entries = json.loads(mark.faults or "{}")
    every = [*entries.get("faults", ()), *entries.get("toxics", ())]
    assert [entry.get("fault") or entry["toxic"] for entry in every] == names
    assert read_mark((faults,), {}, LINKS).faults == mark.faults


def test_each_fault_of_a_list_must_arrive_but_not_of_a_preset() -> None:
    assert read_mark((["delay", "reset"],), {}, LINKS).each_must_arrive
    assert not read_mark(("lost-replies",), {}, LINKS).each_must_arrive


@pytest.mark.parametrize(
    ("arguments", "named", "problem"),
    [
        (("reset", 3), {}, "takes one argument"),
        (("reset",), {"faults": "reset"}, "faults: given twice"),
        ((), {"fault": "reset"}, "unknown argument 'fault'; did you mean 'faults'"),
        (("resett",), {}, "unknown fault set 'resett'; did you mean 'reset'"),
        ((7,), {}, "faults: must be a name"),
        (("reset",), {"repeats": 0}, "repeats: must be a whole number from 1"),
        (("reset",), {"repeats": True}, "repeats: must be a whole number"),
        (("reset",), {"allow": "write_repeatd"}, "allow: unknown finding 'write_repeatd'; did you mean"),
        (("reset",), {"expect": 3}, "expect: must be the name of a finding"),
        (("reset",), {"paid": "yes"}, "paid: must be True or False"),
        (("reset",), {"checks": ["no_such"]}, "checks: unknown assertion no_such"),
    ],
)
def test_wrong_argument_is_explained(arguments: Any, named: Any, problem: str) -> None:
    with pytest.raises(InputError) as error:
        read_mark(arguments, named, LINKS)
    assert problem in str(error.value)


def test_option_replaces_faults_of_marked_tests_only() -> None:
    assert "delay" in read_mark(("reset",), {}, LINKS, faults="delay").faults
    assert read_mark((), {}, LINKS, faults="delay").faults == ""


def test_key_is_the_same_for_all_repetitions_but_for_its_number() -> None:
    first = episode_key("tests/test_a.py::test_order[mug-repeat1]")
    assert first.startswith("test_order-mug-")
    assert episode_key("tests/test_a.py::test_order[mug-repeat3]") == f"{first}.r3"
    assert episode_key("tests/test_b.py::test_order[mug-repeat1]") != first
    assert without_repetition("a.py::test_x[repeat2]") == ("a.py::test_x", 2)


def test_models_beyond_this_machine_cost_money() -> None:
    links = [
        Link("shop", "https://shop.example"),
        Link("own", "http://127.0.0.1:11434", "ollama"),
        Link("scripted", "scripted", "openai_chat"),
        Link("openai", "https://api.openai.com/v1"),
        Link("hosted", "https://llm.example/v1", "openai_chat"),
    ]
    assert paid_models(links) == ["openai", "hosted"]
