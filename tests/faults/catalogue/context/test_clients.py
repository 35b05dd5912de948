"""A client's view of a request that was changed on its way: only the model's answer to another one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.dialects.forms import TEXT
from tests.dialects.sdks import CLIENTS, column, open_clients
from tests.dialects.server import ModelServer, model_server
from tests.faults.catalogue.clients.seen import SEEN
from tests.faults.catalogue.context.test_context import CONVERSATIONS, accepted
from tests.gateway.lab import Lab, gateway
from tests.support import paired
from wirefault.faults.catalogue.context import CONTEXT_FAULTS


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


WITH_CLIENT = [(sdk, form, fault) for fault, (sdk, form) in paired(CONTEXT_FAULTS, CLIENTS)]


@pytest.mark.parametrize(("sdk", "form", "fault"), WITH_CLIENT, ids=lambda value: str(value))
def test_official_client_view(lab, model, clients, sdk, form, fault):
    lab.begin(faults=json.dumps({"faults": [{"fault": fault.name}]}))
    key, messages = CONVERSATIONS[sdk.dialect]
    model.bodies.clear()
    body = {"model": "m", "max_tokens": 9, key: messages, "stream": form.stream}
    answer, _ = clients[sdk.name].ask(body)
    [recorded] = lab.exchange().faults
    assert recorded.injected and answer.text == TEXT.text
    assert model.bodies[0][key] != messages and accepted(model.bodies[0][key])
    same = model.bodies[0].keys() & body.keys() - {key}
    assert {name: model.bodies[0][name] for name in same} == {name: body[name] for name in same}
    SEEN.note(fault.name, column(sdk.name, form.stream), "silent: the answer is to another request")
