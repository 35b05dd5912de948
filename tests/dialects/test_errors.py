"""Errors in the form of each dialect."""

from __future__ import annotations

import pytest

from wirefault.dialects import Dialect
from wirefault.dialects.base import error_reply
from wirefault.dialects.http import Reply
from wirefault.dialects.openai_chat import OPENAI_CHAT
from wirefault.dialects.registry import DIALECTS, MODEL_DIALECTS
from wirefault.dialects.tool import TOOL

VALUES = {"tokens": 9, "limit": 8, "failed_generation": "<{x}>"}


def reply(dialect: Dialect, kind: str) -> Reply:
    return error_reply(DIALECTS[dialect], kind, id="req_1", **VALUES)


def test_model_apis_share_errors_with_tools():
    names = [set(dialect.errors) for dialect in MODEL_DIALECTS.values()]
    assert names[0] == names[1] > set(TOOL.errors)


@pytest.mark.parametrize("kind", [name for name in OPENAI_CHAT.errors if name != "bad_gateway"])
def test_named_error_has_provider_form_on_model_link(kind):
    openai, anthropic = reply("openai_chat", kind), reply("anthropic", kind)
    assert set(openai.json()["error"]) >= {"message", "type", "param", "code"}
    assert openai.header("x-request-id") == "req_1"
    assert anthropic.json()["type"] == "error" and anthropic.json()["request_id"] == "req_1"
    assert anthropic.json()["error"]["type"].endswith("_error")


@pytest.mark.parametrize(
    ("dialect", "kind", "status", "type"),
    [
        ("anthropic", "overloaded", 529, "overloaded_error"),
        ("anthropic", "quota", 402, "billing_error"),
        ("openai_chat", "quota", 429, "insufficient_quota"),
        ("openai_chat", "overloaded", 503, "server_error"),
    ],
)
def test_provider_specific_names(dialect: Dialect, kind, status, type):
    error = reply(dialect, kind)
    assert (error.status, error.json()["error"]["type"]) == (status, type)


def test_bad_gateway_before_model_is_page_not_json():
    error = reply("openai_chat", "bad_gateway")
    assert error.header("content-type") == "text/html" and error.body.startswith(b"<html>")


def test_generated_text_is_quoted_unchanged():
    assert reply("openai_chat", "tool_use_failed").json()["error"]["failed_generation"] == "<{x}>"
    assert reply("anthropic", "tool_use_failed").json()["error"]["message"].endswith(" <{x}>")
