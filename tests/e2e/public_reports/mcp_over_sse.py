"""An MCP client over the older HTTP+SSE transport: responses come on the stream of its GET."""

import json
import sys

import httpx

with httpx.stream("GET", sys.argv[1] + "/sse", timeout=30) as stream:
    data = (line[6:] for line in stream.iter_lines() if line.startswith("data: "))
    endpoint = sys.argv[1] + next(data)

    def ask(number, method, parameters):
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}
        httpx.post(endpoint, json=request, timeout=30).raise_for_status()
        return json.loads(next(data))

    ask(1, "initialize", {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "c"}})
    print("Saved:", ask(2, "tools/call", {"name": "add_note", "arguments": {"text": "buy milk"}})["result"])
