"""A client of the Python SDK 1. Each line of its input is JSON for one client: its url, limit_s and steps.

It prints, as JSON, the result of each step, and {} at the end.
"""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import timedelta
from typing import Any

from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client
from mcp.shared.exceptions import McpError

PATIENT_S = 60.0


def tell(step: str, **saw: Any) -> None:
    print(json.dumps({"step": step, **saw}), flush=True)


async def nothing(*progress: Any) -> None:
    """Takes a report of progress, so that the client asks for them."""


async def taken(session: ClientSession, step: str, limit_s: float) -> dict[str, Any]:
    if step == "list":
        tools = (await session.list_tools()).tools
        return {"tools": [[tool.name, tool.description, tool.inputSchema] for tool in tools]}
    arguments: dict[str, Any] = {"city": "Bern"} if step == "weather" else {}
    if step in ("walk", "cancel"):
        step, arguments = "walk", {"steps": 5}
    progress = nothing if step == "walk" else None
    limit = timedelta(seconds=PATIENT_S if step == "fine" else limit_s)
    got = await session.call_tool(step, arguments, limit, progress_callback=progress)
    return {"error" if got.isError else "text": got.content[0].text if got.content else ""}


async def follow(url: str, limit_s: float, steps: list[str]) -> None:
    async with streamablehttp_client(url) as (read, write, _), ClientSession(read, write) as session:
        await session.initialize()
        for step in steps:
            try:
                if step == "cancel":
                    tell(step, **await asyncio.wait_for(taken(session, step, limit_s), 0.1))
                else:
                    tell(step, **await taken(session, step, limit_s))
            except McpError as error:
                tell(step, code=error.error.code, message=error.error.message)
            except Exception as error:  # noqa: BLE001  whatever a client raises is what it saw
                tell(step, exception=type(error).__name__)


for line in sys.stdin:
    try:
        asyncio.run(follow(**json.loads(line)))
    except BaseException as error:  # noqa: BLE001  also what cancels all of it is what it saw
        tell("(client)", exception=type(error).__name__)
    print("{}", flush=True)
