"""Decodes each piece that it reads from the network separately."""

import json
import re
import socket
import sys
from urllib.parse import urlsplit

address = urlsplit(sys.argv[1])
body = json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": "weather?"}]})
head = f"POST /v1/chat/completions HTTP/1.0\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
with socket.create_connection((address.hostname, address.port)) as connection:
    connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
    text = ""
    while piece := connection.recv(65536):
        text += piece.decode("utf-8", "replace")
for event in re.findall(r"data: (\{.*?\})\n\n", text, re.DOTALL):
    print(json.loads(event)["choices"][0]["delta"].get("content", ""), end="")
