"""A client of the Python SDK 1 over stdio. Each line of its input is JSON for one client: limit_s and words.

``limit_s``: the time limit of a call; ``words``: the server's command. It prints, as JSON, the result of each
of two calls, and {} at the end.
"""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import timedelta

from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client


async def follow(limit_s: float, words: list[str]) -> None:
    parameters = StdioServerParameters(command=words[0], args=words[1:])
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        await session.initialize()
        for _ in range(2):
            try:
                got = await session.call_tool("echo", {"city": "Bern"}, timedelta(seconds=limit_s))
                saw = {"error" if got.isError else "text": got.content[0].text}
            except McpError as error:
                saw = {"code": error.error.code}
            except Exception as error:  # noqa: BLE001  whatever a client raises is what it saw
                saw = {"exception": type(error).__name__}
            print(json.dumps(saw), flush=True)


for line in sys.stdin:
    try:
        asyncio.run(follow(**json.loads(line)))
    except BaseException as error:  # noqa: BLE001  also what cancels all of it is what it saw
        print(json.dumps({"dies": type(error).__name__}), flush=True)
    print("{}", flush=True)
