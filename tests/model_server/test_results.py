"""Tool messages are data or failures; whatever may be an error is one."""

import json

import pytest

from wirefault.model_server.language import Failure, read_result

ERRORS = [
    "Error: get_wether is not a valid tool, try one of [get_weather].",
    "Error invoking tool 'x' with kwargs {} with error:\n city: Field required\n Fix it and try again.",
    "Permission denied",
    "Permission to delete refused for user 12",
    {"isError": True, "content": [{"type": "text", "text": "boom"}]},
    {"is_error": True},
    {"error": "quota"},
    {"errors": [{"message": "x"}]},
    {"errorMessage": "x", "errorType": "y"},
    {"detail": "Not Found"},
    {"detail": [{"loc": ["body", "city"], "msg": "Field required", "type": "missing"}]},
    [{"loc": ["city"], "msg": "Field required", "type": "missing"}],
    {"type": "about:blank", "title": "Forbidden", "status": 403},
    {"status": "failed"},
    {"status": "error", "message": "x"},
    {"success": False},
    {"ok": False, "reason": "x"},
    {"code": 500, "message": "x"},
    {"message": "You need to log in first"},
    {"msg": "no such record"},
    {"result": "The request could not be completed"},
    {"response": "user lacks the role"},
    {"data": None},
    {},
    "1 validation error for Order\nquantity\n  Input should be greater than 0",
    "Traceback (most recent call last): ...",
    "ToolException: boom",
    "HTTP 503",
    "404 Not Found",
    "Sorry, I can't do that",
    "Unknown tool: x",
    "Tool 'x' not found. Available tools: y",
    "Invalid arguments",
    "Rate limit reached, try again in 20 s",
    "The server did not respond",
    "Request timed out",
    "ECONNREFUSED: connection refused",
    "You exceeded your current quota",
    "This account is locked",
    "Oops",
    "",
    "null",
    None,
]


@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("content", ERRORS, ids=lambda content: str(content)[:30])
def test_errors_of_any_shape_are_recognised(content, writes):
    text = content if isinstance(content, str | None) else json.dumps(content)
    assert isinstance(read_result(text, writes), Failure)


@pytest.mark.parametrize(
    "content",
    ["hm", "42", "false", {"deleted": 0}, {"rows_affected": 0}, {"sent": False, "id": 3}, []],
    ids=str,
)
def test_write_needs_acknowledgement(content):
    text = content if isinstance(content, str) else json.dumps(content)
    assert isinstance(read_result(text, writes=True), Failure)
    assert not isinstance(read_result(text, writes=False), Failure)


@pytest.mark.parametrize(
    "content",
    [
        {"id": 7},
        {"status": "ok"},
        {"ticket": {"id": 4, "state": "open"}},
        "Message sent.",
        "Saved to a.txt",
        "true",
    ],
    ids=str,
)
def test_acknowledged_write_is_done(content):
    assert not isinstance(
        read_result(content if isinstance(content, str) else json.dumps(content), writes=True), Failure
    )


@pytest.mark.parametrize(
    "content",
    [
        {"temp": 8.4, "error": None},
        {"rows": [], "errors": []},
        {"items": [{"title": "Error handling in Go", "id": 1}], "total": 1},
        {"name": "Gwen", "phone": "+44 7700 900 500"},
        "12.5",
        [1, 2],
        "Paris, 8 degrees",
    ],
    ids=str,
)
def test_data_is_not_error(content):
    text = content if isinstance(content, str) else json.dumps(content)
    assert not isinstance(read_result(text, writes=False), Failure)


def test_known_tool_text_is_not_matched_for_errors():
    assert not isinstance(read_result('{"translated_text": "I am sorry"}', writes=False, known=True), Failure)
    assert isinstance(read_result('{"translated_text": "I am sorry"}', writes=False), Failure)


@pytest.mark.parametrize(
    ("content", "unknown"),
    [
        ({"error": {"code": "timeout", "message": "x", "side_effect": "unknown"}}, True),
        ({"error": {"code": "x", "message": "y", "side_effect": "none"}}, False),
        ("Permission denied", False),
        ("it broke", True),
    ],
)
def test_failed_write_effect_comes_from_error(content, unknown):
    text = content if isinstance(content, str) else json.dumps(content)
    assert read_result(text, writes=True).unknown_effect is unknown
