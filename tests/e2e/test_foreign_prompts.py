"""A prompts file of another tool runs: its prompts are sent, its assertions decide, the rest is named."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.commands import wirefault
from tests.lab.demos import environ_in

pytestmark = pytest.mark.slow

AGENT = "import sys; print('It is Paris.' if 'France' in sys.argv[1] else 'Sorry, no idea.')"
PROMPTFOO = """\
prompts: ['What is the capital of {{country}}?']
defaultTest: {assert: [{type: not-icontains, value: sorry}]}
tests:
  - vars: {country: France}
    assert: [{type: contains, value: Paris}, {type: llm-rubric, value: polite}]
  - {vars: {country: Peru}, metadata: {level: hard}}
"""
WIRING = {
    "links": {"shop": {"upstream": "http://127.0.0.1:9", "env": "SHOP_URL"}},
    "subject": {"command": [sys.executable, "-c", AGENT, "{prompt}"]},
    "prompts": "promptfooconfig.yaml",
}
UNREAD = "promptfooconfig.yaml:4: entry 1: assert 2 (llm-rubric) is not checked"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "promptfooconfig.yaml").write_text(PROMPTFOO)
    (tmp_path / "wirefault.yaml").write_text(json.dumps(WIRING))
    return tmp_path


def test_promptfoo_file_is_run_and_judged(folder: Path) -> None:
    arguments = ("run", "wirefault.yaml", "--toxiproxy", "embedded", "--no-charts", "--json")
    done = wirefault(folder, environ_in(folder), *arguments)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outcomes"] == {"success": 1, "failure": 1}
    assert UNREAD in done.stderr.replace("\n", " ")
    [history] = folder.glob(".wirefault/logs/runs/*/agent-0.jsonl")
    events = list(map(json.loads, history.read_text().splitlines()))
    started = [event for event in events if event["event"] == "episode_started"]
    assert [event.get("metadata", {}) for event in started] == [{}, {"level": "hard"}]


def test_experiment_names_unverifiable_statements(folder: Path) -> None:
    experiment = {
        "title": "Answers stay right",
        "wiring": "wirefault.yaml",
        "prompts": "promptfooconfig.yaml",
        "method": {"faults": "lost-replies"},
        "hypothesis": ["failure == 0"],
    }
    (folder / "experiment.json").write_text(json.dumps(experiment))
    done = wirefault(folder, environ_in(folder), "plan", "experiment.json")
    assert done.returncode == 0, done.stderr
    assert "3 arms of 2 episodes each" in done.stdout
    assert UNREAD in done.stderr.replace("\n", " ")
