"""Requests of one connection: their queue, and the plan, delay and copies of one with faults."""

from __future__ import annotations

import asyncio

import pytest

from wirefault.core.sockets import Address
from wirefault.dialects.http import Request, json_reply
from wirefault.faults.base import Act, Changed
from wirefault.faults.catalogue.http.body import Truncate
from wirefault.faults.plan import MetFault, Plan
from wirefault.gateway.endpoint import lab_endpoint
from wirefault.gateway.exchange.carrier import HTTP
from wirefault.gateway.exchange.client_side import FaultDelay
from wirefault.gateway.exchange.connection import RequestQueue
from wirefault.gateway.exchange.exchange import Exchange
from wirefault.gateway.exchange.relay import RequestCopies
from wirefault.gateway.http1.heads import BadHead, RequestHead, read_request
from wirefault.gateway.lane import Lane, LinkListener
from wirefault.wiring.links import Link, Links


def queue(*pieces: bytes) -> RequestQueue:
    filled = RequestQueue()
    for at, piece in enumerate(pieces):
        filled.add(piece, float(at))
    return filled


def test_chunked_head_is_read_once_complete() -> None:
    pieces = queue(b"GET /a HTTP/1.1\r\nHost", b": x\r\n")
    assert pieces.next_head() is None and pieces.arrived == 0.0
    pieces.add(b"\r\nGET /b", 2.0)
    head = pieces.next_head()
    assert head is not None and head.target == "/a"
    assert pieces.take_all() == b"GET /b" and pieces.take_all() == b""


def test_invalid_request_is_refused() -> None:
    with pytest.raises(BadHead):
        queue(b"\x00\x01").next_head()


def test_long_queue_is_reported() -> None:
    assert not queue(bytes(64 * 1024)).is_long
    assert queue(bytes(64 * 1024), b"x").is_long


ENDPOINT = lab_endpoint(Address("127.0.0.1", 80))
LINK = Link("search", "http://127.0.0.1:80")
LISTENER = LinkListener(LINK, Lane(0, Links([LINK])), ENDPOINT)


def head() -> RequestHead:
    return read_request(b"GET /a HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n")


def request(*acts: Act, delay: float = 0.0) -> Exchange:
    planned = Exchange(LISTENER, head(), 0.0)
    faults = [MetFault("id", Truncate(), act, delay=delay) for act in acts]
    planned.plan = Plan(
        faults,
        next((m for m in faults if m.act.request), None),
        [m for m in faults if m.act.reply],
    )
    return planned


def test_delay_releases_request_and_records_duration() -> None:
    async def drive() -> None:
        planned, gone_on = request(Act(), delay=0.001), asyncio.get_running_loop().create_future()
        FaultDelay(planned, 0.001, gone_on.set_result)
        assert await gone_on is planned
        assert planned.plan is not None and planned.plan.met_faults[0].delay_ms >= 1

    asyncio.run(drive())


def test_stopped_delay_is_recorded_and_releases_nothing() -> None:
    async def drive() -> None:
        planned, gone_on = request(Act(), delay=60), []
        FaultDelay(planned, 60, gone_on.append).stop()
        assert planned.plan is not None and planned.plan.met_faults[0].injected
        assert not gone_on

    asyncio.run(drive())


def test_changed_request_is_sent_with_upstreams_host() -> None:
    changed = request(Act(request=Request((("Host", "x"),), b"new", "PUT", "/b")))
    _, message = HTTP.request_for(changed.head, b"", changed.plan, ENDPOINT, b"")
    assert message == b"PUT /b HTTP/1.1\r\nHost: 127.0.0.1:80\r\nContent-Length: 3\r\n\r\nnew"


def test_changeable_reply_is_requested_uncompressed() -> None:
    changed = request(Act(reply=Changed))
    _, message = HTTP.request_for(changed.head, b"", changed.plan, ENDPOINT, b"")
    assert b"\r\nAccept-Encoding: identity\r\n" in message
    assert changed.plan is not None
    assert changed.plan.met_faults[0].evidence == {"accept_encoding": "gzip"}


def test_copies_count_down_and_record_each_status() -> None:
    faults = MetFault("id", Truncate(), Act(copies=3))
    copies = RequestCopies(faults, head(), b"message", tool_call=False)
    for left in (1, 0):
        copies.reader.feed(b"HTTP/1.1 204 No Content\r\n\r\n")
        assert copies.reader.done
        copies.next_copy()
        assert copies.left == left
    assert faults.injected and faults.evidence == {"statuses": [204, 204]}


def test_answer_needs_no_upstream() -> None:
    faults = MetFault("id", Truncate(), Act(answer=json_reply(418, {})))
    assert Plan([faults], faults).answers and not Plan([faults], None, [faults]).answers
