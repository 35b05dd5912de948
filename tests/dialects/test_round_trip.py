"""A reply that is read and written again is unchanged for the official clients."""

from __future__ import annotations

import json

import pytest

from tests.dialects.forms import CALL, CALLS, FINAL, TEXT, ZURICH
from tests.dialects.sdks import CLIENTS
from tests.dialects.server import model_server
from tests.support import paired
from wirefault.dialects.base import reply_body, with_reply_body


def rewritten(form, reply):
    dialect = form.model_dialect
    body = reply_body(dialect, reply)
    return with_reply_body(dialect, reply, dialect.write_reply(body, dialect.read_reply(body)))


SAID = {"text": TEXT, "call": CALL, "calls": CALLS, "final": FINAL}
CASES = [(sdk, form, name) for name, (sdk, form) in paired(tuple(SAID), CLIENTS)]


@pytest.mark.parametrize(("sdk", "form", "name"), CASES, ids=lambda value: str(value))
def test_official_clients_see_no_difference(sdk, form, name):
    scripted, body = SAID[name], json.loads(form.request(ZURICH).body)
    with model_server(lambda _: scripted) as server, sdk.open(server.address.url) as client:
        before = client.ask(body)
        server.rewrite = rewritten
        after, tokens = client.ask(body)
    assert (after, tokens) == before and tokens is not None
    assert (after.text, after.calls) == (scripted.text, scripted.calls)
