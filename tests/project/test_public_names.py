"""The Python interface: these names, each from where it is defined, and imported only when used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import wirefault
from wirefault import Arm, Experiment, run


def test_public_names_are_pinned() -> None:
    assert wirefault.__all__ == [
        *("Arm", "AttemptContext", "Baseline", "CheckResult", "EpisodeView", "Experiment"),
        *("ExperimentReport", "ExperimentResult", "Fault", "Matrix", "NotRecorded", "Operations"),
        *("Safety", "SubjectResult", "Wrapper", "call", "run", "tool"),
    ]


@pytest.mark.parametrize("name", wirefault.__all__)
def test_each_public_name_has_docstring(name: str) -> None:
    assert getattr(wirefault, name).__doc__
    assert name in dir(wirefault)


def test_unknown_name_is_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'fly'"):
        _ = wirefault.fly


@pytest.mark.slow
def test_package_import_is_lazy() -> None:
    program = "import sys, wirefault; print([m for m in sys.modules if m.startswith('wirefault.')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_experiment_runs_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    experiment = Experiment(
        title="A calculator that is down is told of",
        prompts=[{"prompt": "What is 2 + 2?", "id": "sum", "expect": {"answer": "4"}}],
        seed=1,
        steady_state=["no crash"],
        method=Arm(faults={"faults": [{"fault": "unavailable", "links": ["calculator"]}]}),
        hypothesis=["no crash"],
    )
    heard: list[str] = []
    result = run(experiment, toxiproxy="embedded", say=heard.append)
    assert result.verdict == "held", result.judged
    assert result.saved.folder.is_dir() and any("ready in" in sentence for sentence in heard)
