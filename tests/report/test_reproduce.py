"""The command line that repeats a run."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from windtunnel.faults.presets import find_set, preset, preset_names
from windtunnel.report.reproduce import command
from windtunnel.settings import Settings

TWO_OF_A_KIND = {
    "faults": [
        {"fault": "delay", "links": "tools"},
        {"fault": "delay", "when": {"nth": 2}, "with": {"ms": 9}},
    ],
    "toxics": [{"toxic": "latency", "links": "weather"}, {"toxic": "down", "when": {"probability": 0.5}}],
}


def given(faults: str) -> str:
    words = shlex.split(command(Settings(seed=1, faults=faults), "agent/prompts.json"))
    return words[words.index("--faults") + 1]


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_goes_by_its_name(name: str) -> None:
    assert given(preset(name).dump()) == name


@pytest.mark.parametrize("name", preset_names())
def test_any_other_set_is_written_out_and_reads_as_the_same(name: str) -> None:
    changed: dict[str, Any] = json.loads(preset(name).dump())
    changed["faults"][0]["id"] = "mine"
    text = find_set(json.dumps(changed)).dump()
    assert find_set(given(text)).dump() == text


def test_what_goes_without_saying_is_left_out() -> None:
    text = find_set(json.dumps(TWO_OF_A_KIND)).dump()
    assert find_set(given(text)).dump() == text
    assert json.loads(given(text))["faults"] == [
        {"fault": "delay", "links": "tools"},
        {"fault": "delay", "id": "delay-2", "when": {"nth": [2, 2]}, "with": {"ms": 9.0}},
    ]
