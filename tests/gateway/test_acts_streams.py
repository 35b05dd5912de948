"""Faults that change an event stream."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest
import requests

from tests.gateway.lab import Lab, dial, gateway
from tests.gateway.scripted import (
    CLOSED,
    EVENTS,
    GET,
    STREAM,
    UPSTREAM_REPLY,
    ScriptedUpstream,
    armed,
    ask,
    only,
    stream,
)
from tests.support import PATIENCE_S
from tests.upstream import Upstream, read_head
from wirefault.core.identity import body_digest
from wirefault.dialects.http import chunk

pytestmark = pytest.mark.usefixtures("scripted_faults")


@pytest.fixture
def lab(lab_of_service: Lab) -> Lab:
    return lab_of_service


def test_event_stream_is_changed_event_by_event(tmp_path: Path) -> None:
    go_on = threading.Semaphore(0)

    def serve(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(STREAM)
        for event in EVENTS:
            connection.sendall(chunk(event[:5]))
            connection.sendall(chunk(event[5:]))
            assert go_on.acquire(timeout=PATIENCE_S)
        connection.sendall(chunk(b""))

    upstream = Upstream(serve)
    with gateway(tmp_path, model=upstream.address) as lab:
        lab.begin(faults=armed("events", links="model"))
        with requests.get(lab.url("model"), stream=True, timeout=PATIENCE_S) as reply:
            lines = (line for line in reply.iter_lines(chunk_size=1) if line)
            for number in (0, 1, 1, 2):  # the upstream sends the next only after this one has come
                assert next(lines) == b"data: %d" % number
                go_on.release()
            assert list(lines) == []
        hit = only(lab)
        assert (hit.injected, hit.evidence["doubled"], hit.content) == (True, 2, True)
        assert (hit.shows or {})["digest"] == body_digest(EVENTS[0] + EVENTS[1] * 2 + EVENTS[2])
    upstream.close()


@pytest.mark.parametrize(
    ("does", "expected", "why_not"),
    [
        (["events"], [0, 1, 1, 2], [None]),
        (["reply miss", "events"], [0, 1, 1, 2], ["no_tool_result_to_change", None]),
        (["events", "upper"], [0, 1, 1, 2], [None, "already_faulted"]),
        (["events fail", "events"], [0, 1, 1, 2], ["failed", None]),
        (["events fail"], [0, 1, 2], ["failed"]),
    ],
)
def test_faults_of_event_stream(
    lab: Lab, service: ScriptedUpstream, does: list[str], expected: list[int], why_not: list[str | None]
) -> None:
    service.reply = stream(b"".join(EVENTS))
    lab.begin(faults=armed(*does))
    for number in (1, 2):
        assert ask(lab).content == b"".join(EVENTS[number] for number in expected)
        faults = lab.exchanges(number)[-1].faults
        assert [hit.why_not for hit in faults] == why_not
        assert all((hit.why_not == "failed") == (hit.detail == "ZeroDivisionError") for hit in faults)


@pytest.mark.parametrize("does", ["events", "events wait", "reply miss"])
def test_unread_event_stream_slows_upstream(tmp_path: Path, does: str) -> None:
    stuck, event = threading.Event(), chunk(b"data: %s\n\n" % (b"x" * 65000))

    def serve(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(STREAM)
        connection.settimeout(0.3)
        try:
            for _ in range(1000):
                connection.sendall(event)
        except TimeoutError:
            stuck.set()

    upstream = Upstream(serve)
    with gateway(tmp_path, model=upstream.address) as lab:
        lab.begin(faults=armed(does))
        with dial(lab.address("model")) as client:
            client.sendall(GET)
            assert stuck.wait(PATIENCE_S)
    upstream.close()


def test_event_stream_without_event_to_change(lab: Lab, service: ScriptedUpstream) -> None:
    service.reply = stream(EVENTS[0], b"data: no end")
    lab.begin(faults=armed("events"))
    assert ask(lab).content == EVENTS[0] + b"data: no end"
    assert only(lab).why_not == "nothing_to_change"


def test_editor_can_end_stream(lab: Lab, service: ScriptedUpstream) -> None:
    service.reply = stream(*EVENTS)
    lab.begin(faults=armed("events cut"))
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        ask(lab)
    assert (only(lab).shows, lab.exchange().reply_complete) == (CLOSED, False)


def test_fault_for_event_streams_needs_one(lab: Lab) -> None:
    lab.begin(faults=armed("events"))
    assert ask(lab).content == UPSTREAM_REPLY
    assert only(lab).why_not == "not_a_stream"
