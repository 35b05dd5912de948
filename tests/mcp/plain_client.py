"""A subject without any SDK: starts the server that its environment names, and asks it for its prompt."""

import json
import os
import shlex
import subprocess
import sys

WORDS = json.loads(os.environ["FILES_MCP_JSON"])
assert shlex.split(os.environ["FILES_MCP"]) == WORDS
HANDED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
own = {name: os.environ[name] for name in HANDED if name in os.environ}
server = subprocess.Popen(WORDS, env=own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(id: int, method: str, **params: object) -> dict:
    message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
    server.stdin.write(json.dumps(message) + "\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())


ask(1, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "c", "version": "1"})
print(json.dumps(ask(2, "tools/call", name="echo", arguments={"said": sys.argv[1]})["result"]))
server.stdin.close()
sys.exit(server.wait())
