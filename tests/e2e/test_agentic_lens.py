"""The experiments for AWS's Agentic AI Lens, and the page that maps the practices to them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.commands import wirefault
from tests.lab.demos import environ_in
from tests.support import ROOT
from wirefault.audit.questions import QUESTIONS

FOLDER = ROOT / "experiments" / "aws-agentic-lens"
PAGE = ROOT / "docs" / "aws-agentic-lens.md"
# the lab's agent sends any failed call again, also a refused one
DEVIATES = "non-retryable-failure"


def table_rows() -> list[list[str]]:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def test_page_names_each_experiment_and_its_criteria() -> None:
    named: dict[str, str] = {}
    for _, _, experiments, criteria, questions in table_rows():
        for name in re.findall(r"`([\w-]+)`", experiments):
            named[name] = named.get(name, "") + criteria
        assert set(re.findall(r"`(\w+)`", questions)) <= QUESTIONS.keys()
    assert named.keys() == {path.stem for path in FOLDER.glob("*.yaml")}
    for name, criteria in named.items():
        text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
        of_this = [each for each in re.findall(r"`([^`]+)`", criteria) if each in text]
        assert of_this, name


def test_each_practice_of_a_file_is_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for path in FOLDER.glob("*.yaml"):
        practices = re.findall(r"AGENT\w+-BP\d+", path.read_text(encoding="utf-8"))
        assert practices and all(practice in page for practice in practices), path.name


@pytest.mark.slow
def test_one_command_runs_all(tmp_path: Path) -> None:
    ended = wirefault(tmp_path, environ_in(tmp_path), "run", str(FOLDER), "--toxiproxy", "embedded", "--json")
    names = sorted(path.stem for path in FOLDER.glob("*.yaml"))
    verdicts = {name: each["verdict"] for name, each in zip(names, json.loads(ended.stdout), strict=True)}
    assert verdicts == {name: "deviated" if name == DEVIATES else "held" for name in names}, ended.stderr
    assert ended.returncode == 1
