"""The server's own answer to an MCP tool call, recorded whatever faults did."""

from __future__ import annotations

import gzip
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.faults.catalogue.clients.upstream import answering
from tests.faults.catalogue.mcp.messages import PROGRESS, RESULT, mcp_request, stream
from tests.gateway.lab import Lab, gateway
from tests.support import PATIENCE_S
from tests.upstream import Upstream, requests_of
from wirefault.dialects.http import Reply, json_reply
from wirefault.history.events import Exchange
from wirefault.judging.oracle.wire_world import deliveries
from wirefault.judging.trace import episode_trace
from wirefault.judging.writes import write_counts
from wirefault.wiring.links import Link, Links

FAILED = {**RESULT, "result": {"content": [], "isError": True}}
RPC_ERROR = {"jsonrpc": "2.0", "id": 7, "error": {"code": -32603, "message": "no"}}
QUESTION = {**RESULT, "result": {"resultType": "input_required", "inputRequests": {}}}
ZIPPED = Reply((("Content-Encoding", "gzip"),), gzip.compress(json_reply(200, FAILED).body))


def server(url: str) -> Links:
    return Links([Link("files", upstream=f"{url}/mcp", dialect="mcp", writes=("add",))])


def call(lab: Lab, method: str = "tools/call") -> None:
    """Call the tool; a lost reply is fine here."""
    headers = {"Content-Type": "application/json"}
    with suppress(requests.RequestException):
        requests.post(lab.url("files", "/mcp"), mcp_request(method).body, headers=headers, timeout=PATIENCE_S)


def recorded(folder: Path, *replies: Reply, fault: dict[str, Any] | None = None) -> list[Exchange]:
    """The exchanges of one call for each reply of the server; the fault acts on the first."""
    with answering(*replies) as upstream, gateway(folder, links=server(upstream.address.url)) as lab:
        lab.begin(faults={"faults": [{"when": {"nth": 1}, **fault}] if fault else []})
        for _ in replies:
            call(lab)
        return list(lab.exchanges(len(replies)))


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (json_reply(200, RESULT), "result"),
        (json_reply(200, FAILED), "error"),
        (json_reply(200, RPC_ERROR), "error"),
        (json_reply(200, QUESTION), ""),
        (stream(PROGRESS, RESULT), "result"),
        (stream(PROGRESS, FAILED), "error"),
        (stream(PROGRESS), ""),
        (ZIPPED, "error"),
        (Reply(body=b"no message"), ""),
        (json_reply(200, {**RESULT, "padding": "x" * (5 << 20)}), ""),
    ],
    ids=[
        "json",
        "failed",
        "rpc",
        "question",
        "events",
        "failed_in_events",
        "none",
        "zipped",
        "text",
        "large",
    ],
)
def test_server_answer_is_recorded(tmp_path: Path, reply: Reply, answer: str) -> None:
    [exchange] = recorded(tmp_path, reply)
    assert (exchange.tool, exchange.tool_answer) == ("add", answer)


@pytest.mark.parametrize("after_response", [False, True], ids=["before", "after"])
def test_whole_response_in_broken_reply_counts(tmp_path: Path, after_response: bool) -> None:
    body = stream(RESULT).body if after_response else json_reply(200, RESULT).body[:-2]
    kind = b"text/event-stream" if after_response else b"application/json"

    def serve(connection: Any) -> None:
        for _ in requests_of(connection):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\nContent-Type: %b\r\n\r\n" % kind)
            connection.sendall(body)
            return

    with Upstream(serve) as upstream, gateway(tmp_path, links=server(upstream.address.url)) as lab:
        lab.begin()
        call(lab)
        exchange = lab.exchange()
    assert exchange.tool_answer == ("result" if after_response else "") and not exchange.reply_complete


@pytest.mark.parametrize(
    "fault",
    [
        {"fault": "lose_reply"},
        {"fault": "tool_error", "with": {"executed": True}},
        {"fault": "ended_stream"},
        {"fault": "truncate"},
    ],
    ids=lambda fault: fault["fault"],
)
@pytest.mark.parametrize(
    ("reply", "answer"),
    [(json_reply(200, RESULT), "result"), (stream(PROGRESS, FAILED), "error")],
    ids=["json", "events"],
)
def test_faulted_result_is_not_server_answer(
    tmp_path: Path, fault: dict[str, Any], reply: Reply, answer: str
) -> None:
    [exchange] = recorded(tmp_path, reply, fault=fault)
    assert exchange.faults[0].injected and exchange.tool_answer == answer


@pytest.mark.parametrize(("first", "executed"), [(FAILED, 1), (RESULT, 2)])
@pytest.mark.parametrize("form", [lambda message: json_reply(200, message), stream], ids=["json", "events"])
def test_lost_error_and_retry_are_one_execution(tmp_path: Path, form: Any, first: Any, executed: int) -> None:
    exchanges = recorded(tmp_path, form(first), form(RESULT), fault={"fault": "lose_reply"})
    assert [count.executed for count in write_counts(episode_trace(exchanges))] == [executed]


def test_each_copy_of_call_has_its_answer(tmp_path: Path) -> None:
    replies = json_reply(200, FAILED), json_reply(200, RESULT)
    with answering(*replies) as upstream, gateway(tmp_path, links=server(upstream.address.url)) as lab:
        lab.begin(faults={"faults": [{"fault": "duplicate_request"}]})
        call(lab)
        exchange = lab.exchange()
    assert [write.fate for write in deliveries(exchange)] == ["refused", "executed"]


def test_other_messages_name_no_tool(tmp_path: Path) -> None:
    reply = json_reply(200, RPC_ERROR)
    with answering(reply) as upstream, gateway(tmp_path, links=server(upstream.address.url)) as lab:
        lab.begin()
        call(lab, "tools/list")
        assert lab.exchange().tool_answer == ""
