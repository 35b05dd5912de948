"""The agent at a server that refuses unknown and null fields, as llama.cpp's does."""

import json
import socket
from collections.abc import Iterator

import pytest

from agent.loop import Agent
from agent.models import build_model, open_client
from tests.agent.support import context_in, http, lab_of, settings
from tests.support import PATIENCE_S
from tests.upstream import Upstream, requests_of

FIELDS = {"model", "messages", "tools", "tool_choice", "temperature", "n", "seed", "stream", "stream_options"}
MESSAGE_FIELDS = {"role", "content", "tool_calls", "tool_call_id"}
READ = ("get_weather", {"place": "Paris"})
REPORT = ("Report", {"status": "failed", "answer": "The weather is unknown."})


def _refusals(body: dict[str, object]) -> Iterator[str]:
    messages = body["messages"]
    assert isinstance(messages, list)
    for fields, known in ((body, FIELDS), *((message, MESSAGE_FIELDS) for message in messages)):
        yield from (f"unknown field {name}" for name in fields if name not in known)
        yield from (f"{name} must not be null" for name, value in fields.items() if value is None)


class StrictServer:
    """Asks for one call, then for the report."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        self._answers = iter((READ, REPORT))
        self._upstream = Upstream(self._serve, ignored=())
        self.address = self._upstream.address

    def close(self) -> None:
        self._upstream.drain()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(PATIENCE_S)
        refused = [*_refusals(json.loads(next(requests_of(connection)).body))]
        self.refused += refused
        if refused:
            connection.sendall(http(400, {"error": {"message": refused[0]}}))
            return
        name, arguments = next(self._answers)
        function = {"name": name, "arguments": json.dumps(arguments)}
        message = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"call_{name}", "type": "function", "function": function}],
        }
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        connection.sendall(http(200, {"id": "x", "choices": [choice]}, Content_Type="application/json"))


@pytest.fixture
def server() -> Iterator[StrictServer]:
    started = StrictServer()
    yield started
    started.close()


def test_strict_server_accepts_whole_conversation(server):
    frozen = settings(model="compatible", model_base_url="http://127.0.0.1:1/v1")
    topology = lab_of(server.address)
    with open_client(frozen) as client:
        agent = Agent(build_model(frozen, topology, "none", client), "subject")
        result = agent("How warm is Paris?", context_in(topology, []))
    assert server.refused == []
    assert result.response == "The weather is unknown."
