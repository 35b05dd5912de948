"""Triggers by model requests or user turns, which a tool's own requests do not show."""

from __future__ import annotations

import requests

from tests.gateway.lab import Lab
from tests.support import PATIENCE_S


def status_of(lab: Lab, link: str, call: int) -> int:
    headers = lab.identity(call=call)
    return requests.get(lab.url(link, "/size/1"), headers=headers, timeout=PATIENCE_S).status_code


def test_tool_fault_acts_in_its_turn_without_model_faults(lab: Lab) -> None:
    late = {"fault": "unavailable", "links": "search", "when": {"model_requests": "2-"}}
    lab.begin(faults={"faults": [late]})
    statuses = []
    for turn in (1, 2, 3):
        status_of(lab, "model", turn)
        statuses.append(status_of(lab, "search", turn))
    assert statuses == [200, 503, 503]
    assert [record.call for record in lab.exchanges(6) if record.link == "model"] == [
        1,
        2,
        3,
    ]


def test_turns_follow_manager(lab: Lab) -> None:
    second = {"fault": "unavailable", "links": "search", "when": {"turn": 2}}
    lab.begin(faults={"faults": [second]})
    statuses = [status_of(lab, "search", 1)]
    for turn in (2, 3):
        body = {"episode": "e1", "attempt": 1, "turn": turn}
        assert lab.control("PUT", "/lanes/0/turn", body).status_code == 200
        statuses.append(status_of(lab, "search", turn))
    assert statuses == [200, 503, 200]
