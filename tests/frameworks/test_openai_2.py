"""The framework examples that run on OpenAI's SDK 2, unchanged, under every preset."""

from __future__ import annotations

import pytest

from bench.findings.flying import ExampleLab
from tests.frameworks.flown import check_preset, labs
from wirefault.faults.sets.presets import preset_names

lab = labs("crewai", "llama_index", "strands")


@pytest.mark.parametrize("name", preset_names())
def test_each_preset_strikes_and_the_ledger_is_what_the_upstreams_saw(lab: ExampleLab, name: str) -> None:
    check_preset(lab, name)
