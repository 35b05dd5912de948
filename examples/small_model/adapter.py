"""Give a small model tool calls that are always valid: ``python adapter.py http://127.0.0.1:8080/v1``.

Small models often write a tool call as text, in a code fence, or with arguments that the tool does not have.
This server stands between the client and an OpenAI-compatible server that constrains replies by a JSON Schema
(``response_format``: llama.cpp, Ollama, vLLM). It describes the tools in the system message, lets the model
write one JSON object of exactly one tool, and hands that to the client as a tool call. It uses only the
standard library.
"""

from __future__ import annotations

import hashlib
import json
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

MAX_NEW_TOKENS = 220
_ANSWER = "answer"
"""The name under which the model answers in words, where the client does not require a tool call."""


def constrained(body: Mapping[str, Any], max_tokens: int = MAX_NEW_TOKENS) -> dict[str, Any]:
    """Return the request without tools, with a schema that only calls of these tools satisfy."""
    tools = [tool["function"] for tool in body["tools"]]
    if body.get("tool_choice") in (None, "auto"):
        text = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        tools.append({"name": _ANSWER, "description": "Answer in words.", "parameters": text})
    lines = [
        "Reply with one call of one of these tools, in one line of JSON without spaces:",
        '{"name":"the tool","arguments":{...}}',
        *(json.dumps(tool, ensure_ascii=False, separators=(",", ":")) for tool in tools),
    ]
    changed = {
        name: value
        for name, value in body.items()
        if value is not None and name not in ("tools", "tool_choice", "parallel_tool_calls")
    }
    changed["messages"] = _as_text(body["messages"], "\n".join(lines))
    changed["max_tokens"] = min(int(body.get("max_tokens") or max_tokens), max_tokens)
    schema = {"anyOf": [_call_schema(tool) for tool in tools]}
    changed["response_format"] = {"type": "json_schema", "json_schema": {"name": "call", "schema": schema}}
    return changed


def _call_schema(tool: Mapping[str, Any]) -> dict[str, Any]:
    parameters = tool.get("parameters") or {"type": "object", "properties": {}}
    return {
        "type": "object",
        "properties": {"name": {"const": tool["name"]}, "arguments": parameters},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _as_text(messages: Sequence[Mapping[str, Any]], instruction: str) -> list[dict[str, str]]:
    """Return the conversation with calls and results as text, and the instruction in its system message."""
    written = []
    for message in messages:
        role, content = str(message["role"]), message.get("content") or ""
        if calls := message.get("tool_calls"):
            content = "\n".join(_call_text(call["function"]) for call in calls)
        if role == "tool":
            role, content = "user", f"Result of the call: {content}"
        written.append({"role": role, "content": str(content)})
    if not written or written[0]["role"] != "system":
        written.insert(0, {"role": "system", "content": ""})
    written[0]["content"] = f"{written[0]['content']}\n\n{instruction}".strip()
    return written


def _call_text(function: Mapping[str, Any]) -> str:
    call = {"name": function["name"], "arguments": json.loads(function["arguments"] or "{}")}
    return json.dumps(call, ensure_ascii=False, separators=(",", ":"))


def with_tool_call(reply: dict[str, Any]) -> dict[str, Any]:
    """Return the reply with the model's JSON as a tool call; unchanged if it was cut off."""
    choice = reply["choices"][0]
    text = choice["message"].get("content") or ""
    try:
        call = json.loads(text)
        name, arguments = str(call["name"]), call["arguments"]
    except (ValueError, LookupError, TypeError):
        return reply
    if name == _ANSWER:
        choice["message"] = {"role": "assistant", "content": str(arguments.get("text", ""))}
        return reply
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    identity = "call_" + hashlib.sha256(f"{reply.get('id')}{text}".encode()).hexdigest()[:16]
    choice["message"] = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": identity, "type": "function", "function": function}],
    }
    choice["finish_reason"] = "tool_calls"
    return reply


class Adapter(BaseHTTPRequestHandler):
    """Forwards each request to ``upstream``; requests with tools are constrained."""

    upstream = ""
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            body = json.loads(raw)
            has_tools = bool(body.get("tools"))
            raw = json.dumps(constrained(body)).encode() if has_tools else raw
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            return self._answer(400, _error(f"not a chat completion request: {error}"))
        if has_tools and body.get("stream"):
            return self._answer(400, _error("tool calls are not streamed: set STREAM=off"))
        self._forward(raw, has_tools)

    def do_GET(self) -> None:
        self._forward(None, has_tools=False)

    def _forward(self, body: bytes | None, has_tools: bool) -> None:
        # clients write /v1/chat/completions; the upstream's address has its own /v1
        url = self.upstream.rstrip("/") + self.path.removeprefix("/v1")
        headers = {"Content-Type": "application/json"}
        if key := self.headers.get("Authorization"):
            headers["Authorization"] = key
        try:
            with urlopen(Request(url, body, headers)) as reply:
                data = reply.read()
                if has_tools:
                    data = json.dumps(with_tool_call(json.loads(data))).encode()
                self._answer(reply.status, data)
        except HTTPError as error:
            self._answer(error.code, error.read())
        except (URLError, OSError) as error:
            self._answer(502, _error(f"cannot reach {self.upstream}: {error}"))

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *values: Any) -> None:
        """Print nothing."""


def _error(message: str) -> bytes:
    return json.dumps({"error": {"message": message, "type": "invalid_request_error"}}).encode()


def main() -> None:
    parser = ArgumentParser("adapter.py", description="Constrain a small model's tool calls.")
    parser.add_argument("upstream", help="the model server's address, such as http://127.0.0.1:8080/v1")
    parser.add_argument("--port", type=int, default=8090, help="port to listen on; default 8090")
    options = parser.parse_args()
    handler = type("ToUpstream", (Adapter,), {"upstream": options.upstream})
    server = ThreadingHTTPServer(("127.0.0.1", options.port), handler)
    print(f"MODEL_BASE_URL=http://127.0.0.1:{server.server_port}/v1", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main()
