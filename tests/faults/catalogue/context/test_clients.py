"""What a client sees of a request that was changed on its way: only the model's answer to another one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.dialects.forms import TEXT
from tests.dialects.sdks import SDKS, open_clients
from tests.dialects.server import ModelServer, model_server
from tests.faults.catalogue.clients.seen import SEEN
from tests.faults.catalogue.context.test_context import ANTHROPIC, OPENAI, accepted
from tests.gateway.lab import Lab, gateway
from windtunnel.faults.catalogue.context import CONTEXT_FAULTS

MESSAGES = {"openai_chat": OPENAI, "anthropic": ANTHROPIC}


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with model_server(lambda body: TEXT) as server:
        yield server


@pytest.fixture(scope="module")
def lab(tmp_path_factory, model) -> Iterator[Lab]:
    with gateway(tmp_path_factory.mktemp("lab"), model=model.address) as lab:
        yield lab


@pytest.fixture(scope="module")
def clients(lab) -> Iterator[dict[str, Any]]:
    with open_clients(lab.url("model", "")) as clients:
        yield clients


@pytest.mark.parametrize("sdk", SDKS, ids=str)
@pytest.mark.parametrize("fault", CONTEXT_FAULTS)
def test_what_an_official_client_sees(lab, model, clients, sdk, fault):
    lab.begin(faults=json.dumps({"faults": [{"fault": fault.name}]}))
    sent = MESSAGES[sdk.dialect]
    model.bodies.clear()
    body = {"model": "m", "max_tokens": 9, "messages": sent, "stream": False}
    answer, _ = clients[sdk.name].ask(body)
    [met] = lab.exchange().faults
    assert met.injected and answer.text == TEXT.text
    assert model.bodies[0]["messages"] != sent and accepted(model.bodies[0]["messages"])
    assert {"stream": False} | model.bodies[0] | {"messages": sent} == body
    SEEN.note(fault.name, sdk.name, "silent: the answer is to another request")
