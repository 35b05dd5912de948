"""A client of Python's SDK 1 over stdio. Its arguments: the time limit of a call, and the server's words.

It says of each of two calls, as JSON, what it saw.
"""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import timedelta

from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client

LIMIT_S, WORDS = float(sys.argv[1]), sys.argv[2:]


async def main() -> None:
    parameters = StdioServerParameters(command=WORDS[0], args=WORDS[1:])
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        await session.initialize()
        for _ in range(2):
            try:
                got = await session.call_tool("echo", {"city": "Bern"}, timedelta(seconds=LIMIT_S))
                saw = {"error" if got.isError else "text": got.content[0].text}
            except McpError as error:
                saw = {"code": error.error.code}
            except Exception as error:  # noqa: BLE001  whatever a client raises is what it saw
                saw = {"exception": type(error).__name__}
            print(json.dumps(saw), flush=True)


try:
    asyncio.run(main())
except BaseException as error:  # noqa: BLE001  also what cancels all of it is what it saw
    print(json.dumps({"dies": type(error).__name__}), flush=True)
