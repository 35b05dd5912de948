"""Whose an exception is that ended a subject's attempt: the network's, a server's, or the agent's own."""

from __future__ import annotations

import urllib.error
from email.message import Message

import groq
import httpx
import pytest
import requests

from wirefault.subjects.results import crash_result

REQUEST = httpx.Request("POST", "http://model/v1")
REPLY = httpx.Response(503, request=REQUEST)


def _from(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "error_class"),
    [
        (groq.APIConnectionError(request=REQUEST), "network"),
        (groq.APITimeoutError(request=REQUEST), "network"),
        (groq.InternalServerError("busy", response=REPLY, body=None), "server"),
        (groq.APIError("overloaded", request=REQUEST, body=None), "server"),
        (httpx.ReadTimeout("timed out"), "network"),
        (httpx.RemoteProtocolError("closed"), "network"),
        (httpx.HTTPStatusError("503", request=REQUEST, response=REPLY), "server"),
        (requests.ConnectionError("refused"), "network"),
        (requests.ReadTimeout("timed out"), "network"),
        (requests.HTTPError("503"), "server"),
        (urllib.error.HTTPError("http://tool", 503, "busy", Message(), None), "server"),
        (urllib.error.URLError("no such host"), "network"),
        (ConnectionResetError(104, "reset"), "network"),
        (TimeoutError("timed out"), "network"),
        (_from(RuntimeError("the tool failed"), requests.ConnectionError("refused")), "network"),
        (KeyError("city"), "agent"),
        (FileNotFoundError(2, "no such file"), "agent"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value,
)
def test_an_exception_is_classed_by_what_failed(error: Exception, error_class: str) -> None:
    crash = crash_result(error)
    assert (crash.ended_by, crash.error_type) == ("exception", type(error).__name__)
    assert (crash.error, crash.error_class) == (str(error), error_class)


def test_a_circle_of_causes_has_an_end() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert crash_result(first).error_class == "agent"
