"""Faults that change an upstream's reply, and replies that stay unchanged."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import requests

from tests.gateway.lab import Lab, dial, gateway
from tests.gateway.scripted import CLOSED, GET, UPSTREAM_REPLY, ScriptedUpstream, armed, ask, only, sized
from tests.upstream import Upstream, read_all, read_head
from wirefault.core.identity import body_digest
from wirefault.gateway.exchange.reply_changes import MAX_BUFFERED_REPLY

pytestmark = pytest.mark.usefixtures("scripted_faults")


@pytest.fixture
def lab(lab_of_service: Lab) -> Lab:
    return lab_of_service


def test_changed_reply(lab: Lab, service: ScriptedUpstream) -> None:
    service.reply = sized(UPSTREAM_REPLY, b"X-Kept: yes")
    lab.begin(faults=armed("reply"))
    reply = ask(lab)
    assert (reply.json(), reply.headers["X-Kept"]) == ({"n": 2}, "yes")
    assert int(reply.headers["Content-Length"]) == len(reply.content)
    hit = only(lab)
    assert (hit.shows, hit.content) == (
        {"status": 200, "digest": body_digest(reply.content)},
        True,
    )
    assert hit.evidence["was"] == {"n": 1} and hit.evidence["accept_encoding"]
    assert b"Accept-Encoding: identity" in service.requests[0] and lab.exchange().forwarded


def test_lost_reply_was_executed(lab: Lab, service: ScriptedUpstream) -> None:
    lab.begin(faults=armed("lose reply"))
    with pytest.raises(requests.ConnectionError):
        ask(lab)
    record, hit = lab.exchange(), only(lab)
    assert (record.forwarded, record.status, hit.shows) == (True, None, CLOSED)
    assert len(service.requests) == 1


def test_compressed_reply_is_read(lab: Lab, service: ScriptedUpstream) -> None:
    service.reply = sized(gzip.compress(UPSTREAM_REPLY), b"Content-Encoding: gzip")
    lab.begin(faults=armed("reply"))
    reply = ask(lab)
    assert reply.json() == {"n": 2} and "Content-Encoding" not in reply.headers


def test_unknown_compression_passes(lab: Lab, service: ScriptedUpstream) -> None:
    service.reply = sized(b"???", b"Content-Encoding: zstd")
    lab.begin(faults=armed("reply"))
    with dial(lab.address("search")) as client:
        client.sendall(GET)
        assert read_all(client, len(service.reply)) == service.reply
    assert only(lab).why_not == "unreadable"


CHUNKED = (
    b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    b"HTTP/1.1 200 Fine\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n"
    b'4;ext=1\r\n{"n"\r\n4\r\n: 1}\r\n0\r\nTrailer: x\r\n\r\n'
)


def test_chunked_reply_and_interim_replies_are_read(lab: Lab, service: ScriptedUpstream) -> None:
    service.reply = CHUNKED
    lab.begin(faults=armed("reply"))
    with dial(lab.address("search")) as client:
        client.sendall(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        got = read_all(client)
    assert got.startswith(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 Fine\r\n")
    assert got.endswith(b'Content-Length: 8\r\nConnection: close\r\n\r\n{"n": 2}')


TO_THE_END = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nto the end"


@pytest.mark.parametrize("reply", [CHUNKED, b"HTTP/1.1 204 No Content\r\n\r\n", TO_THE_END])
def test_unchanged_reply_passes_byte_by_byte(lab: Lab, service: ScriptedUpstream, reply: bytes) -> None:
    service.reply = reply
    lab.begin(faults=armed("reply miss"))
    with dial(lab.address("search")) as client:
        client.sendall(GET)
        assert read_all(client, len(reply)) == reply
        assert lab.exchange().reply_complete and only(lab).why_not == "no_tool_result_to_change"


@pytest.mark.parametrize("does", ["reply", "events"])
@pytest.mark.parametrize(
    "reply", [b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\nhalf", b""]
)
def test_broken_reply_is_not_changed(tmp_path: Path, does: str, reply: bytes) -> None:
    upstream = Upstream(lambda connection: (read_head(connection), connection.sendall(reply)))
    with gateway(tmp_path, search=upstream.address) as lab:
        lab.begin(faults=armed(does))
        with dial(lab.address("search")) as client:
            client.sendall(GET)
            assert read_all(client) == reply
        why_not = "not_a_stream" if reply and does == "events" else "upstream_failed"
        assert only(lab).why_not == why_not and "the upstream closed" in (lab.exchange().error or "")
    upstream.close()


def test_upstream_down_leaves_reply_faults_uninjected(tmp_path: Path) -> None:
    with gateway(tmp_path) as lab:
        lab.begin(faults=armed("reply"))
        assert ask(lab).status_code == 502
        assert (only(lab).why_not, only(lab).shows) == ("upstream_failed", None)


def test_oversized_reply_passes_unchanged(lab: Lab, service: ScriptedUpstream) -> None:
    service.reply = sized(bytes(MAX_BUFFERED_REPLY + 1))
    lab.begin(faults=armed("reply"))
    assert len(ask(lab).content) == MAX_BUFFERED_REPLY + 1
    assert only(lab).why_not == "too_large"


def test_earlier_replies_are_remembered(lab: Lab, service: ScriptedUpstream) -> None:
    lab.begin(faults=armed("earlier", fault="reads"))
    assert ask(lab).content == UPSTREAM_REPLY
    service.reply = sized(b'{"n": 3}')
    assert ask(lab).content == UPSTREAM_REPLY
    first, second = lab.exchanges(2)
    assert [one.faults[0].why_not for one in (first, second)] == ["no_earlier_answer", None]
    assert (first.forwarded, second.forwarded) == (True, False)


def test_cut_reply_closes_connection(lab: Lab) -> None:
    lab.begin(faults=json.dumps({"faults": [{"fault": "truncate", "with": {"at_byte": 3}}]}))
    with dial(lab.address("search")) as client:
        client.sendall(GET)
        assert read_all(client).endswith(b"\r\n\r\n" + UPSTREAM_REPLY[:3])
    assert (only(lab).evidence["cut_at"], only(lab).shows) == (3, CLOSED)
