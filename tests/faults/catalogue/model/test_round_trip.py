"""A reply that is read and written anew is, to the official clients, the reply that it was."""

from __future__ import annotations

import json

import pytest

from tests.faults.catalogue.model.replies import CALL, CALLS, FINAL, TEXT, ZURICH
from tests.faults.catalogue.model.sdks import CLIENTS
from tests.faults.catalogue.model.server import model_server
from windtunnel.faults.catalogue.model.content import APIS, whole_body, with_body


def rewritten(form, reply):
    api = APIS[form.dialect]
    body = whole_body(api, reply)
    return with_body(api, reply, api.write(body, api.read(body)))


@pytest.mark.parametrize("said", [TEXT, CALL, CALLS, FINAL], ids=["text", "call", "calls", "final"])
@pytest.mark.parametrize(("sdk", "form"), CLIENTS, ids=lambda value: str(value))
def test_the_official_clients_see_no_difference(sdk, form, said):
    body = json.loads(form.this(ZURICH).request.body)
    with model_server(lambda _: said) as server, sdk.open(server.address.url) as client:
        before = client.ask(body)
        server.rewrite = rewritten
        after, tokens = client.ask(body)
    assert (after, tokens) == before and tokens is not None
    assert (after.text, after.calls) == (said.text, said.calls)
