"""Faults of MCP, over HTTP and stdio."""

from __future__ import annotations

from wirefault.faults.base import Fault
from wirefault.faults.catalogue.mcp.answers import McpToolError, RpcError, UnknownSession
from wirefault.faults.catalogue.mcp.messages import (
    GarbageLine,
    IgnoredCancel,
    LostNotification,
    SlowProgress,
    SplitLine,
)
from wirefault.faults.catalogue.mcp.responses import (
    ChangedTools,
    DuplicateResponse,
    EndedStream,
    LateResponse,
    LostInterimResult,
    PoisonedDescription,
    RetriedOriginal,
    ServerDeath,
    WrongId,
)

MCP_FAULTS: tuple[type[Fault], ...] = (
    McpToolError,
    RpcError,
    UnknownSession,
    LateResponse,
    DuplicateResponse,
    WrongId,
    EndedStream,
    LostInterimResult,
    RetriedOriginal,
    ServerDeath,
    LostNotification,
    IgnoredCancel,
    SlowProgress,
    ChangedTools,
    PoisonedDescription,
    SplitLine,
    GarbageLine,
)
