"""MCP over stdio: faults see and return lines."""

from __future__ import annotations

from wirefault.dialects.http import RawReply, Reply, whole
from wirefault.dialects.mcp import (
    line_event,
    line_reply,
    line_request,
    lines_of_reply,
    step_lines,
)

LINE = b'{"jsonrpc": "2.0", "id": 1, "result": {}}\n'


def test_line_is_request_and_reply_of_json():
    assert line_request(LINE).json_object()["id"] == 1
    assert lines_of_reply(line_reply(LINE)) == ((LINE,), "keep")


def test_multi_line_body_becomes_one_line():
    assert lines_of_reply(Reply(body=b'{"a":\n1}\r\n'))[0] == (b'{"a": 1}\n',)


def test_reply_without_body_writes_nothing():
    assert lines_of_reply(Reply(status=202)) == ((), "keep")


def test_event_stream_is_line_for_each_event():
    stream = Reply((("Content-Type", "text/event-stream"),), b": hello\n\n" + line_event(LINE) * 2)
    assert lines_of_reply(stream) == ([LINE, LINE], "keep")
    assert step_lines([line_event(LINE), 0.5, b": nothing\n\n"]) == [LINE, 0.5]


def test_raw_reply_head_is_not_in_line():
    head, body = whole(line_reply(LINE))
    assert lines_of_reply(RawReply((head + body[:5],), "close")) == ([LINE[:5]], "close")
    assert lines_of_reply(RawReply((head, 0.1, body), "keep")) == ([0.1, body, b"\n"], "keep")
    assert lines_of_reply(RawReply(ending="hang")) == ([], "hang")
