"""Tries of MCP and their replies, without a gateway."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.faults.tries import a_try
from tests.support import replace
from wirefault.dialects.http import (
    Reply,
    ReplyInPieces,
    Request,
    Step,
    data_of,
    json_reply,
    split_events,
    write_event,
)
from wirefault.faults.base import Act, Changed, Miss, Try
from wirefault.faults.plan import act_of
from wirefault.faults.registry import REGISTRY

STATELESS = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
PROGRESS = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 7}}
RESULT = {"jsonrpc": "2.0", "id": 7, "result": {"content": [{"type": "text", "text": "fine"}]}}
TOOLS = [
    {"name": "add", "description": "Adds.", "inputSchema": {"properties": {"a": {"type": "integer"}}}},
    {"name": "ask", "inputSchema": {"type": "object"}},
]
LISTED = {"jsonrpc": "2.0", "id": 7, "result": {"tools": TOOLS}}


def mcp_request(method: str = "tools/call", headers: dict[str, str] | None = None, **params: Any) -> Request:
    """A request, or a notification if its method is one."""
    id = {} if method.startswith("notifications/") else {"id": 7}
    body = {"jsonrpc": "2.0", **id, "method": method, "params": params or {"name": "add", "arguments": {}}}
    return Request(tuple((headers or {}).items()), json.dumps(body).encode(), "POST", "/mcp")


def mcp_try(request: Request | None = None, *, lines: bool = False, **fields: Any) -> Try:
    return replace(a_try(dialect="mcp", request=request or mcp_request(), **fields), lines=lines)


def done_by(name: str, tried: Try | None = None, **parameters: Any) -> Act | Miss | None:
    return act_of(REGISTRY[name](**parameters), tried or mcp_try())


def act(name: str, tried: Try | None = None, **parameters: Any) -> Act:
    made = done_by(name, tried, **parameters)
    assert isinstance(made, Act), made
    return made


def stream(*messages: Any) -> Reply:
    return Reply((("Content-Type", "text/event-stream"),), b"".join(map(write_event, messages)))


def made_of(made: Act, reply: Reply | Any = RESULT) -> Reply | ReplyInPieces | Miss:
    """The fault's effect on that reply (or of that message, as a reply of JSON)."""
    assert made.reply is not None
    changed = made.reply(reply if isinstance(reply, Reply) else json_reply(200, reply))
    return changed.reply if isinstance(changed, Changed) else changed


def messages_in(reply: object) -> list[Any]:
    """The messages and the seconds of an event stream."""
    assert isinstance(reply, ReplyInPieces) and reply.head is not None and reply.length is None
    assert reply.head.is_event_stream
    return messages_of(reply.pieces)


def messages_of(steps: Sequence[Step]) -> list[Any]:
    parts: list[Any] = []
    for step in steps:
        if isinstance(step, bytes):
            parts += [json.loads(data) for event in split_events(step) if (data := data_of(event).strip())]
        else:
            parts.append(step)
    return parts
