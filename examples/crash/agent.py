"""Order through an MCP server; after a crash start anew, or continue.

The prompt says which: "kept" writes each step into a file and sends one order number in all of its tries.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

keeps, progress = "kept" in sys.argv[1], Path("progress.json")
steps = json.loads(progress.read_text()) if keeps and progress.exists() else {}
server = subprocess.Popen(
    json.loads(os.environ["SHOP_COMMAND_JSON"]), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
)


def send(method, **params):
    print(
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}),
        file=server.stdin,
        flush=True,
    )
    return json.loads(server.stdout.readline())["result"]


def step(name, **arguments):
    """Make the step's call, unless a process before this one noted its result."""
    if name not in steps:
        steps[name] = send("tools/call", name=name, arguments=arguments)["content"][0]["text"]
        progress.write_text(json.dumps(steps))
    return steps[name]


send(
    "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "crash", "version": "1"}
)
step("price", item="green tea")
number = {"order_id": "order-1"} if keeps else {}
print("done:", step("order", item="green tea", count=2, **number))
server.stdin.close()
server.wait()
