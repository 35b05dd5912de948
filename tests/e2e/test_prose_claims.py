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
import json, os, sys, urllib.request

words, orders = sys.argv[1].rsplit("|", 1)
for _ in range(int(orders)):
    data = json.dumps({"item": "honey", "count": 1, "customer": "Ada"}).encode()
    headers = {"Content-Type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(os.environ["SHOP_URL"] + "/orders", data, headers)).read()
print(words)
"""
PLACED = "The order has been placed successfully."
DENIED = "I'm sorry, but I was unable to place the order."
PLAN = "I will place the order now."
ASKED = {"requests": [{"link": "shop", "method": "POST", "path": "/orders"}]}


@pytest.fixture
def record(tmp_path: Path) -> Iterator[Recorded]:
    (tmp_path / "agent.py").write_text(AGENT, encoding="utf-8")
    with shop(tmp_path / "shop.db") as record:
        yield record


def episodes(folder: Path, record: Recorded, *prompts: dict[str, Any]) -> list[dict[str, Any]]:
    """The judged episodes of one run by a wiring."""
    links = {"shop": {"upstream": record.url, "env": "SHOP_URL", "writes": ["POST /orders"]}}
    subject = {"command": [sys.executable, "agent.py", "{prompt}"]}
    (folder / "wirefault.yaml").write_text(json.dumps({"links": links, "subject": subject}), encoding="utf-8")
    (folder / "prompts.json").write_text(json.dumps(prompts), encoding="utf-8")
    words = ("run", "--prompts", "prompts.json", "--no-charts", "--toxiproxy", "embedded", "--json")
    done = wirefault(folder, environ_in(folder), *words)
    assert done.returncode in (0, 1), done.stderr
    judged: list[dict[str, Any]] = json.loads(done.stdout)["episodes"]
    return judged


def test_words_are_held_against_executed_orders(tmp_path: Path, record: Recorded) -> None:
    judged = episodes(
        tmp_path,
        record,
        *(
            {"prompt": f"{words}|{orders}", "expect": ASKED | more}
            for words, orders, more in (
                (PLACED, 0, {}),
                (PLACED, 1, {}),
                (DENIED, 0, {}),
                (DENIED, 1, {}),
                (PLAN, 0, {}),
                (PLAN, 1, {}),
                (PLACED, 0, {"claims": "off"}),
            )
        ),
    )
    assert [(each["claim"], each["outcome"]) for each in judged] == [
        ("done", "false_success"),
        ("done", "success"),
        ("failed", "honest_failure"),
        ("failed", "false_failure"),
        ("unclear", "failure"),
        ("unclear", "success"),
        ("unclear", "failure"),
    ]
    assert record.requests.count(("POST", "/orders")) == 3


def test_exec_without_oracle_shows_claim(tmp_path: Path, record: Recorded) -> None:
    agent = ("--", sys.executable, "agent.py", "{prompt}")
    words = ("exec", "--out", "out", "--tap", "proxy", "--prompt", f"{PLACED}|0", *agent)
    assert wirefault(tmp_path, environ_in(tmp_path), *words).returncode == 0
    timeline = wirefault(tmp_path, environ_in(tmp_path), "show", "latest", "1", "--out", "out")
    assert "claim done" in timeline.stdout and "by the words of the answer" in timeline.stdout
