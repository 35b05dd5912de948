"""Each HTTP fault as seen by requests, without and with urllib3's retries."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

from tests.faults.catalogue.clients.seen import EXECUTED, SEEN, executed, row_of, saw
from tests.faults.catalogue.clients.upstream import answering
from tests.gateway.lab import Lab, gateway
from tests.support import PATIENCE_S
from wirefault.dialects.http import json_reply
from wirefault.faults.catalogue.http import HTTP_FAULTS

pytestmark = pytest.mark.slow  # its clients wait for their time limits

# seconds: short where the fault is there to exceed it
TIMEOUT_S, SHORT_S, SHORT_IN_BODY_S = PATIENCE_S, 0.5, 2.0
FIRST = {"city": "Zürich", "max_temp": 11, "days": [{"max_temp": 9}, {"max_temp": 8}]}
SECOND = {**FIRST, "max_temp": 12}

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("status", {"status": 200, "body": {}}),
    ("status", {"status": 204}),
    ("rate_limit", {"retry_after": 0.2}),
    ("server_error", {"executed": True}),
    ("delay", {"ms": 50}),
    *(("hang", {"at": at}) for at in ("after_headers", "mid_body")),
    ("hang", {"forwarded": False}),
    *(("reset", {"at": at}) for at in ("connect", "mid_body")),
    ("lose_request", {"then": "hang"}),
    ("lose_reply", {"then": "hang"}),
    ("truncate", {"content_length": "corrected"}),
    ("truncate", {"compressed": True}),
    ("slow_body", {"keep_chunks": True}),
    *(
        ("malformed", {"kind": kind})
        for kind in (
            "trailing_comma",
            "html",
            "content_type",
            "bom",
            "latin1",
            "double_encoding",
            "nul",
            "content_encoding",
        )
    ),
    *(("empty", {"kind": kind}) for kind in ("object", "array", "null")),
    *(("schema_drift", {"kind": kind}) for kind in ("drop", "retype", "wrap")),
    ("flap", {"kind": "close"}),
]
# parameters that keep the test short or fixed, and do not show in the row
QUIETLY: dict[str, dict[str, Any]] = {
    "delay": {"ms": 10_000},
    "slow_body": {"bytes_per_second": 1000},
    "malformed": {"kind": "cut_json"},
    "schema_drift": {"field": "max_temp"},
    "flap": {"fails": 2},
}
# kill_subject ends the client itself, which sees nothing: tests/e2e/test_kill_subject.py
CASES = [(fault.name, {}) for fault in HTTP_FAULTS if fault.name != "kill_subject"] + VARIANTS


def session(*, retries: bool) -> requests.Session:
    one = requests.Session()
    one.trust_env = False
    if retries:
        policy = Retry(2, backoff_factor=0, status_forcelist=(429, 500, 502, 503, 504))
        one.mount("http://", HTTPAdapter(max_retries=policy))
    return one


def timeout_s(name: str, parameters: dict[str, Any]) -> float:
    if parameters.get("at") in ("after_headers", "mid_body"):
        return SHORT_IN_BODY_S
    waits = name == "hang" or parameters.get("then") == "hang" or (name == "delay" and not parameters)
    return SHORT_S if waits else TIMEOUT_S


@pytest.fixture(scope="module")
def weather() -> Iterator[Any]:
    with answering(json_reply(200, FIRST), json_reply(200, SECOND)) as upstream:
        yield upstream


@pytest.fixture(scope="module")
def lab(tmp_path_factory, weather) -> Iterator[Lab]:
    with gateway(tmp_path_factory.mktemp("lab"), weather=weather.address) as lab:
        yield lab


def armed(name: str, parameters: dict[str, Any]) -> str:
    """The fault set: the fault on every call but the first."""
    values = {**QUIETLY.get(name, {}), **parameters}
    return json.dumps({"faults": [{"fault": name, "links": "weather", "with": values, "when": {"after": 1}}]})


@pytest.mark.parametrize("client", ["requests", "requests, Retry(2)"])
@pytest.mark.parametrize(("name", "parameters"), CASES, ids=lambda value: str(value))
def test_requests_client_view(lab, weather, name, parameters, client):
    lab.begin(faults=armed(name, parameters))
    weather.bodies.clear()
    with session(retries=client != "requests") as http:

        def call(number: int = 2, timeout: float = timeout_s(name, parameters)) -> Any:
            headers = lab.identity("weather", call=number)
            reply = http.get(lab.url("weather", "/weather"), headers=headers, timeout=timeout)
            reply.raise_for_status()
            return reply.json()

        def tries() -> int:
            http.close()
            lab.settle()
            return len(lab.exchanges()) - 1

        assert call(1, TIMEOUT_S) == FIRST
        SEEN.note(row_of(name, parameters), client, saw(call, SECOND, tries))
    last = lab.exchanges()[-1]
    assert last.faults[0].injected and last.forwarded == (weather.executed > 1)
    if client == "requests":
        SEEN.note(row_of(name, parameters), EXECUTED, executed(weather.executed - 1))
