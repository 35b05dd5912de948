"""Replies that faults read and change, in any pieces."""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirefault.core.identity import body_digest
from wirefault.dialects.http import Reply, Request, Step, chunk
from wirefault.faults.base import Act, Changed, Miss
from wirefault.faults.catalogue.http.body import Truncate
from wirefault.faults.plan import MetFault
from wirefault.gateway.exchange.carrier import SentReply
from wirefault.gateway.exchange.record import fault_met
from wirefault.gateway.exchange.reply_changes import EventSplitter, ReplyChanges
from wirefault.gateway.http1.heads import read_request
from wirefault.gateway.http1.messages import Unreadable, decoded, reframed, reply_of, request_of
from wirefault.history.events import Exchange, FaultMet
from wirefault.history.lines import dump_event
from wirefault.history.reader import parse_line

BODY = st.binary(max_size=300)
HEAD = read_request(b"GET /a HTTP/1.1\r\nHost: x\r\nAccept:  */* \r\n\r\n")
STREAM = b"Content-Type: text/event-stream\r\n"


class Copying:
    """An editor that changes nothing."""

    ending = "keep"
    why_not = "nothing_to_change"
    evidence: dict[str, object] = {}  # noqa: RUF012

    def event(self, data: bytes) -> Sequence[Step]:
        return (data,)

    def end(self) -> Sequence[Step]:
        return ()


def changes(*acts: Act) -> ReplyChanges:
    candidates = [MetFault("id", Truncate(), act) for act in acts]
    return ReplyChanges(candidates, HEAD, keep_alive=True, swallow_continue=False)


def delivered(reply_changes: ReplyChanges, data: bytes, cuts: list[int]) -> bytes:
    """Return the client's bytes of a complete reply received in chunks."""
    at = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    steps: list[Step] = []
    for start, stop in pairwise(at):
        steps += reply_changes.feed(data[start:stop])[0]
    steps += (
        reply_changes.end()
        if reply_changes.done or reply_changes.reader.ends_by_close
        else reply_changes.fail()
    )
    return b"".join(step for step in steps if isinstance(step, bytes))


def framed(body: bytes, how: str, headers: bytes = b"") -> bytes:
    start = b"HTTP/1.1 200 OK\r\n" + headers
    if how == "sized":
        return start + b"Content-Length: %d\r\n\r\n" % len(body) + body
    if how == "to the end":
        return start + b"\r\n" + body
    pieces = b"".join(chunk(body[at : at + 7]) for at in range(0, len(body), 7))
    return start + b"Transfer-Encoding: chunked\r\n\r\n" + pieces + chunk(b"")


FRAMING = st.sampled_from(["sized", "to the end", "chunked"])
CUTS = st.lists(st.integers(0, 10_000), max_size=6)
MISS = Act(reply=lambda reply: Miss("nothing_to_change"))


@given(BODY, FRAMING, CUTS, st.sampled_from([b"", STREAM]))
def test_unchanged_reply_keeps_its_bytes(body: bytes, how: str, cuts: list[int], headers: bytes) -> None:
    data = framed(body, how, headers)
    assert delivered(changes(MISS), data, cuts) == data


@given(BODY, CUTS, st.integers(1, 2))
def test_interim_replies_pass_before_faulted_reply(body: bytes, cuts: list[int], count: int) -> None:
    interim = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * count
    changing = Act(reply=lambda reply: Changed(Reply(body=b"changed")))
    whole = delivered(changes(changing), framed(body, "sized"), [])
    assert delivered(changes(changing), interim + framed(body, "sized"), cuts) == interim + whole


@given(st.binary(max_size=200), CUTS)
def test_invalid_reply_passes_byte_by_byte(data: bytes, cuts: list[int]) -> None:
    assert delivered(changes(MISS), data, cuts) == data


@given(BODY, FRAMING, CUTS)
def test_fault_sees_whole_body_in_any_framing(body: bytes, how: str, cuts: list[int]) -> None:
    seen: list[Reply] = []

    def note(reply: Reply) -> Changed:
        seen.append(reply)
        return Changed(reply)

    got = delivered(changes(Act(reply=note)), framed(body, how, b"X-A: b\r\n"), cuts)
    assert seen == [Reply((("X-A", "b"),), body)]
    assert got == b"HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: %d\r\n\r\n" % len(body) + body


