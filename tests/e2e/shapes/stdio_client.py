"""The shop as an MCP server over a pipe, each call repeated once. Arguments: model, server."""

import itertools
import json
import os
import subprocess
import sys

import httpx

MODEL, SERVER = sys.argv[1:]
PASSED_ON = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")  # as the SDKs do
environ = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
server = subprocess.Popen(
    ["python", SERVER], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
)
numbers = itertools.count(1)


def ask(method: str, **params: object) -> dict:
    id = next(numbers)
    server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}) + "\n")
    server.stdin.flush()
    for line in server.stdout:
        reply = json.loads(line)
        if reply.get("id") == id:
            return reply
    raise EOFError("the server closed its output")


def use(name: str, arguments: str) -> str:
    for _ in range(2):
        reply = ask("tools/call", name=name, arguments=json.loads(arguments))
        if "result" in reply and not reply["result"].get("isError"):
            return reply["result"]["content"][0]["text"]
    return json.dumps({"error": reply.get("error") or reply["result"]})


ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "c", "version": "1"})
messages = [{"role": "user", "content": "Order two mugs"}]
while True:
    body = {"model": "m", "messages": messages}
    reply = httpx.post(f"{MODEL}/chat/completions", json=body, timeout=5)
    message = reply.raise_for_status().json()["choices"][0]["message"]
    if not message.get("tool_calls"):
        break
    messages.append(message)
    for call in message["tool_calls"]:
        text = use(call["function"]["name"], call["function"]["arguments"])
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
print(message["content"] or "")
server.stdin.close()
sys.exit(server.wait())
