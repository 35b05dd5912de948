"""docs/coming-from.md: every snippet and name that it mentions exists."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest
from click.testing import CliRunner

from tests.support import ROOT
from tests.upstream import Upstream, requests_of
from wirefault.cli.main import main
from wirefault.core.plain_data import plain_data, read_yaml
from wirefault.core.plugins import load_function
from wirefault.experiments.assertions.registry import parse_assertion
from wirefault.experiments.experiment import Arm, Experiment
from wirefault.experiments.expression import parse_expression
from wirefault.experiments.measures import known_names
from wirefault.faults.registry import REGISTRY
from wirefault.faults.sets.fault_set import build_set
from wirefault.wiring.links import lab_links

PAGE = (ROOT / "docs" / "coming-from.md").read_text(encoding="utf-8")
WIRING = {
    "links": {
        "model": {"upstream": "scripted", "dialect": "openai_chat", "env": "OPENAI_BASE_URL"},
        "weather": {"upstream": "http://127.0.0.1:9", "env": "WEATHER_URL"},
    },
    "subject": {"python": "my_agent:ask"},
}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def rows(title: str) -> list[list[list[str]]]:
    """The code in each column, for each row of that section's tables."""
    [section] = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    lines = [line for line in section.splitlines() if line.startswith("| ") and "| here" not in line]
    return [[re.findall(r"`([^`]+)`", column) for column in line.strip("|").split(" | ")] for line in lines]


def data_of(text: str) -> Any:
    return plain_data(read_yaml(text, "page"), "page")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    scenario, _, operations, assertion = blocks("python")
    files = {"checks.py": scenario, "operations.py": operations, "polite.py": assertion}
    files |= {"wirefault.yaml": json.dumps(WIRING), "prompts.json": '[{"prompt": "Hello"}]'}
    files |= {"operations.yaml": blocks("yaml")[0], "scenario.json": blocks("json")[0]}
    files |= {"level.yaml": blocks("yaml")[1]}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("target", ["checks:weather", "scenario.json", "level.yaml"])
def test_page_experiment_can_be_planned(target: str) -> None:
    sys.modules.pop("checks", None)  # of another test
    done = CliRunner().invoke(main, ["plan", target])
    assert done.exit_code == 0 and "control-after" in done.output, done.output


def test_page_pytest_passes_when_held(monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[list[str]] = []
    module = ModuleType("page")
    exec(blocks("python")[1], vars(module))

    def run(words: list[str]) -> subprocess.CompletedProcess[str]:
        requests.append(words)
        return subprocess.CompletedProcess(words, 0)

    monkeypatch.setattr(subprocess, "run", run)
    module.test_my_agent_survives_a_rate_limit()
    assert requests == [["wirefault", "run", "checks:weather"]]


def test_page_operation_is_executed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[str] = []

    def serve(connection: Any) -> None:
        for request in requests_of(connection):
            requests.append(str(request))
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\n3 results")

    [prompt] = json.loads((folder / "scenario.json").read_text(encoding="utf-8"))["prompts"]
    with Upstream(serve) as upstream:
        monkeypatch.setenv("SEARCH_URL", upstream.address.url)
        answer = load_function(f"{folder}/operations.py:call")(prompt["prompt"])
    assert "AI%20safety" in requests[0]
    assert prompt["expect"]["answer"]["contains"] in str(answer)


def test_page_builders_are_faults_with_triggers() -> None:
    entries = [here[0] for _, here in rows("Builders and triggers")]
    assert len(entries) == 25
    for entry in entries:
        if entry != "budgets":
            data = data_of(entry)
            fault = data if "fault" in data else {"fault": "server_error", "links": "tools", **data}
            assert build_set({"faults": [fault]}, entry, REGISTRY, lab_links()).faults


def test_page_assertions_exist(folder: Path) -> None:
    named = [here for _, [here] in rows("Assertions")]
    for entry in named:
        data = data_of(entry)
        parse_assertion(data)
        arm = Arm(faults="heavy", assertions=[data])
        assert Experiment(title="x", method=arm, hypothesis=["no crash"]).arms["method"].assertions
    assert len(named) == 19
    assert callable(load_function(f"{folder}/polite.py:is_polite"))


def test_page_measures_exist() -> None:
    here = {name for row in rows("Stress, recovery, reports") for name in row[1]}
    statements = {text for text in here if re.search("[<>]=", text)}
    assert len(statements) == 4
    for statement in statements:
        assert set(parse_expression(statement).names) <= set(known_names(with_control=True))
    for name in ("mttr", "recovery_rate", "success_rate"):
        assert name in here and name in known_names(with_control=True)


def test_page_budgets_exist() -> None:
    for _, [here] in rows("Budgets"):
        arm = Arm.model_validate({"budgets": data_of(here)})
        assert arm.breaks_something


def commands() -> list[str]:
    texts = [*re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)), *blocks("sh")]
    return sorted({text.strip() for text in texts if text.startswith("wirefault ")})


@pytest.mark.parametrize("line", commands())
def test_page_commands_have_these_options(line: str) -> None:
    words = shlex.split(line)[1:]
    command: click.Command | None = main
    while isinstance(command, click.Group):
        command = command.get_command(click.Context(command), words.pop(0))
    assert command is not None
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known
