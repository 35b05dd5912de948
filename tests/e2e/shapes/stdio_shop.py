"""The shop as an MCP server over a pipe."""

import json
import sys

for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    if request["method"] == "initialize":
        info = {"name": "shop", "version": "1"}
        result: dict = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    elif request["method"] == "tools/list":
        price = {
            "name": "get_price",
            "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": True},
        }
        result = {"tools": [price, {"name": "place_order", "inputSchema": {"type": "object"}}]}
    else:
        text = '{"price": 4.5}' if request["params"]["name"] == "get_price" else '{"id": 1}'
        result = {"content": [{"type": "text", "text": text}]}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
