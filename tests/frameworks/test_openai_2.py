"""The framework examples that run on OpenAI's SDK 2, unchanged, under every preset."""

from __future__ import annotations

import pytest

from bench.findings.example_lab import ExampleLab
from tests.frameworks.exec_runs import check_preset, labs
from wirefault.faults.sets.presets import preset_names

lab = labs("crewai", "llama_index", "strands")


@pytest.mark.parametrize("name", preset_names())
def test_preset_faults_match_upstream_records(lab: ExampleLab, name: str) -> None:
    check_preset(lab, name)
