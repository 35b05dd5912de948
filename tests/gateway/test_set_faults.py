"""Faults set at the gateway while an attempt is in progress."""

from __future__ import annotations

from typing import Any

import pytest
import requests

from tests.gateway.lab import Lab
from tests.support import PATIENCE_S
from wirefault.history.events import FaultsSet
from wirefault.settings.settings import Settings

UNAVAILABLE = Settings(seed=1, faults={"faults": [{"fault": "unavailable", "links": "search"}]}).faults


def set_faults(lab: Lab, faults: str = UNAVAILABLE, number: int = 1, **more: Any) -> requests.Response:
    body = {"episode": "e1", "attempt": 1, "number": number, "faults": faults, **more}
    return lab.control("PUT", "/lanes/0/faults", body)


def ask(lab: Lab, call: int) -> int:
    headers = lab.identity(call=call)
    return requests.get(lab.url("search", "/size/1"), headers=headers, timeout=PATIENCE_S).status_code


def test_set_faults_act_from_next_request_until_cleared(lab: Lab) -> None:
    lab.begin()
    statuses = [ask(lab, 1)]
    assert set_faults(lab).status_code == 200
    statuses.append(ask(lab, 2))
    assert set_faults(lab, "", 2).status_code == 200
    statuses.append(ask(lab, 3))
    assert statuses == [200, 503, 200]
    exchanges = [event for event in lab.exchanges(5) if not isinstance(event, FaultsSet)]
    assert [(one.configuration, len(one.faults)) for one in exchanges] == [(0, 0), (1, 1), (2, 0)]


def test_set_faults_is_idempotent(lab: Lab) -> None:
    lab.begin()
    assert {set_faults(lab).status_code for _ in range(2)} == {200}
    ask(lab, 1)
    assert [event.number for event in lab.exchanges(2) if isinstance(event, FaultsSet)] == [1]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"episode": "e2"}, (409, "other_attempt")),
        ({"attempt": 2}, (409, "other_attempt")),
        ({"number": 0}, (400, "bad_request")),
        ({"faults": '{"faults": [{"fault": "truncat"}]}'}, (409, "faults_refused")),
        ({"faults": "["}, (409, "faults_refused")),
    ],
)
def test_invalid_fault_set_is_refused_and_changes_nothing(
    lab: Lab, change: dict[str, Any], expected: tuple[int, str]
) -> None:
    lab.begin()
    answer = set_faults(lab, **change)
    assert (answer.status_code, answer.json()["error"]["code"]) == expected
    assert ask(lab, 1) == 200 and lab.exchange().configuration == 0


def test_faults_without_run_are_refused(lab: Lab) -> None:
    assert set_faults(lab).json()["error"]["code"] == "other_attempt"
