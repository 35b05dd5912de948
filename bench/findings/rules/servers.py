"""The servers of the cases: a shop, an MCP server with notes, and a model with fixed replies."""

from __future__ import annotations

import itertools
import json
import logging
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from flask import Flask, Response, request
from werkzeug.serving import make_server

from bench.asgi_server import serve
from bench.findings.rules.cases import CLIENTS, Case
from wirefault.core.sockets import LOOPBACK
from wirefault.dialects.conversation import content_text
from wirefault.model_server.decide import Persona
from wirefault.model_server.playbooks import Answer, Decision, PlannedCall
from wirefault.model_server.server import create_app

_PROGRAM = CLIENTS / "notes_server.py"
Reply = tuple[Any, int] | tuple[Any, int, dict[str, str]]


def shop_app() -> Flask:
    """Return a shop that executes every request, except a repeated Idempotency-Key or ``order_id``."""
    app = Flask("shop")
    known: dict[str, int] = {}
    numbers = itertools.count(1)
    polls: dict[str, int] = {}
    lock = threading.Lock()

    @app.post("/orders")
    @app.post("/orders/express")
    @app.post("/charges")
    @app.post("/search")
    @app.post("/oauth/token")
    @app.post("/v1/traces")
    @app.post("/sessions")
    @app.post("/log")
    def write() -> Reply:
        body = request.get_json(silent=True) or {}
        key = request.headers.get("Idempotency-Key") or body.get("order_id") or ""
        with lock:
            number = known.get(key) or next(numbers)
            if key:
                known[key] = number
        return {"number": number, "error": None, **body}, 201

    @app.post("/slow")
    def slow() -> Reply:
        time.sleep(2)
        return {"number": next(numbers)}, 201

    @app.post("/moved")
    def moved() -> Reply:
        return "", 308, {"Location": f"{request.host_url}orders".replace(request.host_url, "/", 1)}

    @app.post("/taken")
    def taken() -> Reply:
        return {"error": "it exists already"}, 409

    @app.post("/refused")
    def refused() -> Reply:
        return {"error": "the item is unknown"}, 422

    @app.post("/soldout")
    def sold_out() -> Reply:
        return {"error": "insufficient stock"}, 200

    @app.post("/broken")
    def broken() -> Reply:
        return {"error": "database is locked"}, 500

    @app.post("/graphql")
    def graphql() -> Reply:
        return {"data": {"price": 4}}, 200

    @app.route("/orders/<name>", methods=["PUT", "DELETE"])
    def change(name: str) -> Reply:
        return {"order": name}, 200

    @app.get("/price")
    def price() -> Reply:
        return {"item": "tea", "price": 4}, 200

    @app.get("/orders")
    def orders() -> Reply:
        return {"orders": list(range(1, 4))}, 200

    @app.get("/missing")
    def missing() -> Reply:
        return {"error": "unknown"}, 404

    @app.get("/jobs/<name>")
    def job(name: str) -> Reply:
        with lock:
            polls[name] = polls.get(name, 0) + 1
        return {"job": name, "percent": 10 * polls[name]}, 200

    @app.get("/locked")
    def locked() -> Reply:
        """Require another key than the model's."""
        good = request.headers.get("Authorization") == "Bearer second"
        return ({"open": True}, 200) if good else ({"error": "bad key"}, 401)

    return app


_TOOLS = {
    "add_note": {"text": {"type": "string"}},
    "count_notes": {},
    "find_note": {"text": {"type": "string"}},
}
_READ_ONLY = ("count_notes", "find_note")


def notes_app() -> Flask:
    """Return an MCP server over HTTP that answers in JSON and gives each client a session."""
    app = Flask("notes")
    sessions: set[str] = set()

    @app.post("/mcp")
    def message() -> Response:
        call = request.get_json()
        method, id = call["method"], call.get("id")
        if method == "initialize":
            session = f"s{len(sessions) + 1}-{time.time_ns()}"
            sessions.add(session)
            result: Any = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "notes", "version": "1"},
            }
            return _rpc(id, result, {"Mcp-Session-Id": session})
        if request.headers.get("Mcp-Session-Id") not in sessions:
            return Response("unknown session", 404)
        if id is None:
            return Response("", 202)
        if method == "tools/list":
            tools = [
                {
                    "name": name,
                    "inputSchema": {"type": "object", "properties": fields},
                    "annotations": {"readOnlyHint": name in _READ_ONLY},
                }
                for name, fields in _TOOLS.items()
            ]
            return _rpc(id, {"tools": tools})
        name = call["params"]["name"]
        texts = {"add_note": "added", "count_notes": "3 notes", "find_note": "no such note"}
        content = [{"type": "text", "text": texts[name]}]
        return _rpc(id, {"content": content, "isError": name == "find_note"})

    return app


