"""The shop as an MCP server over standard input: it carries out what it is asked, as often as it is asked."""

import json
import sys

for line in sys.stdin:
    message = json.loads(line)
    params = message.get("params", {})
    if message["method"] == "initialize":
        info = {"name": "shop", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    else:
        text = "4.50 EUR" if params["name"] == "price" else f"ordered {params['arguments']['count']}"
        result = {"content": [{"type": "text", "text": text}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
