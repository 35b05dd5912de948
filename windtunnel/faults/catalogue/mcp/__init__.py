"""Faults of MCP, over HTTP and over stdio."""

from __future__ import annotations

from windtunnel.faults.base import Fault
from windtunnel.faults.catalogue.mcp.answers import McpToolError, RpcError, UnknownSession
from windtunnel.faults.catalogue.mcp.ends import EndedStream, ServerDeath
from windtunnel.faults.catalogue.mcp.lines import GarbageLine, SplitLine
from windtunnel.faults.catalogue.mcp.notifications import IgnoredCancel, LostNotification, SlowProgress
from windtunnel.faults.catalogue.mcp.responses import DuplicateResponse, LateResponse, WrongId
from windtunnel.faults.catalogue.mcp.tools import ChangedTools, PoisonedDescription

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
