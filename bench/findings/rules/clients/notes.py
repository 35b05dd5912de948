"""An agent with an MCP server, whose model selects the next tool.

notes.py PROMPT [OPTIONS]
"""

import itertools
import json
import os
import subprocess
import sys
from argparse import ArgumentParser

import httpx
from openai import OpenAI

parser = ArgumentParser()
parser.add_argument("prompt")
parser.add_argument("--tries", type=int, default=1, help="tries of a call, by the client")
parser.add_argument("--new-session", action="store_true", help="begin a new session if the old one is lost")
parser.add_argument("--second", action="store_true", help="ask the spare server if the first one fails")
parser.add_argument("--fail", action="store_true", help="end with an error if a call fails")
parser.add_argument("--timeout", type=float, default=30)
parser.add_argument("--key", action="store_true", help="send the note with an id")
parser.add_argument("--stdio", action="store_true", help="start the server as a program")
parser.add_argument(
    "--print-result", default="", help="print the tool's result instead of the model's answer"
)
options = parser.parse_args([word.replace("~", " ") for word in sys.argv[1:]])
ids = itertools.count(1)


class Server:
    """A session with a server over HTTP."""

    def __init__(self, variable):
        self.url, self.session = os.environ[variable], None

    def send(self, method, params=None, notify=False):
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        if not notify:
            message["id"] = next(ids)
        headers = {"Accept": "application/json, text/event-stream"}
        if self.session:
            headers["Mcp-Session-Id"] = self.session
        reply = httpx.post(f"{self.url}/mcp", json=message, headers=headers, timeout=options.timeout)
        reply.raise_for_status()
        self.session = reply.headers.get("Mcp-Session-Id", self.session)
        if notify:
            return None
        value = reply.json()
        if "error" in value:
            raise httpx.HTTPError(value["error"]["message"])
        return value["result"]

    def begin(self):
        self.session = None
        client = {"name": "notes", "version": "1"}
        self.send("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
        self.send("notifications/initialized", notify=True)

    def call(self, name, arguments):
        result = self.send("tools/call", {"name": name, "arguments": arguments})
        text = " ".join(part["text"] for part in result["content"])
        return f"Error: {text}" if result.get("isError") else text


def call(server, name, arguments):
    for left in reversed(range(options.tries)):
        try:
            return server.call(name, arguments)
        except httpx.HTTPStatusError as error:
            if error.response.status_code == 404 and options.new_session:
                server.begin()
            elif not left:
                raise
        except httpx.HTTPError:
            if not left:
                raise
            if options.new_session:
                server.begin()
    return server.call(name, arguments)


class Program(Server):
    """A session with a server over stdio, which ``begin`` starts."""

    def __init__(self, variable):
        self.words = json.loads(os.environ[variable])

    def send(self, method, params=None, notify=False):
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        if not notify:
            message["id"] = next(ids)
        try:
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()
            line = "" if notify else self.process.stdout.readline()
        except OSError:
            line = ""
        if notify:
            return None
        if not line:
            raise httpx.ReadError("the server has ended")
        value = json.loads(line)
        if "error" in value:
            raise httpx.HTTPError(value["error"]["message"])
        return value["result"]

    def begin(self):
        self.process = subprocess.Popen(self.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        super().begin()


first = Program("FILES_MCP_JSON") if options.stdio else Server("NOTES_URL")
first.begin()
tools = [
    {"type": "function", "function": {"name": each["name"], "parameters": each["inputSchema"]}}
    for each in first.send("tools/list")["tools"]
]
tools.append({"type": "function", "function": {"name": "place_order", "parameters": {"type": "object"}}})
model, messages = OpenAI(max_retries=0), [{"role": "user", "content": options.prompt}]
last_result = ""
for _ in range(9):
    reply = model.chat.completions.create(model="gpt-5", messages=messages, tools=tools).choices[0].message
    messages.append(reply.model_dump(include={"role", "content", "tool_calls"}, exclude_none=True))
    if not reply.tool_calls:
        print(
            options.print_result.replace("{result}", last_result) if options.print_result else reply.content
        )
        break
    for each in reply.tool_calls:
        name, arguments = each.function.name, json.loads(each.function.arguments)
        try:
            if name == "place_order":
                posted = httpx.post(f"{os.environ['SHOP_URL']}/orders", json=arguments)
                text = posted.text
            else:
                text = call(first, name, arguments)
        except httpx.HTTPError as error:
            if options.fail:
                raise
            text = f"Error: {type(error).__name__}: {error}"
            if options.second:
                second = Server("SPARE_URL")
                second.begin()
                text = second.call(name, arguments)
        messages.append({"role": "tool", "tool_call_id": each.id, "content": text})
        last_result = text
