"""The token counts of a reply, in each provider's form."""

from __future__ import annotations

from typing import Any

import pytest

from wirefault.dialects.http import write_event
from wirefault.dialects.token_usage import TokenUsage, may_have_usage, read_stream_usage, read_usage

GEMINI = {
    "promptTokenCount": 9,
    "toolUsePromptTokenCount": 1,
    "candidatesTokenCount": 7,
    "thoughtsTokenCount": 5,
}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"model": "a", "usage": {"prompt_tokens": 9, "completion_tokens": 7}}, TokenUsage("a", 9, 7)),
        ({"model": "a", "usage": {"input_tokens": 9, "output_tokens": 7}}, TokenUsage("a", 9, 7)),
        ({"model": "a", "usage": {"input_tokens": 9, "cache_read_input_tokens": 4}}, TokenUsage("a", 13)),
        ({"modelVersion": "g", "usageMetadata": GEMINI}, TokenUsage("g", 10, 12)),
        ([{"usageMetadata": {"promptTokenCount": 9}}, {"usageMetadata": GEMINI}], TokenUsage("", 10, 12)),
        ({"model": "a", "usage": None, "x_groq": {"usage": {"prompt_tokens": 2}}}, TokenUsage("a", 2)),
        ({"usage": {"prompt_tokens": "9", "completion_tokens": -1}}, TokenUsage()),
        ({"usage": {"prompt_tokens": True, "completion_tokens": 2**60}}, TokenUsage()),
        ("usage", TokenUsage()),
    ],
)
def test_token_fields_of_each_provider_are_read(body: Any, expected: TokenUsage):
    assert read_usage(body) == expected


def stream(*values: Any) -> TokenUsage:
    return read_stream_usage(b"".join(map(write_event, values)))


def test_anthropic_reports_input_first_and_output_last():
    begun = {
        "type": "message_start",
        "message": {"model": "c", "usage": {"input_tokens": 9, "output_tokens": 1}},
    }
    assert stream(begun, {"usage": {"output_tokens": 7}}) == TokenUsage("c", 9, 7)
    assert stream(begun) == TokenUsage("c", 9, None)


def test_responses_api_reports_tokens_last():
    begun = {"type": "response.created", "response": {"model": "r", "usage": None}}
    end = {"type": "response.completed", "response": {"model": "r", "usage": {"input_tokens": 9}}}
    assert stream(begun, end) == TokenUsage("r", 9)


def test_last_running_count_wins():
    chunks = [
        {"usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": count}} for count in (1, 2, 3)
    ]
    assert stream(*chunks) == TokenUsage("", 9, 3)


def test_body_without_usage_is_not_parsed():
    empty = write_event({"usage": None, "choices": [{"delta": {"content": '"usage": {'}}]})
    assert not may_have_usage(empty) and stream({"usage": None}) == TokenUsage()


def test_chunk_framing_is_not_part_of_event():
    event = write_event({"usage": {"prompt_tokens": 9}})
    assert read_stream_usage(b"\r\n8\r\n" + event[:8] + b"\r\n2f\r\n" + event[8:]) == TokenUsage("", 9)
