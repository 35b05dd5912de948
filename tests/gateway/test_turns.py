"""Triggers that go by the model's turns, on links whose own requests say nothing of them."""

from __future__ import annotations

import requests

from tests.gateway.lab import Lab
from tests.support import PATIENCE_S


def asked(lab: Lab, link: str, call: int) -> int:
    headers = lab.identity(call=call)
    return requests.get(lab.url(link, "/size/1"), headers=headers, timeout=PATIENCE_S).status_code


def test_a_tools_fault_is_met_in_its_turn_with_nothing_armed_for_the_model(lab: Lab) -> None:
    late = {"fault": "unavailable", "links": "search", "when": {"turns": "2-"}}
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
