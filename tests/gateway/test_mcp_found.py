"""Found links: MCP is recognised per request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import requests

from tests.faults.catalogue.clients.upstream import Answering, answering
from tests.faults.catalogue.mcp.messages import RESULT
from tests.gateway.lab import Lab, gateway
from tests.support import PATIENCE_S
from wirefault.dialects.http import json_reply
from wirefault.wiring.links import Link, Links

SESSION = {"MCP-Protocol-Version": "2025-11-25"}


@contextmanager
def lab_of(folder: Path) -> Iterator[tuple[Lab, Answering]]:
    """A lab with one link that was found, whose server gives the same result to everything."""
    with ExitStack() as stack:
        server = stack.enter_context(answering(json_reply(200, RESULT)))
        link = Link("port", server.address.url, found=True)
        yield stack.enter_context(gateway(folder, links=Links([link]))), server


def post(lab: Lab, method: str, headers: dict[str, str] | None = None, **params: Any) -> requests.Response:
    message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    lines = {"Content-Type": "application/json", **(headers or {})}
    return requests.post(lab.url("port", "/mcp"), json.dumps(message), headers=lines, timeout=PATIENCE_S)


def armed(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"faults": list(entries)}


def test_mcp_fault_acts_on_mcp_calls_only(tmp_path: Path) -> None:
    with lab_of(tmp_path) as (lab, _):
        lab.begin(faults=armed({"fault": "tool_error"}))
        assert post(lab, "tools/call", name="add").json()["result"]["isError"] is True
        assert "isError" not in post(lab, "add", a=1).json()["result"]
        assert "isError" not in post(lab, "ping", SESSION).json()["result"]
        requests.get(lab.url("port", "/health"), timeout=PATIENCE_S)
        call, rpc, ping, plain = lab.exchanges(4)
    assert [fault.injected for fault in call.faults] == [True]
    assert [each.dialect for each in (call, rpc, ping, plain)] == ["mcp", "http", "mcp", "http"]
    assert [each.message for each in (call, rpc, ping, plain)] == ["tools/call", "", "ping", ""]
    assert not (rpc.eligible or ping.eligible or plain.eligible)


def test_fault_acts_on_named_tool(tmp_path: Path) -> None:
    with lab_of(tmp_path) as (lab, server):
        lab.begin(faults=armed({"fault": "server_error", "only": {"tool": "add"}}))
        assert post(lab, "tools/call", name="subtract").status_code == 200
        assert post(lab, "tools/call", name="add").status_code == 500
        other, faulted = lab.exchanges(2)
    assert server.executed == 1 and (other.tool, other.tool_answer) == ("subtract", "result")
    assert faulted.tool == "add" and faulted.eligible == ["server_error"]


def test_record_without_fault_has_mcp_fields(tmp_path: Path) -> None:
    with lab_of(tmp_path) as (lab, _):
        lab.begin()
        for token in (1, 2):
            post(lab, "tools/call", name="add", _meta={"progressToken": token})
        first, again = lab.exchanges(2)
    assert (first.dialect, first.message, first.tool, first.tool_answer) == (
        "mcp",
        "tools/call",
        "add",
        "result",
    )
    assert first.fingerprint == again.fingerprint and [first.call, again.call] == [1, 2]


def test_long_call_in_session_is_faulted(tmp_path: Path) -> None:
    with lab_of(tmp_path) as (lab, _):
        lab.begin(faults=armed({"fault": "tool_error"}))
        answer = post(lab, "tools/call", SESSION, name="write", arguments={"text": "x" * 400_000})
        assert answer.json()["result"]["isError"] is True