def _rpc(id: Any, result: Any, headers: Mapping[str, str] | None = None) -> Response:
    body = json.dumps({"jsonrpc": "2.0", "id": id, "result": result})
    return Response(body, 200, {"Content-Type": "application/json", **(headers or {})})


def model_app(cases: Sequence[Case]) -> Any:
    """Return a model whose nth reply in a conversation is the nth reply of the prompt's case."""
    by_prompt = {case.prompt: case for case in cases}

    def decide(
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]],
        persona: Persona,
        seed: int,
        parallel: bool,
        withheld: list[dict[str, Any]],
    ) -> Decision:
        texts = [content_text(each.get("content")) for each in messages if each.get("role") == "user"]
        case = next((by_prompt[text] for text in texts if text in by_prompt), None)
        replies = case.model if case and case.model else ("I have nothing to add to that, it is all done.",)
        turn = sum(message.get("role") == "assistant" for message in messages)
        reply = replies[min(turn, len(replies) - 1)]
        if isinstance(reply, dict) and "on_error" in reply:
            failed = content_text(messages[-1].get("content")).startswith("Error")
            reply = reply["on_error" if failed else "else"]
        if isinstance(reply, str):
            return Answer("done", reply)
        return tuple(PlannedCall(name, arguments) for name, arguments in reply.items())

    return create_app(decide)


@contextmanager
def served(app: Flask) -> Iterator[str]:
    """Serve the app on a free port; yield its address."""
    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)  # clients close early on purpose
    server = make_server(LOOPBACK, 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://{LOOPBACK}:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def own_address() -> str:
    """Return an address of this machine other than loopback; empty if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return ""
        return str(probe.getsockname()[0])


@contextmanager
def case_servers(cases: Sequence[Case]) -> Iterator[dict[str, Any]]:
    """Start all servers; yield the links of a wiring to them."""
    app = model_app(cases)
    with ExitStack() as started:
        shop, crm, notes, spare = (
            started.enter_context(served(each)) for each in (shop_app(), shop_app(), notes_app(), notes_app())
        )
        model = started.enter_context(serve(app))
        writes = ["POST /orders*", "POST /slow", "POST /moved", "POST /charges", "POST /taken"]
        writes += ["POST /refused", "POST /soldout", "POST /broken", "PUT /orders/*", "DELETE /orders/*"]
        links = {
            "shop": {"upstream": shop, "env": "SHOP_URL", "writes": writes},
            "crm": {"upstream": crm, "env": "CRM_URL"},
            "keyed": {"upstream": shop, "env": "KEYED_URL", "writes": writes, "key": "order_id"},
            "model": {"upstream": f"{model}/v1", "env": "OPENAI_BASE_URL", "dialect": "openai_chat"},
            "responses": {
                "upstream": f"{model}/v1",
                "env": "RESPONSES_URL",
                "dialect": "openai_responses",
            },
            "claude": {"upstream": model, "env": "ANTHROPIC_BASE_URL", "dialect": "anthropic"},
            "notes": {"upstream": notes, "env": "NOTES_URL", "dialect": "mcp", "writes": ["add_note"]},
            "files": {"mcp": {"command": [sys.executable, str(_PROGRAM)]}, "writes": ["add_note"]},
            "spare": {"upstream": spare, "env": "SPARE_URL", "dialect": "mcp", "writes": ["add_note"]},
        }
        if host := own_address():
            remote = started.enter_context(serve(app, host))
            links["remote"] = {
                "upstream": f"{remote}/v1",
                "env": "REMOTE_URL",
                "dialect": "openai_chat",
            }
        yield links
