"""MCP over stdio: a message is a line."""

from __future__ import annotations

from wirefault.dialects.mcp import line_event, line_of, step_lines

LINE = b'{"jsonrpc": "2.0", "id": 1, "result": {}}\n'


def test_multi_line_message_becomes_one_line():
    assert line_of(b'{"a":\n1}\r\n') == b'{"a": 1}\n'
    assert line_of(b"no\nJSON") == b"no\nJSON\n"


def test_event_with_data_becomes_line():
    assert step_lines([line_event(LINE), 0.5, b": nothing\n\n"]) == [LINE, 0.5]
