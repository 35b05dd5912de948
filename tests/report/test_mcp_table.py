"""What clients of MCP made of a fault, as its page says it."""

from __future__ import annotations

from wirefault.report.mcp_table import told_by_clients

SEEN = {
    "tool_error": {"Python": "tool error", "TypeScript": "tool error"},
    "tool_error (executed: true)": {"Python": "tool error", "TypeScript": "silent", "Other": "silent"},
    "split_line": {"Python": "not injected: not_a_line", "TypeScript": "not injected: not_a_line"},
}


def test_each_way_that_was_tried_is_a_line() -> None:
    assert list(told_by_clients("tool_error", SEEN)) == [
        "- `tool_error`: all: *tool error*",
        "- `tool_error (executed: true)`: Python: *tool error*; TypeScript, Other: *silent*",
    ]


def test_what_struck_nobody_is_not_told() -> None:
    assert list(told_by_clients("split_line", SEEN)) == []
