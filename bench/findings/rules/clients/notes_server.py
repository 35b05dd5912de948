"""An MCP server over stdio with the same tools as the HTTP server."""

import json
import sys

TOOLS = {"add_note": "added", "count_notes": "3 notes", "find_note": "no such note"}


def result(method, params):
    if method == "initialize":
        info = {"name": "notes", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {
            "tools": [
                {
                    "name": name,
                    "inputSchema": {"type": "object"},
                    "annotations": {"readOnlyHint": name != "add_note"},
                }
                for name in TOOLS
            ]
        }
    content = [{"type": "text", "text": TOOLS[params["name"]]}]
    return {"content": content, "isError": params["name"] == "find_note"}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        value = result(message["method"], message["params"])
        reply = {"jsonrpc": "2.0", "id": message["id"], "result": value}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()
