"""Each kind of act: its effect on the wire, and its record."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

import pytest
import requests

from tests.conformance.wire import unread
from tests.gateway.lab import Lab, dial
from tests.gateway.scripted import (
    CLOSED,
    DOES,
    GET,
    UPSTREAM_REPLY,
    ScriptedUpstream,
    armed,
    ask,
    only,
    sized,
)
from tests.support import PATIENCE_S, until
from tests.upstream import read_all
from wirefault.core.identity import body_digest
from wirefault.faults.base import Act
from wirefault.gateway.exchange.decision import MAX_HELD_BODY

pytestmark = pytest.mark.usefixtures("scripted_faults")


@pytest.fixture
def lab(lab_of_service: Lab) -> Lab:
    return lab_of_service


def test_fault_answers_instead_of_upstream(lab: Lab, service: ScriptedUpstream) -> None:
    lab.begin(faults=armed("answer"))
    reply = ask(lab, method="POST", data=b"x" * 10)
    assert (reply.status_code, reply.json(), reply.headers["X-A"]) == (418, {"a": 1}, "b")
    record, hit = lab.exchange(), only(lab)
    assert (record.forwarded, record.status, record.reply_complete) == (False, 418, True)
    assert (hit.id, hit.kind, hit.injected, hit.why_not) == (
        "scripted",
        "scripted",
        True,
        None,
    )
    assert (hit.shows, hit.evidence) == (
        {"status": 418, "digest": body_digest(reply.content)},
        {"e": 1},
    )
    assert service.requests == []


def test_answer_to_head_has_no_body(lab: Lab) -> None:
    lab.begin(faults=armed("drip"))
    with dial(lab.address("search")) as client:
        client.sendall(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\nHEAD / HTTP/1.1\r\nConnection: close\r\n\r\n")
        assert read_all(client) == b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n" * 2


@pytest.mark.parametrize("only", [{"json": {"to": "Bob"}}, {"header": {"X-To": "B*"}}])
def test_eligible_fault_is_recorded_even_if_not_met(lab: Lab, only: dict[str, Any]) -> None:
    seldom = {"id": "to Bob", "fault": "unavailable", "only": only, "when": {"probability": 1e-9}}
    lab.begin(faults=json.dumps({"faults": [{"fault": "delay", "with": {"ms": 1}}, seldom]}))
    for to in ("Bob", "Ann"):
        ask(lab, method="POST", json={"to": to}, headers={"X-To": to})
    assert [record.eligible for record in lab.exchanges(2)] == [["to Bob"], []]


@pytest.mark.parametrize("does", ["nothing", "miss", "no delay", "fail", "reply miss", "reply fail"])
def test_fault_without_effect_passes_byte_by_byte(lab: Lab, service: ScriptedUpstream, does: str) -> None:
    lab.begin(faults=armed(does))
    with dial(lab.address("search")) as client:
        for _ in range(2):
            client.sendall(GET)
            assert read_all(client, len(service.reply)) == service.reply
    record = lab.exchanges(2)[-1]
    expected = {
        "nothing": [],
        "fail": ["failed ZeroDivisionError"],
        "reply fail": ["failed ZeroDivisionError"],
        "reply miss": ["no_tool_result_to_change"],
    }
    reasons = [f"{hit.why_not} {hit.detail}".strip() for hit in record.faults]
    assert reasons == expected.get(does, ["nothing_to_change"])
    assert not any(hit.injected or hit.shows for hit in record.faults)


def test_delay_precedes_forwarding(lab: Lab, service: ScriptedUpstream) -> None:
    lab.begin(faults=armed("delay", "delay"))
    start = time.perf_counter()
    assert ask(lab).content == UPSTREAM_REPLY
    taken = (time.perf_counter() - start) * 1000
    one, two = lab.exchange().faults
    assert one.shows == {"delay_ms": one.delay_ms} and one.injected and two.injected
    assert 48 <= one.delay_ms == two.delay_ms and one.delay_ms + two.delay_ms <= taken
    assert lab.exchange().ms >= 98


def test_delayed_answer(lab: Lab) -> None:
    lab.begin(faults=armed("late answer"))
    assert ask(lab).status_code == 418
    hit = only(lab)
    assert hit.delay_ms >= 28 and hit.shows and set(hit.shows) == {"status", "digest", "delay_ms"}


def test_delayed_request_arrives_after_client_left(lab: Lab, service: ScriptedUpstream) -> None:
    DOES["late"] = lambda tried: Act(delay=0.5)  # long enough for the client to leave first on a busy machine
    lab.begin(faults=armed("late"))
    with dial(lab.address("search")) as client:
        client.sendall(GET)
        until(lambda: not unread(client))  # a reset would discard unread bytes
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    record = lab.exchange()
    until(lambda: service.requests)
    assert record.forwarded and record.error and record.faults[0].injected


def test_settling_releases_delayed_request(lab: Lab, service: ScriptedUpstream) -> None:
    DOES["long"] = lambda tried: Act(delay=60)
    lab.begin(faults=armed("long"))
    with dial(lab.address("search")) as client:
        client.sendall(GET)
        until(lambda: lab.control("GET", "/lanes/0").json()["open"] and not unread(client))
        lab.settle(0)
        assert read_all(client, len(service.reply)) == service.reply
    assert 0 < only(lab).delay_ms < 60_000


@pytest.mark.parametrize(("does", "reset"), [("cut", False), ("reset", True), ("garbage", False)])
def test_reply_that_ends_early_is_lost(lab: Lab, does: str, reset: bool) -> None:
    lab.begin(faults=armed(does))
    with dial(lab.address("search")) as client:
        client.sendall(GET)
        got = b""
        try:
            while data := client.recv(100):
                got += data
        except ConnectionResetError:
            assert reset
        else:
            assert not reset
    assert got.endswith(b"fo" if does != "garbage" else b"\x01")
    record, hit = lab.exchange(), only(lab)
    assert (hit.injected, hit.shows, record.reply_complete) == (True, CLOSED, False)
    assert record.reply_bytes == len(got)


def test_hang_lasts_until_client_leaves(lab: Lab) -> None:
    lab.begin(faults=armed("hang"))
    with dial(lab.address("search")) as client:
        client.sendall(GET)
        client.settimeout(0.1)
        with pytest.raises(TimeoutError):
            client.recv(1)
        leaves = time.time()
    record, hit = lab.exchange(), only(lab)
    assert (hit.injected, hit.shows, record.status) == (True, {"lost": True, "left": True}, None)
    assert record.start + record.ms / 1000 > leaves - 0.001  # two clocks, and ms is rounded


@pytest.mark.parametrize(
    ("link", "fault"),
    [
        ("search", {"fault": "hang", "with": {"limit": 0.2}}),
        ("search", {"fault": "hang", "with": {"limit": 0.2, "at": "after_headers"}}),
        ("search", {"fault": "hang", "with": {"limit": 0.2, "forwarded": False}}),
        ("model", {"fault": "api_timeout", "with": {"limit": 0.2}}),
    ],
    ids=str,
)
def test_gateway_ends_hang_of_client_that_waits(lab: Lab, link: str, fault: dict[str, Any]) -> None:
    lab.begin(faults={"faults": [{**fault, "links": link}]})
    with dial(lab.address(link)) as client:
        client.sendall(GET)
        read_all(client)
    record = lab.exchange()
    assert record.faults[0].evidence["closed_after_s"] == 0.2
    assert (record.faults[0].injected, record.client_left, record.reply_complete) == (True, False, False)
    assert not record.unavailable


def test_gateway_ends_hang_after_the_drawn_time(lab: Lab) -> None:
    fault = {"fault": "api_timeout", "links": "model", "with": {"at_least": 0.1, "limit": 0.3}}
    lab.begin(faults={"faults": [fault]})
    with dial(lab.address("model")) as client:
        client.sendall(GET)
        read_all(client)
    evidence = lab.exchange().faults[0].evidence
    assert 0.1 <= evidence["hang_s"] <= 0.3 and evidence["closed_after_s"] == evidence["hang_s"]


@pytest.mark.parametrize("link", ["search", "model"])
def test_hang_ends_with_its_attempt(lab: Lab, link: str) -> None:
    lab.begin(faults=armed("hang"))
    with dial(lab.address(link)) as client:
        client.sendall(GET)
        while lab.settle(60) != {"settled": True, "open": 0}:
            pass
        assert read_all(client) == b""


def test_reply_steps_with_waits(lab: Lab) -> None:
    lab.begin(faults=armed("drip"))
    with requests.Session() as session:
        for _ in range(2):  # the connection stays open
            assert session.get(lab.url("search"), timeout=PATIENCE_S).content == b"ok"
    first, second = lab.exchanges(2)
    assert second.reply_complete and first.faults[0].delay_ms >= 28
    assert (first.faults[0].shows or {})["digest"] == body_digest(b"ok")


@pytest.mark.parametrize("chunked", [False, True])
def test_changed_request(lab: Lab, service: ScriptedUpstream, chunked: bool) -> None:
    lab.begin(faults=armed("request"))
    assert ask(lab, method="PUT", data=iter([b"a", b"b"]) if chunked else b"ab").content == UPSTREAM_REPLY
    head, _, body = service.requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /new?b=2 HTTP/1.1\r\n") and body == b"changed"
    assert head.count(b"Content-Length: 7") == 1 and b"X-New: 1" in head and b"Wirefault-World:" in head
    assert b"Transfer-Encoding" not in head
    record, hit = lab.exchange(), only(lab)
    assert (record.method, record.target) == ("PUT", "/a")
    assert (hit.injected, hit.shows, hit.content) == (True, None, False)


def test_invalid_changed_request_is_not_sent(lab: Lab, service: ScriptedUpstream) -> None:
    lab.begin(faults=armed("bad request"))
    assert ask(lab).content == UPSTREAM_REPLY
    assert service.requests[0].startswith(b"GET /a ")
    assert (only(lab).why_not, only(lab).detail) == ("failed", "ValueError")


@pytest.mark.parametrize("reply", [sized(UPSTREAM_REPLY), sized(UPSTREAM_REPLY, b"Connection: close")])
def test_request_is_delivered_twice(lab: Lab, service: ScriptedUpstream, reply: bytes) -> None:
    service.reply = reply
    lab.begin(faults=armed("twice"))
    assert ask(lab, method="POST", data=b"once").content == UPSTREAM_REPLY
    assert len(service.requests) == 2 and service.requests[0] == service.requests[1]
    assert (only(lab).evidence, only(lab).shows) == ({"statuses": [200, 200]}, None)


@pytest.mark.parametrize(
    ("does", "acted", "status"),
    [
        (["answer", "reply"], [None, "already_faulted"], 418),
        (["reply", "answer"], [None, "already_faulted"], 200),
        (["reply miss", "reply", "upper"], ["no_tool_result_to_change", None, "already_faulted"], 200),
        (["miss", "request", "twice"], ["nothing_to_change", None, "already_faulted"], 200),
        (["delay", "answer", "delay"], [None, None, None], 418),
    ],
)
def test_only_first_fault_of_set_changes_try(
    lab: Lab, does: list[str], acted: list[str | None], status: int
) -> None:
    lab.begin(faults=armed(*does))
    assert ask(lab).status_code == status
    assert [hit.why_not for hit in lab.exchange().faults] == acted


@pytest.mark.parametrize(
    ("fault", "does", "size", "why_not"),
    [
        ("scripted", "answer", 300_000, None),
        ("scripted", "reply", 300_000, None),
        ("scripted", "delay", 300_000, None),
        ("scripted", "request", 300_000, "too_large"),
        ("scripted", "twice", 300_000, "too_large"),
        ("reads", "request", 300_000, None),
        ("reads", "request", MAX_HELD_BODY + 1, "too_large"),
        ("reads", "answer", MAX_HELD_BODY + 1, "too_large"),
    ],
)
def test_request_size_limit(
    lab: Lab, service: ScriptedUpstream, fault: str, does: str, size: int, why_not: str | None
) -> None:
    lab.begin(faults=armed(does, fault=fault))
    ask(lab, method="PUT", data=bytes(size))
    assert only(lab).why_not == why_not
    if why_not:
        assert service.requests[0].endswith(bytes(size))


@pytest.mark.parametrize(("links", "status"), [("model", 409), ("tools", 200)])
def test_lab_only_fault_is_refused_on_foreign_server(lab: Lab, links: str, status: int) -> None:
    elsewhere = {"model": "compatible", "model_base_url": "http://127.0.0.1:9/v1"}
    wanted = lab.new_run(faults=armed("nothing", links=links, fault="ours"), **elsewhere)
    reply = lab.control("PUT", "/lanes/0", wanted)
    assert reply.status_code == status
    assert (
        status == 200
        or "the fault ours acts only on the lab's own servers" in reply.json()["error"]["message"]
    )
