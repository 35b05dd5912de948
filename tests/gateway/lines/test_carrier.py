"""Messages as lines, at the client and at the server."""

from __future__ import annotations

from typing import Any

import pytest

from wirefault.dialects.http import Reply, ReplyInPieces, Request, json_reply, write_event
from wirefault.faults.base import Act
from wirefault.faults.catalogue.http.body import Truncate
from wirefault.faults.plan import MetFault, Plan
from wirefault.gateway.endpoint import Endpoint
from wirefault.gateway.exchange.carrier import SentReply
from wirefault.gateway.http1.heads import RequestHead
from wirefault.gateway.lines.carrier import LineCarrier, event_part, response_part

HEAD = RequestHead("POST", "/", [b""], 0)
RESULT = {"jsonrpc": "2.0", "id": 1, "result": {}}
LINE = b'{"jsonrpc": "2.0", "id": 1, "result": {}}\n'
BODY = LINE[:-1]
EVENTS = Reply((("Content-Type", "text/event-stream"),))


def deliver(reply: Reply | ReplyInPieces, line_end: bytes = b"\n") -> tuple[list[Any], str, SentReply]:
    """The client's part of the reply, its ending, and its observers."""
    carrier = LineCarrier(b"")
    carrier.line_end = line_end
    steps, ending = carrier.steps_of(reply, keep_alive=True, head_only=False)
    reads = SentReply(HEAD, carrier)
    written = [reads.take(step) if isinstance(step, bytes) else step for step in steps]
    reads.end(ending, keep_alive=True)
    return written, ending, reads


def test_whole_reply_line_keeps_server_line_end():
    assert deliver(json_reply(200, RESULT))[0] == [LINE]
    assert deliver(json_reply(200, RESULT), b"\r\n")[0] == [BODY + b"\r\n"]
    assert deliver(Reply(body=b'{"a":\n1}'))[0] == [b'{"a": 1}\n']
    assert deliver(json_reply(500, RESULT))[2].status == 500


@pytest.mark.parametrize("reply", [Reply(status=202), Reply(body=b"{}", status=204)])
def test_reply_without_body_gives_no_line_and_is_whole(reply: Reply):
    written, ending, reads = deliver(reply)
    assert b"".join(written) == b"" and ending == "keep" and reads.whole


def test_events_with_data_are_lines():
    stream = (b": hello\n\n", 0.5, write_event(RESULT, "message"))
    written, ending, reads = deliver(ReplyInPieces(EVENTS, stream, "keep"))
    assert written == [0.5, LINE] and ending == "keep" and reads.whole


@pytest.mark.parametrize(("ending", "expected"), [("keep", "hang"), ("close", "close"), ("reset", "reset")])
def test_reply_without_line_leaves_client_waiting(ending: Any, expected: str):
    written, end, reads = deliver(ReplyInPieces(EVENTS, (b": nothing\n\n",), ending))
    assert not written and end == expected and not reads.whole


def test_cut_line_lacks_its_end():
    written, _, reads = deliver(ReplyInPieces(Reply(), (BODY[:5],), "close", len(BODY)))
    assert written == [BODY[:5]] and reads.shows() == {"lost": True, "closed": True}


def test_slow_line_has_its_end_after_last_piece():
    written, _, reads = deliver(ReplyInPieces(Reply(), (BODY[:5], 0.1, BODY[5:]), "keep", len(BODY)))
    assert written == [BODY[:5], 0.1, BODY[5:] + b"\n"] and reads.whole


def test_headless_chunks_pass_unchanged():
    written, _, reads = deliver(ReplyInPieces(None, (b"log\n", LINE[:5]), "keep"))
    assert written == [b"log\n", LINE[:5]] and reads.whole


def request(act: Act) -> tuple[bytes, MetFault]:
    fault = MetFault("id", Truncate(), act)
    endpoint = Endpoint("stdio", 0, b"stdio")
    line = b' {"id":7}\r\n'
    plan = Plan([fault], fault)
    return LineCarrier(line).request_for(HEAD, line.strip(b"\r\n"), plan, endpoint, b"")[1], fault


def test_unchanged_line_keeps_its_bytes():
    assert request(Act(copies=2))[0] == b' {"id":7}\r\n'


def test_changed_request_is_one_line():
    line, fault = request(Act(request=Request(body=b'{"id":\n8}')))
    assert line == b'{"id": 8}\n' and fault.injected


def test_response_completes_reply_and_notification_does_not():
    assert response_part(LINE).last and response_part(LINE).body == BODY
    assert event_part(LINE).last and event_part(LINE).body == b"data: " + BODY + b"\n\n"
    assert not event_part(b'{"jsonrpc": "2.0", "method": "notifications/progress"}\n').last
