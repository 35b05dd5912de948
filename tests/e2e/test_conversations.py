"""Conversations whose turns a function generates, over the whole wire."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.examples.running import run_wiring
from tests.upstream import Upstream, requests_of
from wirefault.history.events import AttemptEnded, TurnStarted
from wirefault.history.reader import read_run

pytestmark = pytest.mark.slow

AGENT = """
import os, urllib.request

def ask(prompt, context):
    with urllib.request.urlopen(os.environ["SHOP_URL"], timeout=20) as reply:
        return f"{context.turn} {prompt} {reply.read().decode()}"
"""
USER = """
def haggle(conversation):
    if len(conversation) == 2 * 3:
        return None
    return f"cheaper than {conversation[-1]['content'].split()[-1]}"

def leave(conversation):
    raise RuntimeError("no more patience")
"""


@pytest.fixture
def shop() -> Iterator[Upstream]:
    def serve(connection: Any) -> None:
        for number, _ in enumerate(requests_of(connection), start=4):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % number)

    with Upstream(serve) as upstream:
        yield upstream


def test_user_turns_follow_answers_and_user_failure_is_invalid(tmp_path: Path, shop: Upstream) -> None:
    (tmp_path / "my_agent.py").write_text(AGENT, encoding="utf-8")
    (tmp_path / "user.py").write_text(USER, encoding="utf-8")
    entries = [
        {"id": "haggles", "prompt": "price?", "next_turn": "user.py:haggle", "expect": {"values": []}},
        {"id": "leaves", "prompt": "price?", "next_turn": "user.py:leave"},
    ]
    (tmp_path / "prompts.json").write_text(json.dumps(entries), encoding="utf-8")
    wired = {"links": {"shop": {"upstream": shop.address.url}}, "subject": {"python": "my_agent:ask"}}
    wiring = tmp_path / "wirefault.yaml"
    wiring.write_text(json.dumps({**wired, "prompts": "prompts.json"}), encoding="utf-8")
    summary = run_wiring(tmp_path, wiring, "--toxic-prob", "0", "--error-prob", "0", "--prompt-limit", "1")
    events = list(read_run(tmp_path / "logs", summary["run_id"]))
    questions = [event.text for event in events if isinstance(event, TurnStarted)]
    answers = [event.answers for event in events if isinstance(event, AttemptEnded)]
    assert questions == ["cheaper than 4", "cheaper than 4"]
    assert answers[0] == ["1 price? 4", "2 cheaper than 4 4", "3 cheaper than 4 4"]
    outcomes = {episode["episode"]: (episode["outcome"], episode["why"]) for episode in summary["episodes"]}
    assert outcomes["haggles"][0] != "invalid" and outcomes["leaves"][0] == "invalid"
    assert "user.py:leave raised RuntimeError: no more patience" in outcomes["leaves"][1]
