"""A shop as an MCP server over stdio. It keeps its orders in memory."""

from mcp.server import MCPServer

server = MCPServer("shop", log_level="ERROR")
orders: list[dict[str, object]] = []


@server.tool()
def order_item(item: str, count: int) -> dict[str, object]:
    """Order an item of the shop."""
    orders.append({"id": len(orders) + 1, "item": item, "count": count})
    return orders[-1]


if __name__ == "__main__":
    server.run("stdio")
