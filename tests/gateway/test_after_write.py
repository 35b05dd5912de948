"""Faults that wait for a write, and outages that start with the first call that meets them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.faults.catalogue.clients.upstream import answering
from tests.faults.catalogue.mcp.messages import RESULT, mcp_request
from tests.gateway.lab import Lab, gateway
from tests.support import PATIENCE_S, until
from wirefault.dialects.http import Reply, json_reply
from wirefault.wiring.links import Link, Links

DOWN = {"fault": "unavailable", "links": "model"}
AFTER_WRITE = {"after": {"write": "executed"}}
OK = json_reply(200, {"ok": True})
QUERY = b'{"query": "query { orders { id } }"}'
MUTATION = b'{"query": "mutation { order(sku: 1) { id } }"}'


@contextmanager
def shop_lab(folder: Path, reply: Reply = OK, **wired: Any) -> Iterator[Lab]:
    """A lab with a model and a shop that sends that reply to every request."""
    with answering(reply) as server, answering(OK) as model:
        shop = Link("shop", upstream=server.address.url, **wired)
        links = Links([shop, Link("model", upstream=model.address.url, dialect="openai_chat")])
        with gateway(folder, links=links) as lab:
            yield lab


def send(lab: Lab, link: str, method: str = "POST", path: str = "/", body: bytes = b"{}") -> int:
    try:
        return requests.request(method, lab.url(link, path), data=body, timeout=PATIENCE_S).status_code
    except requests.ConnectionError:
        return 0


def model_statuses(lab: Lab, *requests_before: tuple[Any, ...]) -> list[int]:
    """The status of a request to the model at first, and after each of these requests to the shop."""
    statuses = [send(lab, "model")]
    for request in requests_before:
        send(lab, "shop", *request)
        statuses.append(send(lab, "model"))
    return statuses


def test_fault_waits_for_executed_write(tmp_path):
    with shop_lab(tmp_path) as lab:
        lab.begin(faults={"faults": [{**DOWN, "when": AFTER_WRITE}]})
        statuses = model_statuses(lab, ("GET", "/orders"), ("POST", "/orders"), ("GET", "/orders"))
    assert statuses == [200, 200, 503, 503]


def test_counting_starts_with_write(tmp_path):
    with shop_lab(tmp_path) as lab:
        lab.begin(faults={"faults": [{**DOWN, "when": {**AFTER_WRITE, "first": 1}}]})
        before = [send(lab, "model") for _ in range(3)]
        send(lab, "shop", "POST", "/orders")
        after = [send(lab, "model", body=b'{"n": %d}' % n) for n in range(2)]
    assert (before, after) == ([200] * 3, [503, 200])


def test_lost_reply_of_a_write_counts_as_executed(tmp_path):
    lost = {"fault": "lose_reply", "links": "shop"}
    with shop_lab(tmp_path) as lab:
        lab.begin(faults={"faults": [lost, {**DOWN, "when": AFTER_WRITE}]})
        assert model_statuses(lab, ("POST", "/orders")) == [200, 503]


def test_write_in_another_episode_does_not_count(tmp_path):
    with shop_lab(tmp_path) as lab:
        lab.begin(faults={"faults": [{**DOWN, "when": AFTER_WRITE}]})
        assert model_statuses(lab, ("POST", "/orders")) == [200, 503]
        lab.settle()
        begin = {"run_id": lab.run_id, "episode": "e2", "attempt": 1, "settings_hash": lab.settings.hash}
        assert lab.control("PUT", "/lanes/0", begin).status_code == 200
        assert send(lab, "model") == 200


@pytest.mark.parametrize(
    ("request_", "reply", "wired"),
    [
        (("GET", "/orders"), OK, {}),
        (("POST", "/orders"), json_reply(409, {}), {}),
        (("POST", "/orders"), json_reply(500, {}), {}),
        (("POST", "/orders"), Reply(OK.headers, OK.body, 308), {}),
        (("POST", "/graphql", QUERY), OK, {}),
        (("POST", "/oauth/token"), OK, {}),
        (("POST", "/search"), OK, {"writes": ("POST /orders",), "writes_declared": True}),
        (("POST", "/orders"), OK, {"writes_declared": True}),
    ],
    ids=str,
)
def test_requests_other_than_executed_writes(tmp_path, request_, reply, wired):
    with shop_lab(tmp_path, reply, **wired) as lab:
        lab.begin(faults={"faults": [{**DOWN, "when": AFTER_WRITE}]})
        assert model_statuses(lab, request_) == [200, 200]


@pytest.mark.parametrize("request_", [("POST", "/graphql", MUTATION), ("DELETE", "/orders/1"), ("PUT", "/a")])
def test_requests_counted_as_executed_writes(tmp_path, request_):
    with shop_lab(tmp_path) as lab:
        lab.begin(faults={"faults": [{**DOWN, "when": AFTER_WRITE}]})
        assert model_statuses(lab, request_) == [200, 503]


READ_ONLY = {"tools": [{"name": "add", "annotations": {"readOnlyHint": True}}]}
REFUSED = {**RESULT, "result": {"content": [], "isError": True}}


@pytest.mark.parametrize(
    ("messages", "reply", "status"),
    [
        (["tools/call"], RESULT, 503),
        (["initialize"], RESULT, 200),
        (["tools/call"], REFUSED, 200),
        (["tools/list", "tools/call"], {**RESULT, "result": {**RESULT["result"], **READ_ONLY}}, 200),
    ],
    ids=str,
)
def test_tool_call_of_mcp_is_a_write_unless_read_only(tmp_path, messages, reply, status):
    with shop_lab(tmp_path, json_reply(200, reply), dialect="mcp") as lab:
        lab.begin(faults={"faults": [{**DOWN, "when": AFTER_WRITE}]})
        for message in messages:
            body = mcp_request(
                message, **({"name": "add", "arguments": {}} if "call" in message else {})
            ).body
            send(lab, "shop", "POST", "/", body)
        assert send(lab, "model") == status


def outage(**more: Any) -> dict[str, Any]:
    return {"faults": [{"fault": "unavailable", "links": "search", **more}]}


def begin_next_attempt(lab: Lab) -> None:
    begin = {"run_id": lab.run_id, "episode": "e1", "attempt": 2, "settings_hash": lab.settings.hash}
    assert lab.control("PUT", "/lanes/0", begin).status_code == 200


def test_outage_from_first_met_starts_with_first_call_and_ends(lab: Lab) -> None:
    lab.begin(faults=outage(during={"start": "first_met", "duration": "50ms"}))
    assert send(lab, "search", "GET", "/size/1") == 503
    until(lambda: send(lab, "search", "GET", "/size/1") == 200, "the outage's end")
    lab.settle(0)
    begin_next_attempt(lab)
    assert send(lab, "search", "GET", "/size/1") == 503
