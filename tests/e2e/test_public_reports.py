"""Faults that users of agents reported in public, each as a small agent that ``wirefault exec`` runs."""

from __future__ import annotations

import json
import queue
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, Response, request
from websockets.sync.server import ServerConnection, serve

from tests.commands import wirefault
from tests.examples.serving import served
from tests.lab.demos import environ_in
from tests.support import ROOT

pytestmark = pytest.mark.slow

AGENTS = ROOT / "tests" / "e2e" / "public_reports"
FIRST = {"first": 1, "of": "try"}
WORDS = "今天天气晴朗，" * 100 + " bis 12 °C"  # any few pieces of it part a letter


def fault(name: str, **fields: Any) -> dict[str, Any]:
    return {"faults": [{"fault": name, **fields}]}


DELTA = "response.output_text.delta"


def servers() -> Flask:
    """A shop, a model and an MCP server over HTTP+SSE."""
    app, responses, orders = Flask("servers"), queue.Queue[str](), []

    @app.post("/orders")
    def order() -> Any:
        orders.append(request.get_json())
        return {"id": len(orders)}, 201

    @app.put("/notes")
    def note() -> Any:
        return {"noted": True}

    @app.post("/v1/chat/completions")
    def chat() -> Any:
        reply = {"id": "1", "object": "chat.completion", "created": 1, "model": "m"}
        if not request.get_json().get("stream"):
            message = {"role": "assistant", "content": "42 euros"}
            return reply | {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        deltas = [{"content": word + " "} for word in WORDS.split(" ")]
        events = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
        lines = [f"data: {json.dumps(reply | event, ensure_ascii=False)}\n\n" for event in events]
        return Response([*lines, "data: [DONE]\n\n"], mimetype="text/event-stream")

    @app.get("/sse")
    def stream() -> Any:
        def events() -> Iterator[str]:
            yield "event: endpoint\ndata: /messages\n\n"
            yield from (f"event: message\ndata: {responses.get()}\n\n" for _ in range(2))

        return Response(events(), mimetype="text/event-stream")

    @app.post("/messages")
    def message() -> Any:
        result = {"content": [{"type": "text", "text": "note saved"}]}
        responses.put(json.dumps({"jsonrpc": "2.0", "id": request.get_json()["id"], "result": result}))
        return "Accepted", 202

    return app


def answer(connection: ServerConnection) -> None:
    """Stream an answer of a model over a WebSocket."""
    for _ in connection:
        deltas = [{"type": DELTA, "delta": word} for word in ("The total ", "is 42 ", "euros.")]
        for event in [{"type": "response.created"}, *deltas, {"type": "response.completed"}]:
            connection.send(json.dumps(event))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(servers()) as record:
        yield record.url


@pytest.fixture(scope="module")
def websocket_url() -> Iterator[str]:
    with serve(answer, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("faults", "agent", "code", "findings", "text"),
    [
        pytest.param(
            fault("lose_reply", when=FIRST),
            ["body_key.py"],
            1,
            ["harmful write_repeated"],
            "1 of 1 failed requests were sent again",
            id="a new key in each body",
        ),
        pytest.param(
            fault("rate_limit", **{"with": {"retry_after": 3}}, when={"first": 2, "of": "try"}),
            ["appended_error.py"],
            1,
            ["risky hasty_retry", "risky hasty_retry"],
            "before a Retry-After of 3 s ended",
            id="a 429 asked again with another prompt",
        ),
        pytest.param(
            {
                "toxics": [
                    {"toxic": "slicer", "stream": "downstream", "with": {"average_size": 7, "delay": 2000}}
                ]
            },
            ["decoded_pieces.py"],
            1,
            ["risky damaged_reply"],
            "observed at the ingress",
            id="letters cut in pieces",
        ),
        pytest.param(
            fault("lose_reply", links="functions", only={"tool": "send_email"}, when=FIRST),
            ["functions_twice.py"],
            1,
            ["harmful write_repeated"],
            "send_email was sent again",
            id="a function repeated",
        ),
        pytest.param(
            fault("server_error", only={"method": "PUT"}, when=FIRST),
            ["parallel_step.py"],
            1,
            ["harmful write_repeated"],
            "because PUT /notes failed with 500",
            id="a parallel step repeated",
        ),
        pytest.param(
            fault("tool_error", only={"tool": "add_note"}),
            ["mcp_over_sse.py"],
            2,
            [],
            "met, but changed nothing: tool_error (answered_on_stream)",
            id="a response on another stream",
        ),
    ],
)
def test_reported_agent_has_its_finding(
    tmp_path: Path,
    url: str,
    faults: dict[str, Any],
    agent: list[str],
    code: int,
    findings: list[str],
    text: str,
    request: pytest.FixtureRequest,
) -> None:
    if agent == ["decoded_pieces.py"]:  # it uses no proxy
        request.getfixturevalue("namespaces")
    assert_ends(tmp_path, faults, [*agent, url], code, findings, text)


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("path", ["/v1/realtime", "/v1/responses"])
@pytest.mark.parametrize(
    ("last", "text"),
    [(DELTA, "was taken for the whole answer"), ("response.created", "ended with an empty answer")],
)
def test_half_an_answer_over_a_websocket(
    tmp_path: Path, websocket_url: str, path: str, last: str, text: str
) -> None:
    faults = fault("ws_cut", **{"with": {"type": last}})
    assert_ends(tmp_path, faults, ["half_answer.py", websocket_url, path], 1, ["risky open_stream"], text)


def test_client_over_stdio_that_gives_up_and_calls_again(tmp_path: Path) -> None:
    """Nothing closes when it gives up: only its next call shows that."""
    server, agent = ([sys.executable, str(AGENTS / f"{n}_over_stdio.py")] for n in ("shop", "gives_up"))
    wiring = {"links": {"shop": {"mcp": {"command": server}}}, "subject": {"command": [*agent, "{prompt}"]}}
    (tmp_path / "wirefault.yaml").write_text(json.dumps(wiring), "utf-8")
    faults = json.dumps(fault("late_response", only={"tool": "order"}, when=FIRST))
    done = wirefault(tmp_path, environ_in(tmp_path), "run", "--prompt", "tea", "--faults", faults)
    output = " ".join(done.stdout.split())
    assert done.returncode == 1, done.stderr
    assert re.search("order was sent again .* after the first, still without an answer", output)


def assert_ends(
    folder: Path, faults: dict[str, Any], command: list[str], code: int, findings: list[str], text: str
) -> None:
    agent, *words = command
    options = ["--verbose", "--seed", "1", "--faults", json.dumps(faults), "--json", "summary.json"]
    command = [sys.executable, str(AGENTS / agent), *words]
    done = wirefault(folder, environ_in(folder), "exec", *options, "--", *command)
    written = json.loads((folder / "summary.json").read_text("utf-8"))["findings"]
    assert [f"{finding['severity']} {finding['rule']}" for finding in written] == findings, done.stderr
    assert done.returncode == code
    assert text in " ".join((done.stdout + done.stderr).split())
