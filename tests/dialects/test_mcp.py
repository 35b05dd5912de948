"""MCP messages: recognised, hashed, built, and consistent with their headers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from wirefault.dialects.http import Request
from wirefault.dialects.mcp import (
    MCP,
    McpMessage,
    consistent,
    mcp_fingerprint,
    message_of,
    read_message,
    result_message,
)

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}


def call(id: Any = 1, name: str = "add", meta: dict[str, Any] | None = None, **arguments: Any) -> bytes:
    params = {"name": name, "arguments": arguments} | ({} if meta is None else {"_meta": meta})
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).encode()


def message(source: bytes) -> McpMessage:
    read = read_message(source)
    assert read is not None
    return read


def test_call_is_read():
    call_message = message(call(7, "add", {"progressToken": 3}, a=1))
    assert (call_message.kind, call_message.id, call_message.method) == ("request", 7, "tools/call")
    assert (call_message.name, call_message.arguments, call_message.progress_token) == ("add", {"a": 1}, 3)
    assert not call_message.stateless and message(call(meta=META)).stateless


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({"method": "ping", "id": 0}, "request"),
        ({"method": "notifications/initialized"}, "notification"),
        ({"id": 1, "result": {}}, "response"),
        ({"id": None, "error": {"code": -32700, "message": "no JSON"}}, "response"),
    ],
)
def test_kinds_of_messages(value, kind):
    read = message_of({"jsonrpc": "2.0", **value})
    assert read is not None and read.kind == kind


@pytest.mark.parametrize("source", [b"", b"{", b"[]", b"1", b'{"id": 1}', b'{"jsonrpc": "2.0"}', b"\xff"])
def test_non_message_is_none(source):
    assert read_message(source) is None


def test_fingerprint_ignores_id_and_meta():
    first = mcp_fingerprint("POST", "/mcp", call(1, meta={"progressToken": 1}, a=1, b=2))
    assert mcp_fingerprint("POST", "/mcp", call("x", meta=META, b=2, a=1)) == first
    assert mcp_fingerprint("POST", "/mcp", call(1, a=1, b=2)) == first
    assert mcp_fingerprint("POST", "/mcp", call(1, a=1, b=3)) != first


def test_response_has_protocol_version_of_request():
    assert result_message(message(call(4)), {"x": 1}) == {"jsonrpc": "2.0", "id": 4, "result": {"x": 1}}
    assert result_message(message(call(4, meta=META)), {})["result"] == {"resultType": "complete"}


def test_errors_are_json_rpc():
    body = MCP.error_body("rate_limit", "Too many requests")
    assert body["error"] == {"code": -32000, "message": "Too many requests", "data": {"type": "rate_limit"}}


STATELESS = Request((("Mcp-Method", "tools/call"), ("Mcp-Name", "add")), call(meta=META), "POST", "/mcp")


def test_changed_body_updates_headers():
    changed = consistent(STATELESS, replace(STATELESS, body=call(name="subtract", meta=META)))
    assert changed.header("mcp-name") == "subtract"


def test_changed_header_updates_body():
    headers = (("Mcp-Method", "tools/call"), ("Mcp-Name", "subtract"))
    changed = consistent(STATELESS, replace(STATELESS, headers=headers))
    assert message(changed.body).name == "subtract"


def test_session_request_keeps_its_headers():
    plain = Request((("Accept", "*/*"),), call(), "POST", "/mcp")
    changed = replace(plain, body=call(name="subtract"))
    assert consistent(plain, changed) == changed
