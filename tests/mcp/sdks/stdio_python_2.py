"""The same as ``stdio_python_1.py`` for Python's SDK 2."""

from __future__ import annotations

import asyncio
import json
import sys

from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client


async def follow(limit_s: float, words: list[str]) -> None:
    parameters = StdioServerParameters(command=words[0], args=words[1:])
    async with Client(stdio_client(parameters)) as client:
        for _ in range(2):
            try:
                got = await client.call_tool("echo", {"city": "Bern"}, limit_s)
                saw = {"error" if got.is_error else "text": got.content[0].text}
            except MCPError as error:
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
