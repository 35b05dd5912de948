"""Whether a request failed for the subject. Pure."""

from __future__ import annotations

from wirefault.dialects.mcp import read_message
from wirefault.experiments.bounds import Truth
from wirefault.judging.requests import Request


def has_failed(sent: Request) -> Truth:
    """By an error status, no whole reply, or a tool's error over MCP; None where that is not known."""
    if sent.reply_lost is None:
        return None
    if not sent.succeeded:
        return True
    exchange = sent.exchange
    if exchange is None or not exchange.tool:
        return False
    reply = None if exchange.reply_cut else read_message((exchange.reply_body or "").encode())
    if reply is not None:
        return reply.tool_answer == "error"
    # what the server itself had answered is known, but not what a fault made of it
    return None if any(met.injected and met.content for met in exchange.faults) else sent.tool_failed
