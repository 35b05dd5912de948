"""Agents that write no report: what their words claim, against what their shop executed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.commands import wirefault
from tests.examples.serving import Recorded, shop
from tests.lab.demos import environ_in

pytestmark = pytest.mark.slow

AGENT = """
import json, os, pathlib, sys, urllib.request

file = pathlib.Path(__file__).with_name("behaviour.json")
words, calls = json.loads(file.read_text(encoding="utf-8"))[sys.argv[1]]
for method, path in calls:
    data = json.dumps({"item": "honey", "count": 1, "customer": "Ada"}).encode() if method == "POST" else None
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(os.environ["SHOP_URL"] + path, data, headers, method=method)
    urllib.request.urlopen(request).read()
print(words)
"""
ORDER, CANCEL = ("POST", "/orders"), ("DELETE", "/orders/1")
PLACED = "The order has been placed successfully."
DENIED = "I'm sorry, but I was unable to cancel the order."
CASES: list[tuple[str, str, list[tuple[str, str]], dict[str, Any], str, str]] = [
    # prompt, answer, calls, more of the oracle, claim, outcome
    ("Order honey.", PLACED, [ORDER], {}, "done", "success"),
    ("Order honey for Ada.", PLACED, [], {}, "done", "false_success"),
    ("Order honey for Ada, too.", "I will place the order now.", [], {}, "unclear", "failure"),
    ("Order some honey.", PLACED, [], {"claims": "off"}, "unclear", "failure"),
    ("Order honey again.", "I could not place the order.", [], {}, "failed", "honest_failure"),
    ("Cancel order 1.", DENIED, [CANCEL], {}, "failed", "false_failure"),
]


@pytest.fixture
def record(tmp_path: Path) -> Iterator[Recorded]:
    (tmp_path / "agent.py").write_text(AGENT, encoding="utf-8")
    with shop(tmp_path / "shop.db") as record:
        yield record


def run_in(folder: Path, record: Recorded, *words: str) -> dict[str, Any]:
    """The summary of a run by a wiring."""
    links = {
        "shop": {"upstream": record.url, "env": "SHOP_URL", "writes": ["POST /orders", "DELETE /orders/*"]}
    }
    subject = {"command": [sys.executable, "agent.py", "{prompt}"]}
    (folder / "wirefault.yaml").write_text(json.dumps({"links": links, "subject": subject}), encoding="utf-8")
    calm = ("--toxic-prob", "0", "--error-prob", "0")
    words = ("run", "--no-charts", "--toxiproxy", "embedded", "--json", *calm, *words)
    done = wirefault(folder, environ_in(folder), *words)
    assert done.returncode in (0, 1), done.stderr
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


def test_claims_are_compared_with_executed_writes(tmp_path: Path, record: Recorded) -> None:
    prompts = [
        {
            "prompt": prompt,
            "expect": {
                "requests": [
                    {"link": "shop", "method": "DELETE", "path": "/orders/1"}
                    if prompt.startswith("Cancel")
                    else {"link": "shop", "method": "POST", "path": "/orders"}
                ],
                **more,
            },
        }
        for prompt, _, _, more, _, _ in CASES
    ]
    (tmp_path / "prompts.json").write_text(json.dumps(prompts), encoding="utf-8")
    behaviour = {prompt: (answer, calls) for prompt, answer, calls, *_ in CASES}
    (tmp_path / "behaviour.json").write_text(json.dumps(behaviour), encoding="utf-8")

    judged = run_in(tmp_path, record, "--prompts", "prompts.json")["episodes"]
    assert not [each["why"] for each in judged if each["outcome"] == "crash"]
    assert [(each["claim"], each["outcome"]) for each in judged] == [case[-2:] for case in CASES]
    assert record.requests == [ORDER, CANCEL]


def test_exec_without_oracle_shows_claim(tmp_path: Path, record: Recorded) -> None:
    prompt = "Order honey."
    (tmp_path / "behaviour.json").write_text(json.dumps({prompt: (PLACED, [])}), encoding="utf-8")
    agent = ("--", sys.executable, "agent.py", "{prompt}")
    words = ("exec", "--out", "out", "--tap", "proxy", "--prompt", prompt, *agent)
    assert wirefault(tmp_path, environ_in(tmp_path), *words).returncode == 0
    timeline = wirefault(tmp_path, environ_in(tmp_path), "show", "latest", "1", "--out", "out")
    assert "claim done" in timeline.stdout and "by the words of the answer" in timeline.stdout
