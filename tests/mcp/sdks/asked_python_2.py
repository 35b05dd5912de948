"""A client of the Python SDK 2 that answers a server's question.

It prints, as JSON, its view of the order, and the number of orders.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from mcp import Client, MCPError
from mcp.types import ElicitResult


async def answer(*_: Any) -> ElicitResult:
    return ElicitResult(action="accept", content={"sure": True})


async def main(url: str, limit_s: float) -> None:
    async with Client(url, elicitation_callback=answer) as client:
        try:
            got = await client.call_tool("order", {"item": "tea"}, limit_s)
            saw = got.content[0].text
        except MCPError as error:
            saw = f"error {error.error.code}"
        count = await client.call_tool("count", {}, limit_s)
        print(json.dumps({"saw": saw, "orders": int(count.content[0].text)}))


asyncio.run(main(sys.argv[1], float(sys.argv[2])))
