"""Triggers by requests to the model or turns of the user, of which a tool's own requests say nothing."""

from __future__ import annotations

import requests

from tests.gateway.lab import Lab
from tests.support import PATIENCE_S


def asked(lab: Lab, link: str, call: int) -> int:
    headers = lab.identity(call=call)
    return requests.get(lab.url(link, "/size/1"), headers=headers, timeout=PATIENCE_S).status_code


def test_a_tools_fault_is_met_in_its_turn_with_nothing_armed_for_the_model(lab: Lab) -> None:
    late = {"fault": "unavailable", "links": "search", "when": {"model_requests": "2-"}}
    lab.begin(faults={"faults": [late]})
    statuses = []
    for turn in (1, 2, 3):
        asked(lab, "model", turn)
        statuses.append(asked(lab, "search", turn))
    assert statuses == [200, 503, 503]
    assert [record.call for record in lab.exchanges(6) if record.link == "model"] == [
        1,
        2,
        3,
    ]


def test_the_user_s_turns_are_counted_as_the_manager_tells_them(lab: Lab) -> None:
    second = {"fault": "unavailable", "links": "search", "when": {"turn": 2}}
    lab.begin(faults={"faults": [second]})
    statuses = [asked(lab, "search", 1)]
    for turn in (2, 3):
        body = {"episode": "e1", "attempt": 1, "turn": turn}
        assert lab.control("PUT", "/lanes/0/turn", body).status_code == 200
        statuses.append(asked(lab, "search", turn))
    assert statuses == [200, 503, 200]
