"""Use three MCP servers over stdio, from a given mcp.json or from the environment.

The arguments are that file, or ``wired``, and a folder for such a file. The output is JSON: by server, the
number of its tools and the result of each call.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from mcp import Client, MCPError, StdioServerParameters

GIVEN = sys.argv[1]
FOLDER = str(Path(sys.argv[2], Path(GIVEN).stem))
TEA = {"name": "tea", "entityType": "drink", "observations": ["hot"]}
CREATE = ("create_directory", {"path": FOLDER})
CALLS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "filesystem": [CREATE, CREATE, ("list_directory", {"path": FOLDER})],
    "memory": [("create_entities", {"entities": [TEA]}), ("read_graph", {}), ("read_graph", {})],
    "everything": [("echo", {"message": "hello"}), ("get-sum", {"a": 1, "b": 2})],
}


def server(name: str) -> StdioServerParameters:
    if GIVEN != "wired":
        return StdioServerParameters(**json.loads(Path(GIVEN).read_text())["mcpServers"][name])
    command, *words = json.loads(os.environ[f"{name.upper()}_MCP_JSON"])
    return StdioServerParameters(command=command, args=words)


async def became(client: Client, tool: str, arguments: dict[str, Any]) -> str:
    try:
        got = await client.call_tool(tool, arguments, 60)
    except MCPError as error:
        return f"error {error.error.code}"
    return "tool error" if got.is_error else "good"


async def use(name: str) -> list[Any]:
    async with Client(server(name)) as client:
        tools = (await client.list_tools()).tools
        return [len(tools), *[await became(client, *call) for call in CALLS[name]]]


async def use_all() -> dict[str, list[Any]]:
    return dict(zip(CALLS, await asyncio.gather(*map(use, CALLS)), strict=True))


print(json.dumps(asyncio.run(use_all())))
