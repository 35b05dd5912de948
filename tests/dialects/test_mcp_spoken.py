"""Recognizing MCP requests without a declaration."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wirefault.dialects.mcp import has_mcp_header, is_mcp_message


def body(method: str, version: str = "2.0", **params: Any) -> bytes:
    return json.dumps({"jsonrpc": version, "id": 1, "method": method, "params": params}).encode()


@pytest.mark.parametrize(
    ("line", "tells"),
    [
        (b"MCP-Protocol-Version: 2025-11-25", True),
        (b"mcp-session-id:abc", True),
        (b"mcp-session: abc", False),
        (b"X-Mcp-Session-Id: abc", False),
        (b"Max-Forwards: 1", False),
        (b"", False),
    ],
)
def test_mcp_client_header_is_recognised(line: bytes, tells: bool) -> None:
    assert has_mcp_header([b"POST /mcp HTTP/1.1", b"Host: x", line]) is tells


@pytest.mark.parametrize(
    "message",
    [
        body("initialize", protocolVersion="2024-11-05", capabilities={}),
        body("tools/call", name="add", arguments={}),
        body("tools/list"),
        body("server/discover"),
        b'{"jsonrpc": "2.0", "method": "notifications/initialized"}',
    ],
)
def test_mcp_method_is_recognised(message: bytes) -> None:
    assert is_mcp_message(message)


@pytest.mark.parametrize(
    "other",
    [
        body("initialize", processId=1, rootUri=None, capabilities={}),  # of a language server
        body("tasks/get", id="t1"),  # of an agent called by A2A
        body("eth_call", to="0x0"),
        body("ping"),
        body("tools/call", version="1.0", name="add"),
        b'{"jsonrpc": "2.0", "id": 1, "result": {"content": []}}',
        b'[{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}]',
        b'{"method": "tools/call", "params": {"name": "add"}}',
        b'"jsonrpc"',
        b"",
    ],
)
def test_plain_json_is_not_mcp(other: bytes) -> None:
    assert not is_mcp_message(other)
