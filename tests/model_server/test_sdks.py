"""The providers' SDKs talk to the scripted model through the real gateway: a round of tools, an answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from bench.asgi_server import serve
from tests.dialects.forms import USER, Form
from tests.dialects.sdks import CLIENTS, Client, Sdk, open_clients
from tests.gateway.lab import Lab, gateway
from tests.model_server.conversations import DECIDE
from wirefault.core.sockets import Address
from wirefault.dialects.base import ToolCall
from wirefault.model_server.server import create_app


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with (
        serve(create_app(DECIDE)) as url,
        gateway(tmp_path_factory.mktemp("lab"), model=Address.parse(url.removeprefix("http://"))) as lab,
    ):
        yield lab


@pytest.fixture(scope="module")
def clients(lab: Lab) -> Iterator[dict[str, Client]]:
    with open_clients(lab.url("model", "")) as clients:
        yield clients


PROMPT = "What is the temperature in Zurich?"


def request_body(form: Form, *earlier: ToolCall) -> dict[str, Any]:
    """The request in that dialect, with tools without a playbook."""
    written = form.request(*earlier).body.decode()
    return json.loads(written.replace(USER, PROMPT).replace("get_weather", "get_temperature"))


@pytest.mark.parametrize(("sdk", "form"), CLIENTS, ids=lambda value: str(value))
def test_sdk_round_of_tools_and_answer(lab: Lab, clients: dict[str, Client], sdk: Sdk, form: Form) -> None:
    lab.begin()
    reply, _ = clients[sdk.name].ask(request_body(form))
    [call] = reply.calls
    assert (call.name, call.values()) == ("get_temperature", {"city": "Zurich"})
    report, tokens = clients[sdk.name].ask(request_body(form, call))
    [call] = report.calls
    assert call.name == "Report" and "21.5" in call.arguments
    # OpenAI's streams of chat completions have the tokens only if the client asks for them
    assert tokens or (sdk.name == "openai" and form.stream)
    assert [exchange.status for exchange in lab.exchanges(2)] == [200, 200]
