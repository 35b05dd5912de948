"""A clean run's model replies, replayed up to the first fault."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.gateway.lab import Lab
from tests.gateway.scripted import ScriptedUpstream, sized
from wirefault.gateway.replayed_model import ReplayDocument


@pytest.fixture
def lab(lab_of_service: Lab) -> Lab:
    return lab_of_service


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.jsonl"


def answer(text: str) -> Any:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return sized(json.dumps({"id": "1", "choices": [choice]}).encode())


def ask(lab: Lab, text: str = "Order a mug", call_id: str = "call_a1") -> str:
    """The model's answer to a conversation with these contents."""
    messages = [{"role": "user", "content": text}, {"role": "tool", "tool_call_id": call_id, "content": "{}"}]
    url = lab.url("model", "/v1/chat/completions")
    reply = requests.post(url, json={"model": "m", "messages": messages}, timeout=30)
    return str(reply.json()["choices"][0]["message"]["content"])


def record(lab: Lab, service: ScriptedUpstream, file: Path, text: str = "Order a mug") -> None:
    """Record one reply, after which the model answers otherwise; then begin a run that replays."""
    service.reply = answer("recorded")
    lab.begin(audit_model=ReplayDocument("record", str(file)).dump())
    ask(lab, text)
    service.reply = answer("live")


def replay(lab: Lab, file: Path, **more: Any) -> None:
    lab.begin(audit_model=ReplayDocument("replay", str(file), links=["model"]).dump(), **more)


def test_recorded_reply_is_given_once(lab: Lab, service: ScriptedUpstream, file: Path) -> None:
    record(lab, service, file)
    replay(lab, file)
    assert [ask(lab, call_id=f"call_b{n}") for n in (1, 2)] == ["recorded", "live"]
    assert [each.replay for each in lab.exchanges(2)] == ["hit", "miss"]


def test_other_request_reaches_the_model(lab: Lab, service: ScriptedUpstream, file: Path) -> None:
    record(lab, service, file)
    replay(lab, file)
    assert ask(lab, "Order a cup") == "live"
    assert lab.exchange().replay == "miss"


@pytest.mark.parametrize(("reply", "replayed"), [("Order 17 it is", False), ("Right away", True)])
def test_reply_about_another_id_is_not_replayed(
    lab: Lab, service: ScriptedUpstream, file: Path, reply: str, replayed: bool
) -> None:
    service.reply = answer(reply)
    lab.begin(audit_model=ReplayDocument("record", str(file)).dump())
    ask(lab, "Refund order 17")
    service.reply = answer("live")
    replay(lab, file)
    assert ask(lab, "Refund order 18") == (reply if replayed else "live")


def test_model_answers_after_a_fault(lab: Lab, service: ScriptedUpstream, file: Path) -> None:
    record(lab, service, file)
    replay(lab, file, faults={"faults": [{"fault": "unavailable", "links": "search"}]})
    assert requests.get(lab.url("search"), timeout=30).status_code == 503
    assert ask(lab) == "live"
    assert lab.exchange(2).replay == ""


def test_fault_changes_the_recorded_reply(lab: Lab, service: ScriptedUpstream, file: Path) -> None:
    record(lab, service, file)
    fault = {"fault": "empty_answer", "links": "model", "when": {"nth": 1}}
    replay(lab, file, faults={"faults": [fault]})
    before = len(service.requests)
    assert ask(lab) == ""
    assert (lab.exchange().replay, len(service.requests)) == ("hit", before)
    assert ask(lab) == "live"


def test_replies_of_other_links_are_not_replayed(lab: Lab, service: ScriptedUpstream, file: Path) -> None:
    record(lab, service, file)
    lab.begin(audit_model=ReplayDocument("replay", str(file)).dump())
    assert ask(lab) == "live"
