"""A link of MCP at the gateway: which messages faults strike, and what the record says of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.faults.catalogue.clients.upstream import Answering, answering
from tests.faults.catalogue.mcp.messages import PROGRESS, RESULT, asked, stream
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
    request = asked(method, headers, **params)
    given = {**dict(request.headers), "Content-Type": "application/json"}
    return requests.post(lab.url("files", "/mcp"), request.body, headers=given, timeout=PATIENCE_S)


def faults(**entry: Any) -> dict[str, Any]:
    return {"faults": [{"fault": "server_error", **entry}]}


CALLS = {"name": "add", "arguments": {}}


@pytest.mark.parametrize(
    ("only", "struck"),
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
def test_which_messages_a_fault_strikes(tmp_path, only, struck):
    with lab_of(tmp_path) as (lab, _):
        lab.begin(faults=faults(only=only))
        answers = {
            method: post(lab, method, **(CALLS if method == "tools/call" else {"x": 1})).status_code
            for method in ("initialize", "tools/list", "tools/call")
        }
        exchanges = lab.exchanges(3)
    assert [method for method, status in answers.items() if status == 500] == struck
    assert [exchange.message for exchange in exchanges if exchange.eligible] == struck
    assert [exchange.tool for exchange in exchanges] == ["", "", "add"]


def test_a_budget_counts_the_calls_of_tools_and_refuses_as_a_server_of_mcp(tmp_path):
    with lab_of(tmp_path) as (lab, _):
        lab.begin(budgets='{"episode": {"calls": 1}, "links": "tools"}')
        answers = [post(lab, "tools/list"), *(post(lab, **CALLS) for _ in range(2)), post(lab, "tools/list")]
        exchanges = lab.exchanges(6)
    assert [answer.status_code for answer in answers] == [200, 200, 429, 200]
    assert answers[2].json()["error"]["data"] == {"type": "quota"}
    struck = [met.id for e in exchanges if isinstance(e, Exchange) for met in e.faults]
    assert struck == ["budget:episode.calls"]


def test_calls_alone_are_counted(tmp_path):
    with lab_of(tmp_path) as (lab, _):
        lab.begin(faults=faults(when={"nth": 2}))
        statuses = [
            post(lab, m, **CALLS, n=n).status_code for n, m in enumerate(["initialize", *["tools/call"] * 3])
        ]
    assert statuses == [200, 200, 500, 200]


def test_a_call_is_the_same_call_whatever_its_id(tmp_path):
    with lab_of(tmp_path) as (lab, _):
        lab.begin()
        for token in (1, 2):
            post(lab, **CALLS, _meta={"progressToken": token})
        first, again = lab.exchanges(2)
    assert first.fingerprint == again.fingerprint and [first.call, again.call] == [1, 2]
    assert first.dialect == "mcp" and not first.of_model


def test_a_long_call_is_struck_too(tmp_path):
    with lab_of(tmp_path) as (lab, _):
        lab.begin(faults=faults())
        assert post(lab, name="write_file", arguments={"content": "x" * 400_000}).status_code == 500
        assert lab.exchange().tool == "write_file"


def test_a_tool_that_writes_is_recorded_as_a_write_with_its_key(tmp_path):
    with lab_of(tmp_path, writes=("add_*",), key="request") as (lab, _):
        lab.begin()
        post(lab, name="add_order", arguments={"request": "r1"})
        post(lab, name="show_order", arguments={"request": "r1"})
        post(lab, "tools/list", name="add_order")
        written, shown, listed = lab.exchanges(3)
    assert written.write and written.key == "r1"
    assert not (shown.write or listed.write)


def test_a_tools_result_is_changed_on_its_way(tmp_path):
    with lab_of(tmp_path, STRUCTURED) as (lab, _):
        lab.begin(faults=faults(fault="wrong_value", **{"with": {"field": "celsius"}}))
        result = post(lab).json()["result"]
        met = lab.exchange().faults[0]
    assert result["structuredContent"] == json.loads(result["content"][0]["text"])
    assert met.injected and met.content and met.evidence["original"] == 21.5


def test_a_result_in_an_event_stream_is_changed_on_its_way(tmp_path):
    with lab_of(tmp_path, stream(PROGRESS, STRUCTURED)) as (lab, _):
        lab.begin(faults=faults(fault="wrong_value", **{"with": {"field": "celsius"}}))
        answer = post(lab)
        assert lab.exchange().faults[0].injected
    progress, response = answer.text.strip().split("\n\n")
    assert json.loads(progress.removeprefix("data: ")) == PROGRESS
    assert json.loads(response.removeprefix("data: "))["result"]["structuredContent"]["celsius"] != 21.5


def test_a_response_comes_twice(tmp_path):
    with lab_of(tmp_path) as (lab, _):
        lab.begin(faults=faults(fault="duplicate_response"))
        answer = post(lab)
        assert lab.exchange().faults[0].injected
    assert answer.headers["content-type"] == "text/event-stream" and answer.text.count('"fine"') == 2


def test_a_clients_notification_is_lost(tmp_path):
    with lab_of(tmp_path) as (lab, server):
        lab.begin(faults=faults(fault="lost_notification"))
        assert post(lab, "notifications/initialized", x=1).status_code == 202
        assert server.executed == 0 and lab.exchange().faults[0].injected


@pytest.mark.parametrize("planted", [False, True])
def test_a_description_is_poisoned_only_where_the_wiring_allows_it(tmp_path, planted):
    with lab_of(tmp_path, planted=planted) as (lab, _):
        body = lab.new_run(faults=faults(fault="poisoned_description"))
        answer = lab.control("PUT", "/lanes/0", body)
    assert answer.status_code == (200 if planted else 409), answer.text


def test_a_fault_of_mcp_needs_a_link_of_mcp(tmp_path):
    with gateway(tmp_path) as lab, pytest.raises(ValueError, match="on no link of this wiring"):
        lab.new_run(faults=faults(fault="tool_error"))
