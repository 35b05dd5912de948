"""The form that a request asks its reply to have: text, JSON, a call of a chosen tool."""

import pytest

from tests.model_server.exchange import CITY, DONE, REPORT, WEATHER, form, reply_to, tool


@pytest.mark.parametrize(
    ("more", "content"),
    [
        ({}, DONE.text),
        ({"response_format": {"type": "text"}}, DONE.text),
        ({"response_format": form(CITY)}, '{"city": "Paris"}'),
        (
            {"response_format": {"type": "json_object"}},
            '{"status": "done", "answer": "It is 8.4 celsius in Paris.", '
            '"values": [{"value": 8.4, "unit": "celsius"}]}',
        ),
        ({"tools": [tool(WEATHER)], "tool_choice": "none"}, DONE.text),
        ({"max_tokens": 1, "temperature": 2, "stop": ["is"]}, DONE.text),
    ],
)
def test_text_has_requested_form(url, more, content):
    assert reply_to(url, **more)["content"] == content


@pytest.mark.parametrize(
    ("tools", "choice", "name"),
    [
        ([WEATHER, REPORT], None, "get_weather"),
        ([WEATHER, REPORT], "required", "get_weather"),
        ([WEATHER, REPORT], {"type": "function", "function": {"name": "get_weather"}}, "get_weather"),
        ([WEATHER, REPORT], {"type": "function", "function": {"name": "Report"}}, "Report"),
        ([REPORT], "required", "Report"),
        ([{**REPORT, "name": "Failure", "parameters": {}}, REPORT], "any", "Report"),
    ],
)
def test_tool_choice_is_respected(url, tools, choice, name):
    message = reply_to(url, tools=[*map(tool, tools)], tool_choice=choice)
    assert [call["function"]["name"] for call in message["tool_calls"]] == [name]
