"""An MCP server of thirty lines, for tests. The tool's name selects its behaviour.

``slow`` answers after ``seconds``, ``die`` kills its process, ``env`` returns a variable, ``pid`` its process
id; any other tool returns its arguments. Each call of ``write`` is a line in the ``file``.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path


def call(name: str, arguments: dict) -> str:
    if name == "slow":
        time.sleep(arguments["seconds"])
    if name == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "write":
        with Path(arguments["file"]).open("a") as file:
            file.write("written\n")
    texts = {"env": lambda: os.environ.get(arguments["name"], ""), "pid": lambda: str(os.getpid())}
    return texts.get(name, lambda: json.dumps(arguments))()


def result(method: str, params: dict) -> dict:
    if method == "initialize":
        info = {"name": "plain", "version": "1"}
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": info,
        }
    if method == "tools/list":
        return {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
    if method != "tools/call":
        raise LookupError(method)
    return {"content": [{"type": "text", "text": call(params["name"], params.get("arguments", {}))}]}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        reply = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            reply["result"] = result(message["method"], message.get("params", {}))
        except LookupError as error:
            reply["error"] = {"code": -32601, "message": f"Method not found: {error}"}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()
sys.stderr.write("bye\n")
