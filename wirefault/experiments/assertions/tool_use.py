"""The tool calls of an episode: by the subject's own record, or as the wire and the model show them. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wirefault.dialects.base import ModelReply
from wirefault.dialects.http import split_events
from wirefault.dialects.json_values import as_text
from wirefault.dialects.mcp import read_message
from wirefault.dialects.registry import MODEL_DIALECTS
from wirefault.history.events import Exchange, ToolCalled
from wirefault.judging.requests import Identified, Request


@dataclass(frozen=True)
class ToolUse:
    """One logical call of a tool. ``arguments``: None where they are not known."""

    tool: str
    arguments: Mapping[str, Any] | None
    start: float
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class ToolUses:
    """In the order in which they were made. ``gap``: why there may be others, empty if there are none.

    ``of_mcp``: the tools that servers of MCP offer, or were called for, to which that gap does not apply.
    ``unseen``: why there may be calls of any tool that nobody saw.
    """

    uses: Sequence[ToolUse]
    gap: str = ""
    of_mcp: frozenset[str] = frozenset()
    unseen: str = ""

    def gap_of(self, *tools: str) -> str:
        """Why there may be other calls of one of these."""
        return self.unseen or ("" if self.of_mcp.issuperset(tools) else self.gap)


def recorded_uses(calls: Sequence[Identified[ToolCalled]]) -> ToolUses:
    """Of a subject that records its calls."""
    return ToolUses([ToolUse(c.event.tool, c.event.arguments, c.event.t, (c.id,)) for c in calls])


def seen_uses(sent: Sequence[Request], *, has_model: bool) -> ToolUses:
    """Of any other: the calls of MCP that came to the gateway, and of other tools what the model asked for.

    What is neither called over MCP nor asked for by a model on a link of the wiring nobody has seen.
    """
    over_mcp = [use for request in sent for use in _over_mcp(request)]
    of_mcp = frozenset(use.tool for use in over_mcp).union(*map(_offered, sent))
    asked: list[ToolUse] = []
    gap = "" if has_model else "no link of the wiring leads to a model, which would ask for tools"
    for request in sent:
        if not request.of_model or not request.succeeded:
            continue
        reply = _reply_of(request.exchange) if request.exchange else None
        if reply is None:
            gap = "not every reply of the model is in the history (BODIES)"
            continue
        asked += [
            ToolUse(call.name, call.values(), request.end, request.ids)
            for call in reply.calls
            if call.name not in of_mcp
        ]
    return ToolUses(sorted([*over_mcp, *asked], key=lambda use: use.start), gap, of_mcp)


def _over_mcp(request: Request) -> Iterator[ToolUse]:
    """The call that the request is, unless it repeats one that failed on its way."""
    exchange = request.exchange
    if exchange is not None and exchange.tool and exchange.try_ == 1:
        body = None if exchange.request_cut else exchange.request_body
        message = read_message(body.encode()) if body else None
        arguments = message.arguments if message else None
        yield ToolUse(exchange.tool, arguments, request.start, request.ids)


def _offered(request: Request) -> Iterator[str]:
    """The tools that a server of MCP has named."""
    exchange = request.exchange
    if exchange is not None and exchange.message == "tools/list" and not exchange.reply_cut:
        message = read_message((exchange.reply_body or "").encode())
        yield from (as_text(tool.get("name")) for tool in (message.tools if message else ()))


def _reply_of(exchange: Exchange) -> ModelReply | None:
    """What the model replied, None where that is not in the history whole or cannot be read."""
    dialect = MODEL_DIALECTS.get(exchange.dialect)
    if exchange.reply_cut or not exchange.reply_body or dialect is None:
        return None
    try:
        if exchange.reply_body.lstrip().startswith("{"):
            body = json.loads(exchange.reply_body)
        else:
            body = dialect.collect(split_events(exchange.reply_body.encode()))
        return dialect.read_reply(body)
    except (ValueError, RecursionError):  # a body that is no reply of that API, or was changed into none
        return None
