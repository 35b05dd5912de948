"""Faults of MCP, over HTTP and over stdio."""

from __future__ import annotations

from wirefault.faults.base import Fault
from wirefault.faults.catalogue.mcp.answers import McpToolError, RpcError, UnknownSession
from wirefault.faults.catalogue.mcp.ends import EndedStream, ServerDeath
from wirefault.faults.catalogue.mcp.lines import GarbageLine, SplitLine
from wirefault.faults.catalogue.mcp.notifications import IgnoredCancel, LostNotification, SlowProgress
from wirefault.faults.catalogue.mcp.responses import DuplicateResponse, LateResponse, WrongId
from wirefault.faults.catalogue.mcp.tools import ChangedTools, PoisonedDescription

MCP_FAULTS: tuple[type[Fault], ...] = (
    McpToolError,
    RpcError,
    UnknownSession,
    LateResponse,
    DuplicateResponse,
    WrongId,
    EndedStream,
    ServerDeath,
    LostNotification,
    IgnoredCancel,
    SlowProgress,
    ChangedTools,
    PoisonedDescription,
    SplitLine,
    GarbageLine,
)
