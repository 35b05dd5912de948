"""Assertions in a real run: a subject without records, called turn by turn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests import commands
from tests.lab.demos import environ_in
from wirefault.history.reader import read_history

pytestmark = pytest.mark.slow

AGENT = """
import json, os, time, urllib.error, urllib.request

def talk(prompt):
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": prompt}]}).encode()
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    for pause in (0.2, 0):
        try:
            request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request) as reply:
                reply.read()
                return "You said " + prompt
        except urllib.error.HTTPError:
            time.sleep(pause)
    return "It failed"
"""
WIRING = """
links:
  model: {upstream: scripted, dialect: openai_chat, env: OPENAI_BASE_URL}
subject: {python: "my_agent:talk"}
"""
EXPERIMENT = """
title: Turns are asserted
wiring: wirefault.yaml
prompts:
  - {id: one, turns: [Hello, Goodbye], expect: {answer: Goodbye}}
  - {id: two, turns: [Good morning, Goodbye], expect: {answer: Goodbye}}
seed: 1
method:
  faults: {faults: [{fault: unavailable, links: model, when: {nth: 1, of: try}}]}
assertions:
  - completes: {turn: each}
  - answer_contains: {text: Hello, turn: 1}
  - statement: {text: model_calls >= 2, turn: 1}
  - retry_spacing: 150ms
  - recovered_after_failure
  - tool_called: {tool: search, times: 0}
  - callable: own.py:greets
hypothesis: [no runaway, no duplicate, no crash]
"""
OWN = """
def greets(episode):
    return episode.of_turn(2).answer == "You said Goodbye"
"""
VERDICTS = {
    "completes": "held",
    "answer_contains": "deviated",
    "statement": "held",
    "retry_spacing": "held",
    "recovered_after_failure": "held",
    "tool_called": "held",
    "callable": "held",
}


def wirefault(folder: Path, *words: str) -> dict[str, Any]:
    done = commands.wirefault(folder, environ_in(folder), *words, "--json")
    assert done.returncode == 1, done.stderr
    verdict: dict[str, Any] = json.loads(done.stdout)
    return verdict


def test_assertion_verdict_repeats_from_history(tmp_path: Path) -> None:
    files = {"my_agent.py": AGENT, "wirefault.yaml": WIRING, "e.yaml": EXPERIMENT, "own.py": OWN}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    done = wirefault(tmp_path, "run", "e.yaml", "--workers", "2", "--toxiproxy", "embedded")
    checks = {check["assertion"]: check for check in done["checks"] if check["assertion"]}
    assert {name: check["verdict"] for name, check in checks.items()} == VERDICTS, checks
    assert [check["verdict"] for check in done["checks"] if not check["assertion"]] == ["held"] * 7
    again = wirefault(tmp_path, "report", "latest")
    assert {key: again[key] for key in done if key != "timing"} == {
        key: value for key, value in done.items() if key != "timing"
    }
    assert done["effects"]
    wrong = checks["answer_contains"]
    assert wrong["episodes"] == ["two"] and wrong["results"]["two"]["measured"] == "You said Good morning"
    run_id, _, event = wrong["evidence"][0].partition("/")
    assert b"Good morning" in read_history(tmp_path / ".wirefault" / "logs", run_id).line(event)
