"""A client's view of a changed result: nothing. It is a good answer, and wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.faults.catalogue.clients.seen import EXECUTED, SEEN, executed, saw
from tests.faults.catalogue.clients.upstream import answering
from tests.gateway.lab import Lab, gateway
from tests.support import PATIENCE_S
from wirefault.dialects.http import json_reply
from wirefault.faults.catalogue.meaning import MEANING_FAULTS
from wirefault.faults.catalogue.meaning.result import MeaningFault

RESULT = {
    "name": "Zürich",
    "temp": 12.5,
    "date": "2026-03-04",
    "link": "https://example.org/zurich",
    "report": "It is mild in the north, but not in the south.",
    "days": [{"temp": 9}, {"temp": 8}, {"temp": 7}],
}


@pytest.fixture(scope="module")
def weather() -> Iterator[Any]:
    with answering(json_reply(200, RESULT)) as upstream:
        yield upstream


@pytest.fixture(scope="module")
def lab(tmp_path_factory, weather) -> Iterator[Lab]:
    with gateway(tmp_path_factory.mktemp("lab"), weather=weather.address) as lab:
        yield lab


@pytest.mark.parametrize("fault", [kind for kind in MEANING_FAULTS if issubclass(kind, MeaningFault)])
def test_requests_client_view(lab, weather, fault):
    lab.begin(faults=json.dumps({"faults": [{"fault": fault.name, "links": "weather"}]}))
    weather.bodies.clear()

    def ask() -> Any:
        reply = requests.get(
            lab.url("weather", "/weather?q=x"), headers=lab.identity("weather"), timeout=PATIENCE_S
        )
        reply.raise_for_status()
        return reply.json()

    SEEN.note(fault.name, "requests", saw(ask, RESULT))
    SEEN.note(fault.name, EXECUTED, executed(weather.executed))
    [record] = lab.exchange().faults
    assert record.injected and record.content and record.evidence["original"] != record.evidence["changed"]


def test_changed_arguments_reach_the_server_unseen(lab, weather):
    lab.begin(faults=json.dumps({"faults": [{"fault": "changed_arguments", "links": "weather"}]}))
    weather.bodies.clear()
    body = {"city": "Zürich", "days": 3}

    def ask() -> Any:
        url, headers = lab.url("weather", "/weather"), lab.identity("weather")
        reply = requests.post(url, json=body, headers=headers, timeout=PATIENCE_S)
        reply.raise_for_status()
        return reply.json()

    SEEN.note("changed_arguments", "requests", saw(ask, RESULT))
    SEEN.note("changed_arguments", EXECUTED, executed(weather.executed))
    [record] = lab.exchange().faults
    assert record.injected
    [received] = weather.bodies
    changed = json.loads(received)
    assert changed != body
    assert changed[record.evidence["argument"]] == record.evidence["changed"]
