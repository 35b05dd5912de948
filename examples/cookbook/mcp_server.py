"""The shop's tool as an MCP server over HTTP: python mcp_server.py PORT

It knows its sessions, as servers do that restart: an unknown one is a 404.
"""

import logging
import os
import sys
import uuid

import httpx
from flask import Flask, request

SHOP = os.environ.get("SHOP_URL", "http://127.0.0.1:9000")
app, sessions = Flask("mcp"), set()


@app.post("/mcp")
def message():
    body = request.get_json()
    method, params = body["method"], body.get("params", {})
    headers = {}
    if method == "initialize":
        headers["Mcp-Session-Id"] = uuid.uuid4().hex
        sessions.add(headers["Mcp-Session-Id"])
        info = {"name": "shop", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    elif request.headers.get("Mcp-Session-Id") not in sessions:
        return {"jsonrpc": "2.0", "id": None, "error": {"code": -32001, "message": "Session not found"}}, 404
    elif "id" not in body:
        return "", 202
    elif method == "tools/list":
        result = {"tools": [{"name": "order_item", "inputSchema": {"type": "object"}}]}
    else:
        order = httpx.post(f"{SHOP}/orders", json=params["arguments"]).raise_for_status()
        result = {"content": [{"type": "text", "text": order.text}]}
    return {"jsonrpc": "2.0", "id": body["id"], "result": result}, 200, headers


logging.getLogger("werkzeug").setLevel(logging.ERROR)
app.run(port=int(sys.argv[1]))
