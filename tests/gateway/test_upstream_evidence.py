"""Faults that change or repeat a request: whether the upstream shows that it got the result."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.gateway.lab import ask as ask_raw
from tests.gateway.lab import gateway
from tests.gateway.scripted import GET, UPSTREAM_REPLY, armed, only, sized
from tests.upstream import Upstream, requests_of
from wirefault.history.events import FaultMet

pytestmark = pytest.mark.usefixtures("scripted_faults")
LAST_GET = GET.replace(b"Host", b"Connection: close\r\nHost")
CUT = sized(UPSTREAM_REPLY)[:-3]


def giving(*replies: bytes) -> Upstream:
    """An upstream that sends these replies in turn, and closes after an incomplete one."""
    left = list(replies)

    def serve(connection: socket.socket) -> None:
        for _ in requests_of(connection):
            reply = left.pop(0)
            connection.sendall(reply)
            if not reply.endswith(UPSTREAM_REPLY):
                return

    return Upstream(serve)


def met_by(folder: Path, does: str, *replies: bytes) -> FaultMet:
    with giving(*replies) as upstream, gateway(folder, search=upstream.address) as lab:
        lab.begin(faults=armed(does))
        ask_raw(lab.address("search"), LAST_GET)
        return only(lab)


@pytest.mark.parametrize(
    ("replies", "statuses", "answered"),
    [
        ((sized(UPSTREAM_REPLY),) * 2, [200, 200], True),
        (
            (sized(UPSTREAM_REPLY), CUT),
            [200, 200],
            True,
        ),  # it was executed, whether or not the reply came
        ((sized(UPSTREAM_REPLY), b""), [200], False),
    ],
)
def test_second_copy_counts_once_its_reply_has_begun(
    tmp_path: Path, replies: tuple[bytes, ...], statuses: list[int], answered: bool
) -> None:
    hit = met_by(tmp_path, "twice", *replies)
    assert (hit.injected, hit.evidence["statuses"], hit.answered) == (
        True,
        statuses,
        answered,
    )


def test_broken_first_copy_prevents_second(tmp_path: Path) -> None:
    hit = met_by(tmp_path, "twice", CUT)
    assert (hit.injected, hit.why_not, hit.answered) == (False, "upstream_failed", False)


@pytest.mark.parametrize(("reply", "answered"), [(sized(UPSTREAM_REPLY), True), (b"", False)])
def test_answer_to_changed_request_is_recorded(tmp_path: Path, reply: bytes, answered: bool) -> None:
    hit = met_by(tmp_path, "request", reply)
    assert (hit.injected, hit.answered) == (True, answered)


def test_changed_request_without_upstream_is_unanswered(tmp_path: Path) -> None:
    with gateway(tmp_path) as lab:
        lab.begin(faults=armed("request"))
        ask_raw(lab.address("search"), LAST_GET)
        assert (lab.exchange().status, only(lab).answered) == (502, False)
