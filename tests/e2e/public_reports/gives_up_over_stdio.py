"""Orders by a tool over stdio, waits 2 s for each response, and cancels nothing when it calls again."""

import json
import os
import queue
import subprocess
import threading

WORDS = json.loads(os.environ["SHOP_MCP_JSON"])
server = subprocess.Popen(WORDS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
responses = queue.Queue()
threading.Thread(target=lambda: [responses.put(json.loads(line)) for line in server.stdout]).start()


def ask(id, method, **params):
    message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
    server.stdin.write(json.dumps(message) + "\n")
    server.stdin.flush()
    while True:
        response = responses.get(timeout=2 if id > 1 else 60)
        if response["id"] == id:
            return response["result"]


ask(1, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "c", "version": "1"})
for id in (2, 3, 4):
    try:
        print(ask(id, "tools/call", name="order", arguments={"item": "tea"})["content"][0]["text"])
        break
    except queue.Empty:
        print("again")
server.stdin.close()
server.wait()
