"""A server of MCP over HTTP on a given port, for sessions and for stateless requests, with Python's SDK."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

server = MCPServer("weather station", log_level="ERROR")
executed: list[str] = []


@server.tool()
def fine() -> str:
    """Says that all is well."""
    return "fine"


@server.tool()
def weather(city: str) -> dict[str, Any]:
    """Tells the weather of a city."""
    executed.append(city)
    return {"city": city, "celsius": 21.5}


@server.tool()
async def walk(steps: int, ctx: Context) -> str:
    """Walk a number of steps and report each."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps)
        await asyncio.sleep(0.05)
    return f"walked {steps} steps"


@server.tool()
def count() -> int:
    """How often the weather was asked for."""
    return len(executed)


if __name__ == "__main__":
    uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
