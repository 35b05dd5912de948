"""An MCP server over stdio that takes orders."""

import json
import sys

for line in sys.stdin:
    message = json.loads(line)
    text = {"type": "text", "text": "ordered"}
    results = {"initialize": {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}}}
    result = results.get(message["method"], {"content": [text]})
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
