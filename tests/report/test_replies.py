"""Both sides of a faulted reply, as a table."""

from __future__ import annotations

import json
from io import StringIO

from rich.console import Console

from wirefault.judging.both_sides import words_in
from wirefault.report import replies
from wirefault.report.replies import Replies, print_replies


def chat(**message: object) -> str:
    return json.dumps({"choices": [{"message": message}]})


def test_words_of_a_reply() -> None:
    call = {"function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
    report = {"function": {"name": "Report", "arguments": '{"answer": "It is done."}'}}
    assert words_in(chat(content="Hello")) == "Hello"
    assert words_in(chat(content=None, tool_calls=[call])) == 'get_weather({"city": "Paris"})'
    assert words_in(chat(content=None, tool_calls=[report])) == "It is done."
    assert words_in("<html>") == "<html>" and words_in("[]") == "[]" and words_in(chat()) == ""


def test_table_shows_every_column_at_110_characters(monkeypatch) -> None:
    row = Replies("service_unavailable.mitigated", "a " * 90, "nothing", "\x1b[31mred", "false_success", 1, 2)
    monkeypatch.setattr(replies, "replies_of", lambda recording: [row])
    console = Console(width=110, file=StringIO(), record=True)
    print_replies(console, None)  # type: ignore[arg-type]
    text = console.export_text()
    assert all(word in text for word in (row.arm, "false_success", "1 of 2", "upstream", "agent got", "..."))
    assert "\x1b" not in text and "…" not in text
