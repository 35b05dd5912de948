"""Bedrock's converse: AWS event streams with checksums, error types in headers."""

from __future__ import annotations

import json
import struct
from zlib import crc32

import pytest

from tests.dialects.forms import CALL, TEXT, Form, events
from wirefault.dialects.base import error_reply, reply_body
from wirefault.dialects.bedrock import BEDROCK
from wirefault.dialects.http import Reply, Request, json_reply, value_of
from wirefault.dialects.outages import model_outage
from wirefault.dialects.stream_forms import AWS_EVENT_STREAM, Frame, read_frame
from wirefault.dialects.token_usage import TokenUsage, read_events_usage, read_usage
from wirefault.gateway.exchange.reply_changes import EventSplitter

FRAMES = (("Content-Type", "application/vnd.amazon.eventstream"),)
STREAM = Form("bedrock", True)
# "Empty payload" and "payload without headers", byte for byte as AWS's encoders write them.
EMPTY = bytes.fromhex("00000010 00000000 05c248eb 7d98c8ff")
NO_HEADERS = bytes.fromhex("0000001d 00000000 fd528c5a 7b27666f6f273a27626172277d c3653936")


def frame(payload: bytes, **headers: str) -> bytes:
    """A frame made without code of the product."""
    encoded = b""
    for key, value in headers.items():
        name = f":{key.replace('_', '-')}".encode()
        encoded += bytes([len(name)]) + name + b"\x07" + struct.pack(">H", len(value)) + value.encode()
    head = struct.pack(">II", 16 + len(encoded) + len(payload), len(encoded))
    head += struct.pack(">I", crc32(head)) + encoded + payload
    return head + struct.pack(">I", crc32(head))


CALL_START = {"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": "t", "name": "f"}}}


def test_frames_equal_aws_encoding() -> None:
    assert read_frame(EMPTY) == Frame({}, b"") and Frame({}, b"").encoded() == EMPTY
    assert read_frame(NO_HEADERS) == Frame({}, b"{'foo':'bar'}")
    assert Frame({}, b"{'foo':'bar'}").encoded() == NO_HEADERS
    assert Frame({":event-type": "metadata"}, b"{}").encoded() == frame(b"{}", event_type="metadata")


def test_other_header_types_are_skipped() -> None:
    headers = b"\x01a\x00\x01b\x04\0\0\0\x05\x01c\x06\0\x02xy\x01d\x07\0\x01z"
    head = struct.pack(">II", 16 + len(headers), len(headers))
    head += struct.pack(">I", crc32(head)) + headers
    assert read_frame(head + struct.pack(">I", crc32(head))) == Frame({"d": "z"}, b"")


@pytest.mark.parametrize("at", range(len(NO_HEADERS)))
def test_damaged_frame_is_none(at: int) -> None:
    damaged = bytearray(NO_HEADERS)
    damaged[at] ^= 1
    assert read_frame(bytes(damaged)) is None and read_frame(NO_HEADERS[:at]) is None


def test_frames_split_at_any_chunk_boundary() -> None:
    body = STREAM.reply(CALL).body
    for size in (1, 7, len(body)):
        splitter = EventSplitter(AWS_EVENT_STREAM)
        parts = [body[at : at + size] for at in range(0, len(body), size)]
        assert [event for part in parts for event in splitter.feed(part)] == events(CALL, STREAM)
        assert splitter.rest == b""


def test_handmade_stream_is_read() -> None:
    stream = b"".join(
        frame(json.dumps(value).encode(), event_type=kind, message_type="event")
        for kind, value in [
            ("messageStart", {"role": "assistant", "p": "abc"}),
            ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "I "}}),
            ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "look."}}),
            ("contentBlockStop", {"contentBlockIndex": 0}),
            (
                "contentBlockStart",
                {"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": "t", "name": "f"}}},
            ),
            ("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"toolUse": {"input": '{"a"'}}}),
            ("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"toolUse": {"input": ": 1}"}}}),
            ("messageStop", {"stopReason": "tool_use", "p": "ab"}),
            ("metadata", {"usage": {"inputTokens": 9, "outputTokens": 7, "totalTokens": 16}}),
        ]
    )
    reply = Reply(FRAMES, stream)
    body = reply_body(BEDROCK, reply)
    assert "p" not in body
    answer = BEDROCK.read_reply(body)
    assert (answer.text, answer.finish) == ("I look.", "tool_calls")
    assert [(call.id, call.name, json.loads(call.arguments)) for call in answer.calls] == [
        ("t", "f", {"a": 1})
    ]
    usage = read_events_usage(reply.events())
    assert usage == read_usage(body) and usage != TokenUsage()
    assert model_outage(BEDROCK, reply, whole=True) == ""


def test_model_is_read_from_path() -> None:
    request = Request(method="POST", target="/model/us.anthropic.claude%3A0/converse").with_json({})
    assert BEDROCK.read_request(request).model == "us.anthropic.claude:0"


@pytest.mark.parametrize(
    ("kind", "status", "type"),
    [
        ("rate_limit", 429, "ThrottlingException"),
        ("forbidden", 403, "AccessDeniedException"),
        ("server_error", 500, "InternalServerException"),
    ],
)
def test_error_type_is_header(kind: str, status: int, type: str) -> None:
    reply = error_reply(BEDROCK, kind, id="id-1")
    assert (reply.status, reply.header("x-amzn-errortype")) == (status, type)
    assert reply.header("x-amzn-requestid") == "id-1"
    assert list(reply.json_object()) == ["message"]
    assert model_outage(BEDROCK, reply, whole=True) == f"it answered {status}"


def test_refused_request_is_caller_error() -> None:
    invalid = json_reply(400, {"message": "Too long"}, {"x-amzn-ErrorType": "ValidationException:http://x"})
    assert model_outage(BEDROCK, invalid, whole=True) == ""
    throttled = json_reply(400, {"message": "Slow down"}, {"x-amzn-ErrorType": "ThrottlingException"})
    assert model_outage(BEDROCK, throttled, whole=True) == "it answered 400"


def test_exception_in_stream_is_outage() -> None:
    bad = frame(
        b'{"message": "Try again"}', exception_type="modelStreamErrorException", message_type="exception"
    )
    reply = STREAM.reply(TEXT).with_body(b"".join([*events(TEXT, STREAM)[:2], bad]))
    assert value_of(bad) == {"message": "Try again"}
    assert model_outage(BEDROCK, reply, whole=True) == "it answered 200 with an error: Try again"
    with pytest.raises(ValueError, match="exception"):
        reply_body(BEDROCK, reply)