@given(st.binary(max_size=300), FRAMING, CUTS, st.booleans())
def test_unedited_event_stream_is_unchanged(body: bytes, how: str, cuts: list[int], packed: bool) -> None:
    headers = STREAM + (b"Content-Encoding: gzip\r\n" if packed else b"")
    data = framed(gzip.compress(body) if packed else body, how, headers)
    got = delivered(changes(Act(events=Copying)), data, cuts)
    sent_reply = SentReply(HEAD)
    sent_reply.take(got)
    assert sent_reply.whole and sent_reply.digest == body_digest(body)


@given(st.lists(st.sampled_from([b"\n", b"\r", b"\r\n", b"data: x", b"\n\n"]), max_size=20), CUTS)
def test_events_are_split_at_blank_lines_without_loss(parts: list[bytes], cuts: list[int]) -> None:
    data, splitter = b"".join(parts), EventSplitter()
    at = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    events = [e for a, b in pairwise(at) for e in splitter.feed(data[a:b])]
    assert b"".join(events) + splitter.rest == data
    assert all(event.endswith((b"\n\n", b"\r\r", b"\r\n\r\n")) for event in events)


RAW = zlib.compressobj(wbits=-15)
PACKED = [
    ("", b"hi"),
    ("identity", b"hi"),
    ("gzip", gzip.compress(b"hi", mtime=0)),
    ("x-gzip", gzip.compress(b"h", mtime=0) + gzip.compress(b"i", mtime=0)),
    ("deflate", zlib.compress(b"hi")),
    ("deflate", RAW.compress(b"hi") + RAW.flush()),
]


@pytest.mark.parametrize(("encoding", "body"), PACKED)
def test_supported_content_encodings(encoding: str, body: bytes) -> None:
    assert decoded(body, encoding, 100) == b"hi"


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("br", b""),
        ("gzip, gzip", b""),
        ("gzip", b"no gzip at all"),
        ("gzip", gzip.compress(b"hi", mtime=0)[:-9]),
        ("gzip", gzip.compress(bytes(101), mtime=0)),
        ("deflate", b"\xff\xff\xff"),
    ],
)
def test_unsupported_content_encodings(encoding: str, body: bytes) -> None:
    with pytest.raises(Unreadable):
        decoded(body, encoding, 100)


@given(BODY, st.sampled_from(["gzip", "deflate"]))
def test_arbitrary_body_never_breaks_decoder(body: bytes, encoding: str) -> None:
    with suppress(Unreadable):
        decoded(body, encoding, 1000)


def test_request_view_of_faults() -> None:
    request = request_of(HEAD, b"body")
    assert request == Request((("Host", "x"), ("Accept", "*/*")), b"body", "GET", "/a")
    head, body = reframed(request, HEAD)
    assert head.lines == [b"GET /a HTTP/1.1", b"Host: x", b"Accept: */*", b"Content-Length: 4"]
    assert body == b"body"


@pytest.mark.parametrize(
    "request_",
    [
        Request((("A\r\nB", "c"),)),
        Request((("A", "\nB: c"),)),
        Request(target="/ /"),
        Request(target="/\u20ac"),
        Request(method="GET /x"),
        Request((("Host", "a"), ("Host", "b"))),
    ],
)
def test_invalid_changed_request_is_error(request_: Request) -> None:
    with pytest.raises(ValueError):
        reframed(request_, HEAD)


def test_custom_reason_phrase_is_kept() -> None:
    assert reply_of(b"HTTP/1.1 200 Fine\r\n\r\n").reason == "Fine"
    assert reply_of(b"HTTP/1.1 404 Not Found\r\n\r\n").reason == ""


DEEP: object = 1
for _ in range(900):
    DEEP = [DEEP]


VALUES = [math.nan, -math.inf, DEEP, 10**400, 10**5000, "\ud800", b"\xff", {1: {2}}, "x" * 99_999, None]


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_arbitrary_evidence_round_trips(value: object) -> None:
    record = fault_met(MetFault("id", Truncate(), evidence={"value": value}, injected=True), 0.0)
    line = dump_event(Exchange(1.0, "e", 1, "search", "GET", "/", 1, 1.0, 200, 1, 1, faults=[record]))
    event = parse_line(line, __file__, 1)  # type: ignore[arg-type]
    assert isinstance(event, Exchange) and isinstance(event.faults[0], FaultMet)
    assert len(line) < 40_000
