"""Faults on a write through the whole lab: each is delivered, and the ledger records the result."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.lab import SharedLab, sample
from wirefault.history.events import Exchange, ToolTry

MESSAGE = sample("Send Bob a message")


@pytest.mark.parametrize(
    ("name", "parameters", "executed", "error"),
    [
        ("unavailable", {}, False, "http_503"),
        ("delay", {"ms": 200}, True, None),
        ("delay", {"ms": 60_000}, True, "read_timeout"),  # settling lets it go, late
        ("hang", {}, True, "read_timeout"),
        ("hang", {"forwarded": False}, False, "read_timeout"),
        ("reset", {}, True, "connection_closed"),  # Toxiproxy makes a close of it
        ("lose_request", {}, False, "connection_closed"),
        ("lose_reply", {}, True, "connection_closed"),
        ("truncate", {}, True, "connection_closed"),
        ("slow_body", {"bytes_per_second": 400}, True, None),
        ("empty", {}, True, "bad_reply"),
    ],
)
def test_ledger_records_delivery_and_execution(
    shared: SharedLab, name: str, parameters: dict[str, Any], executed: bool, error: str | None
) -> None:
    entry = {"fault": name, "links": "message", "with": parameters}
    waits = {"tool_timeout": 1} if error == "read_timeout" else {}
    lab_run = shared.run(MESSAGE, faults=json.dumps({"faults": [entry]}), **waits)
    (episode,) = lab_run.summary.episodes
    assert [(fault.kind, fault.stage, fault.delivered) for fault in episode.faults] == [
        (name, "observed", True)
    ]
    assert [one.error for one in lab_run.of(ToolTry)] == [error]
    assert [one.forwarded for one in lab_run.of(Exchange) if one.link == "message"] == [executed]
    assert (episode.world == "as_asked") is executed
    assert episode.unexplained == ()


def test_only_upstream_shows_request_delivered_twice(shared: SharedLab) -> None:
    entry = {"fault": "duplicate_request", "links": "message"}
    for idempotency, outcome in ((True, "success"), (False, "duplicate")):
        lab_run = shared.run(MESSAGE, faults=json.dumps({"faults": [entry]}), idempotency=idempotency)
        (fault,) = lab_run.summary.episodes[0].faults
        assert (fault.stage, fault.delivered, fault.why_not) == ("observed", True, None)
        assert fault.delivered_by == "upstream"
        assert (lab_run.outcomes, fault.attributes["statuses"]) == ([outcome], [201, 201])
