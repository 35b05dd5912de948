"""A link of MCP at the gateway: the messages that faults act on, and their records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.faults.catalogue.clients.upstream import Answering, answering
from tests.faults.catalogue.mcp.messages import PROGRESS, RESULT, mcp_request, stream
from tests.gateway.lab import Lab, gateway
from tests.support import PATIENCE_S
from wirefault.dialects.http import Reply, json_reply
from wirefault.history.events import Exchange
from wirefault.wiring.links import Link, Links

WEATHER = {"city": "Zürich", "celsius": 21.5}
TEXT = {"type": "text", "text": json.dumps(WEATHER)}
STRUCTURED = {**RESULT, "result": {"content": [TEXT], "structuredContent": WEATHER}}


@contextmanager
def lab_of(folder: Path, reply: Reply | Any = RESULT, **wired: Any) -> Iterator[tuple[Lab, Answering]]:
    """A lab with one link of MCP, whose server gives that reply (or that message, as JSON) to everything."""
    whole = reply if isinstance(reply, Reply) else json_reply(200, reply)
    with answering(whole) as server:
        link = Link("files", upstream=f"{server.address.url}/mcp", dialect="mcp", **wired)
        with gateway(folder, links=Links([link])) as lab:
            yield lab, server


def post(lab: Lab, method: str = "tools/call", headers: Any = None, **params: Any) -> requests.Response:
    request = mcp_request(method, headers, **params)
    lines = {**dict(request.headers), "Content-Type": "application/json"}
    return requests.post(lab.url("files", "/mcp"), request.body, headers=lines, timeout=PATIENCE_S)


def faults(**entry: Any) -> dict[str, Any]:
    return {"faults": [{"fault": "server_error", **entry}]}


CALLS = {"name": "add", "arguments": {}}


@pytest.mark.parametrize(
    ("only", "faulted"),
    [
        ({}, ["tools/call"]),
        ({"tool": "add"}, ["tools/call"]),
        ({"tool": "subtract"}, []),
        ({"method": "tools/list"}, ["tools/list"]),
        ({"method": "*"}, ["initialize", "tools/list", "tools/call"]),
        ({"method": "POST"}, ["tools/call"]),
        ({"method": "POST", "json": {"method": "initialize"}}, ["initialize"]),
        ({"json": {"method": "initialize"}}, ["initialize"]),
        ({"path": "/other"}, []),
    ],
    ids=str,
)
def test_mcp_messages_eligible_for_faults(tmp_path, only, faulted):
    with lab_of(tmp_path) as (lab, _):
        lab.begin(faults=faults(only=only))
        answers = {
            method: post(lab, method, **(CALLS if method == "tools/call" else {"x": 1})).status_code
            for method in ("initialize", "tools/list", "tools/call")
        }
        exchanges = lab.exchanges(3)
    assert [method for method, status in answers.items() if status == 500] == faulted
    assert [exchange.message for exchange in exchanges if exchange.eligible] == faulted
    assert [exchange.tool for exchange in exchanges] == ["", "", "add"]


def test_budget_counts_mcp_tool_calls_and_refuses_as_server(tmp_path):
    with lab_of(tmp_path) as (lab, _):
        lab.begin(budgets='{"episode": {"calls": 1}, "links": "tools"}')
        answers = [post(lab, "tools/list"), *(post(lab, **CALLS) for _ in range(2)), post(lab, "tools/list")]
        exchanges = lab.exchanges(6)
    assert [answer.status_code for answer in answers] == [200, 200, 429, 200]
    assert answers[2].json()["error"]["data"] == {"type": "quota"}
    faulted = [hit.id for e in exchanges if isinstance(e, Exchange) for hit in e.faults]
    assert faulted == ["budget:episode.calls"]


def test_only_tool_calls_are_counted(tmp_path):
    with lab_of(tmp_path) as (lab, _):
        lab.begin(faults=faults(when={"nth": 2}))
        statuses = [
            post(lab, m, name="add", arguments={"n": n}).status_code
            for n, m in enumerate(["initialize", *["tools/call"] * 3])
        ]
    assert statuses == [200, 200, 500, 200]


def test_message_id_does_not_change_call(tmp_path):
    with lab_of(tmp_path) as (lab, _):
        lab.begin()
        for token in (1, 2):
            post(lab, **CALLS, _meta={"progressToken": token})
        first, again = lab.exchanges(2)
    assert first.fingerprint == again.fingerprint and [first.call, again.call] == [1, 2]
    assert first.dialect == "mcp" and not first.of_model


def test_long_call_is_faulted(tmp_path):
    with lab_of(tmp_path) as (lab, _):
        lab.begin(faults=faults())
        assert post(lab, name="write_file", arguments={"content": "x" * 400_000}).status_code == 500
        assert lab.exchange().tool == "write_file"


def test_writing_tool_is_recorded_with_key(tmp_path):
    with lab_of(tmp_path, writes=("add_*",), key="request") as (lab, _):
        lab.begin()
        post(lab, name="add_order", arguments={"request": "r1"})
        post(lab, name="show_order", arguments={"request": "r1"})
        post(lab, "tools/list", name="add_order")
        written, other, listed = lab.exchanges(3)
    assert written.write and written.key == "r1"
    assert not (other.write or listed.write)


def test_tool_result_is_changed(tmp_path):
    with lab_of(tmp_path, STRUCTURED) as (lab, _):
        lab.begin(faults=faults(fault="wrong_value", **{"with": {"field": "celsius"}}))
        result = post(lab).json()["result"]
        hit = lab.exchange().faults[0]
    assert result["structuredContent"] == json.loads(result["content"][0]["text"])
    assert hit.injected and hit.content and hit.evidence["original"] == 21.5


def test_result_in_event_stream_is_changed(tmp_path):
    with lab_of(tmp_path, stream(PROGRESS, STRUCTURED)) as (lab, _):
        lab.begin(faults=faults(fault="wrong_value", **{"with": {"field": "celsius"}}))
        answer = post(lab)
        assert lab.exchange().faults[0].injected
    progress, response = answer.text.strip().split("\n\n")
    assert json.loads(progress.removeprefix("data: ")) == PROGRESS
    assert json.loads(response.removeprefix("data: "))["result"]["structuredContent"]["celsius"] != 21.5


def test_error_for_a_session_stream_is_not_injected(tmp_path):
    """HTTP+SSE answers a POST with 202, and the response comes on the session's GET."""
    with lab_of(tmp_path, json_reply(202, "Accepted")) as (lab, server):
        lab.begin(faults=faults(fault="tool_error"))
        call = requests.post(
            lab.url("files", "/messages/?session_id=5f"), mcp_request().body, timeout=PATIENCE_S
        )
        hit = lab.exchange().faults[0]
    assert (call.status_code, server.executed) == (202, 1)
    assert (hit.injected, hit.why_not) == (False, "answered_on_stream")


def test_response_comes_twice(tmp_path):
    with lab_of(tmp_path) as (lab, _):
        lab.begin(faults=faults(fault="duplicate_response"))
        answer = post(lab)
        assert lab.exchange().faults[0].injected
    assert answer.headers["content-type"] == "text/event-stream" and answer.text.count('"fine"') == 2


def test_clients_notification_is_lost(tmp_path):
    with lab_of(tmp_path) as (lab, server):
        lab.begin(faults=faults(fault="lost_notification"))
        assert post(lab, "notifications/initialized", x=1).status_code == 202
        assert server.executed == 0 and lab.exchange().faults[0].injected


@pytest.mark.parametrize("planted", [False, True])
def test_poisoned_description_needs_permission_in_wiring(tmp_path, planted):
    with lab_of(tmp_path, planted=planted) as (lab, _):
        body = lab.new_run(faults=faults(fault="poisoned_description"))
        answer = lab.control("PUT", "/lanes/0", body)
    assert answer.status_code == (200 if planted else 409), answer.text


def test_mcp_fault_needs_mcp_link(tmp_path):
    with gateway(tmp_path) as lab, pytest.raises(ValueError, match="on no link of this wiring"):
        lab.new_run(faults=faults(fault="tool_error"))
