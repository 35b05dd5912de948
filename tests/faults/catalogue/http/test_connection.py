"""hang, reset, lose_request, lose_reply, duplicate_request, truncate: effects on the exchange."""

from __future__ import annotations

import pytest

from tests.faults.tries import a_try, act_of, changed, done_to, why_not
from wirefault.core.errors import InputError
from wirefault.dialects.http import Reply, ReplyInPieces, Request
from wirefault.faults.base import Changed
from wirefault.faults.catalogue.http.body import Truncate
from wirefault.faults.catalogue.http.delivery import DuplicateRequest, Hang, LoseReply, LoseRequest, Reset
from wirefault.gateway.http1.messages import steps_of

REPLY = Reply(body=b"0123456789")


def play(fault, reply=REPLY) -> tuple[bytes, str]:
    """The bytes that the client gets, and the ending."""
    done = done_to(fault, reply)
    assert isinstance(done, Changed) and isinstance(done.reply, ReplyInPieces)
    steps = steps_of(done.reply, keep_alive=True, head_only=False)
    return b"".join(step for step in steps if isinstance(step, bytes)), done.reply.ending


@pytest.mark.parametrize(
    ("fault", "ending"),
    [
        (Hang(forwarded=False), "hang"),
        (Reset(at="connect"), "reset"),
        (LoseRequest(), "close"),
        (LoseRequest(then="hang"), "hang"),
    ],
    ids=str,
)
def test_request_never_reaches_upstream(fault, ending):
    act = act_of(fault)
    assert act.answer == ReplyInPieces(ending=ending) and act.reply is None


@pytest.mark.parametrize(
    ("fault", "ending"),
    [
        (Hang(), "hang"),
        (Reset(at="after_request"), "reset"),
        (LoseReply(), "close"),
        (LoseReply(then="hang"), "hang"),
    ],
    ids=str,
)
def test_upstream_executes_before_reply_is_lost(fault, ending):
    assert play(fault) == (b"", ending)
    assert done_to(fault, REPLY).evidence["upstream_status"] == 200


@pytest.mark.parametrize(
    ("fault", "ending"), [(Hang(at="mid_body"), "hang"), (Reset(at="mid_body"), "reset")], ids=str
)
def test_cut_body_keeps_full_content_length(fault, ending):
    written, end = play(fault)
    assert written.endswith(b"Content-Length: 10\r\n\r\n01234") and end == ending


def test_body_remainder_follows_headers():
    assert play(Hang(at="after_headers"), Reply())[0].endswith(b"Content-Length: 1\r\n\r\n")


@pytest.mark.parametrize("reply", [Reply(status=204), Reply(status=304)])
@pytest.mark.parametrize("fault", [Hang(at="after_headers"), Reset(at="mid_body")], ids=str)
def test_bodyless_reply_cannot_stop_inside(fault, reply):
    assert why_not(fault, reply) == "nothing_to_change"
    assert why_not(fault, REPLY, a_try(request=Request(method="HEAD"))) == "nothing_to_change"


def test_unforwarded_hang_has_no_reply_to_stop():
    with pytest.raises(InputError, match="before_headers"):
        Hang(forwarded=False, at="mid_body")


def test_duplicate_parameter_is_number_of_copies():
    assert act_of(DuplicateRequest(n=3)).copies == 3


def test_truncate_keeps_or_corrects_length():
    assert play(Truncate(at_byte=3)) == (
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n012",
        "close",
    )
    assert changed(Truncate(content_length="corrected"), REPLY)[0].body == b"01234"
    assert why_not(Truncate(at_byte=10), REPLY) == "nothing_to_change"
