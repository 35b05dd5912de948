"""The MCP server restarts and knows no old session: every later call fails."""

import itertools
import os
import sys

import httpx
from loop import TOOLS, converse
from openai import OpenAI

MENDED = sys.argv[1:] == ["mended"]
MCP = os.environ.get("MCP_URL", "http://127.0.0.1:9001/mcp")
client, ids, session = OpenAI(), itertools.count(1), {}


def ask(messages):
    reply = client.chat.completions.create(model="gpt-5-mini", messages=messages, tools=TOOLS)
    return reply.choices[0].message


def send(method, params, **more):
    body = {"jsonrpc": "2.0", "method": method, "params": params, **more}
    accepts = {"Accept": "application/json, text/event-stream"}
    return httpx.post(MCP, json=body, headers={**accepts, **session}, timeout=5)


def connect():
    session.clear()
    info = {"name": "cookbook", "version": "1"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
    reply = send("initialize", hello, id=next(ids)).raise_for_status()
    session["Mcp-Session-Id"] = reply.headers["Mcp-Session-Id"]
    send("notifications/initialized", {})


def order_item(item, count):
    call = {"name": "order_item", "arguments": {"item": item, "count": count}}
    reply = send("tools/call", call, id=next(ids))
    if reply.status_code == 404 and MENDED:
        # mended: 404 says that the session has ended and the call was not carried out, so both are repeated
        connect()
        reply = send("tools/call", call, id=next(ids))
    return reply.raise_for_status().json()["result"]["content"][0]["text"]


connect()
print(converse(ask, order_item))
