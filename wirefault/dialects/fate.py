"""Whether a request was carried out, by the server's answer. Gateway and judge read it from here. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from wirefault.dialects.mcp import ToolAnswer

Fate = Literal["executed", "refused", "maybe"]
FATES: tuple[Fate, ...] = ("executed", "maybe", "refused")
_BY_TOOL_ANSWER: Mapping[ToolAnswer, Fate] = {"result": "executed", "error": "refused", "": "maybe"}
_SEND_ELSEWHERE = frozenset({307, 308})  # the client sends the same request to another place


def fate_of(status: int | None, tool_answer: ToolAnswer | None = None) -> Fate:
    """The fate of a request, by the upstream's answer. ``tool_answer`` is None except for MCP tool calls.

    The fate of a completely forwarded request is *executed* if the upstream answered 2xx or 3xx, *refused*
    for 4xx, and *maybe* for 5xx or without an answer, whatever the caller saw. 307 and 308 ask the client to
    send the request to another URL, so they mean *refused*, too. The answer of an MCP tool decides for a
    status below 300: a result means *executed*, an error *refused*, an unreadable answer *maybe*.
    """
    if status is None or status >= 500:
        return "maybe"
    if status >= 400 or status in _SEND_ELSEWHERE:
        return "refused"
    return "executed" if tool_answer is None else _BY_TOOL_ANSWER[tool_answer]
