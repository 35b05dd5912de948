"""A server of MCP over HTTP on a given port, whose tool asks the client before it orders."""

from __future__ import annotations

import sys
from typing import Annotated

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Elicit, Resolve
from pydantic import BaseModel

server = MCPServer("shop", log_level="ERROR")
ordered: list[str] = []


class Confirmation(BaseModel):
    sure: bool


def ask() -> Elicit[Confirmation]:
    return Elicit("Order it?", Confirmation)


@server.tool()
def order(item: str, answer: Annotated[Confirmation, Resolve(ask)]) -> str:
    """Orders an item."""
    ordered.append(item)
    return f"ordered {item}: {answer.sure}"


@server.tool()
def count() -> int:
    """How many orders there are."""
    return len(ordered)


if __name__ == "__main__":
    uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
