"""Whether a request is one of MCP, where nobody has said what its server speaks. Pure.

Its headers tell, or else its body: the requests before a session have no header of MCP's, nor have any of the
oldest clients'. A method that other protocols over JSON-RPC have, too, tells nothing without a header: `ping`
is anybody's, `initialize` also that of language servers, and `tasks/get` also that of agents (A2A).
"""

from __future__ import annotations

from collections.abc import Iterable

from wirefault.dialects.mcp import CALL, CANCELLED, INITIALIZE, LIST, PROGRESS, SESSION_HEADER, read_message

VERSION_HEADER = "mcp-protocol-version"
_HEADERS = tuple(f"{name}:".encode() for name in (VERSION_HEADER, SESSION_HEADER))
_FIRST_LETTERS = (b"m", b"M")
_OWN_METHODS = frozenset(
    (
        *(CALL, LIST, "prompts/list", "prompts/get", "completion/complete", "logging/setLevel"),
        *("resources/list", "resources/templates/list", "resources/read"),
        *("resources/subscribe", "resources/unsubscribe", "server/discover", "subscriptions/listen"),
        *("notifications/initialized", "notifications/roots/list_changed", CANCELLED, PROGRESS),
    )
)


def has_mcp_header(lines: Iterable[bytes]) -> bool:
    """Whether one of the lines of a request's header block is a header that only MCP's clients send."""
    return any(line[:1] in _FIRST_LETTERS and line.lower().startswith(_HEADERS) for line in lines)


def is_mcp_message(body: bytes) -> bool:
    """Whether the body is one JSON-RPC 2.0 message whose method is MCP's own."""
    message = read_message(body) if b'"jsonrpc"' in body else None
    if message is None or message.value["jsonrpc"] != "2.0":
        return False
    if message.method == INITIALIZE:
        return isinstance(message.params.get("protocolVersion"), str)
    return message.method in _OWN_METHODS
