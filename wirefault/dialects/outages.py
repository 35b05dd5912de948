"""Outages: replies that do not answer their request, in any form that a server's failure takes. Pure.

A status is one form; an error object in a 200, an HTML page, an empty body, an error event in a stream and a
stream without its end are others. A reply that refuses the request itself (too long, invalid, filtered) is
no outage: the caller can change its request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from wirefault.dialects.base import FinishesWithContent, ModelDialect, reply_body
from wirefault.dialects.bedrock import ERROR_TYPE, exception_in
from wirefault.dialects.http import Reply, data_of, split_events, value_of
from wirefault.dialects.json_values import as_list, as_object, as_objects, as_text, parsed
from wirefault.dialects.mcp import read_message
from wirefault.dialects.stream_forms import AWS_EVENT_STREAM, JSON_LINES

UNABLE_HEADER = "x-scripted-model-unable"
"""Header of the scripted model's refusals of requests that a provider's model would answer."""
SCRIPTED_FAILED = "scripted_model: "
CASSETTE_MISS = "the cassettes have no answer for this request"
# A model's server that refuses the caller, not the request: no key, no credit, unknown model or region, too
# many requests, too late. Groq answers 498 if its capacity is used up, Bedrock 424 if the model failed.
_MODEL_STATUSES = frozenset({401, 402, 403, 404, 405, 407, 408, 409, 410, 423, 424, 425, 429, 451, 498, 499})
# An agent can only repeat a request after a tool's 408; it has to handle other refusals of its tools.
_TOOL_STATUSES = frozenset({408})
# A gateway in front of an API refuses with HTML, the API with JSON. These are still about the request.
_TOO_LARGE = frozenset({413, 414, 431})

# Types and codes of errors that are about the request, and of errors that a 400 has although they are not.
_REQUEST_ERRORS = frozenset(
    {
        *(
            "invalid_request_error",
            "invalid_request",
            "badrequesterror",
            "invalid_argument",
            "invalid_prompt",
        ),
        *("context_length_exceeded", "string_above_max_length", "request_too_large", "out_of_range"),
        *("tool_use_failed", "json_validate_failed", "unprocessable_entity", "validation_error"),
        *("content_filter", "content_policy_violation", "moderation_blocked", "invalid_value"),
        "validationexception",
    }
)
_SERVER_ERRORS = frozenset(
    {
        *("server_error", "api_error", "internal_error", "internal_server_error", "internal", "overloaded"),
        *("overloaded_error", "engine_overloaded", "unavailable", "service_unavailable", "bad_gateway"),
        *("timeout", "timeout_error", "gateway_timeout", "deadline_exceeded", "upstream_error"),
    }
)
_CALLER_ERRORS = frozenset(
    {
        *(
            "authentication_error",
            "invalid_api_key",
            "api_key_invalid",
            "unauthenticated",
            "permission_error",
        ),
        *("permission_denied", "billing_error", "insufficient_quota", "billing_hard_limit_reached"),
        *("rate_limit_error", "rate_limit_exceeded", "resource_exhausted", "failed_precondition"),
        *("model_not_found", "not_found_error", "unsupported_country_region_territory"),
        *("throttlingexception", "servicequotaexceededexception", "accessdeniedexception"),
        *("unrecognizedclientexception", "expiredtokenexception", "resourcenotfoundexception"),
        *("invalidsignatureexception", "missingauthenticationtokenexception", "modelnotreadyexception"),
    }
)
# Anthropic and Gemini answer these with the type of a bad request.
_CALLER_MESSAGES = re.compile(
    r"credit balance is too low|api key (?:not valid|expired|not found)|invalid x-api-key|"
    r"(?:user )?location is not supported|account .{0,40}(?:disabled|deactivated|suspended)",
    re.IGNORECASE,
)
# Reasons for the end of a choice by which servers say that they failed (OpenRouter, DeepSeek, vLLM, Zhipu).
_FAILED_FINISHES = frozenset({"error", "insufficient_system_resource", "abort", "network_error"})
_HTML = re.compile(
    rb"\A\s*(?:<!--.{0,2000}?-->\s*)?<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.S
)
_TITLE = re.compile(rb"<(?:title|h1)[^>]*>([^<]{0,200})<", re.IGNORECASE)
_MARKUP = re.compile(rb"<(style|script)\b.*?</\1\s*>|<!--.*?-->|<[^>]*>", re.IGNORECASE | re.S)
_ERROR_TITLE = re.compile(
    r"\A\s*(?:error|http)?\s*(?:50[0-4]|52\d|530)\b|internal server error|bad gateway|"
    r"(?:service|temporarily|currently|site) unavailable|gateway time-?out|under maintenance|"
    r"maintenance mode|down for maintenance|application error|web server is (?:down|returning)",
    re.IGNORECASE,
)
# The same as a whole text. An item that is "currently unavailable" is a refusal.
_ERROR_PHRASE = re.compile(
    r"\W*(?:error|http)?\W*(?:5\d\d)?\W*(?:internal (?:server )?error|bad gateway|gateway time-?out|"
    r"service (?:is )?(?:temporarily |currently )?unavailable|application error)\W*",
    re.IGNORECASE,
)
_MAX_MESSAGE = 200
_INTERNAL_ERROR = -32603  # JSON-RPC: the server failed


def model_outage(dialect: ModelDialect | None, reply: Reply, *, whole: bool, stopped: bool = True) -> str:
    """How a model's server failed to answer, as a clause: "it answered 503". Empty for an answer.

    ``dialect``: None for a request that asks no model, such as a list of models. ``whole``: the reply was
    received to its end as HTTP has it. ``stopped``: an event stream ended where its server ended it.
    """
    status, is_html = reply.status, _is_html(reply)
    errors = list(_errors(reply))
    if status >= 400:
        about_caller = any(map(_is_about_caller, errors))
        in_front = is_html and status not in _TOO_LARGE
        failed = status >= 500 or status in _MODEL_STATUSES or about_caller or in_front
        return f"it answered {status}" if failed else ""
    if status >= 300:
        moved = reply.find_header("location") is not None
        return "" if moved or dialect is None else f"it answered {status}"
    failures = [error for error in errors if not _is_about_request(error)]
    if failures:
        return f"it answered {status} with an error{_quoted(_message(failures[0]))}"
    if is_html:
        return f"it answered {status} with an HTML page{_quoted(_title(reply))}"
    if errors or dialect is None or not whole:
        return ""
    why = _unusable(dialect, reply, stopped)
    return why and f"it answered {status} with {why}"


def scripted_failure(reply: Reply) -> str:
    """Why the scripted model could not answer; empty if it did, or if the request itself is wrong."""
    if reply.find_header(UNABLE_HEADER) is None:
        return ""
    message = next((_message(error) for error in _errors(reply)), "")
    return f"{SCRIPTED_FAILED}it cannot answer this request{_quoted(message)}"


def has_end(dialect: ModelDialect, events: list[bytes]) -> bool:
    """Whether the events of a stream have its finish reason, or the event that ends it."""
    return any(
        dialect.kind_of(event) in ("finish", "end")
        or (isinstance(dialect, FinishesWithContent) and dialect.without_finish(event) is not None)
        for event in events
    )


def _unusable(dialect: ModelDialect, reply: Reply, stopped: bool) -> str:
    """Why a reply without an error is no answer; empty for an answer."""
    if not reply.body.strip():
        return "an empty body"
    stream = _is_stream(reply)
    events = _events(reply) if stream else []
    if stream and not any(map(data_of, events)):
        return "a stream without events" if stopped else ""
    try:
        body = dialect.collect(events) if stream else reply_body(dialect, reply)
        if _blocked(body) or (not stream and body.get("status") in ("queued", "in_progress")):
            return ""  # a prompt that Gemini refuses; a response that is made in the background
        answer = dialect.read_reply(body)
    except ValueError:
        if stream:
            return "a stream that is not a reply of a model" if stopped else ""
        return "a body that is not a reply of a model"
    if stream and not has_end(dialect, events):
        return "a stream that ended without its end" if stopped else ""
    empty = not (answer.text or answer.calls or answer.finish)
    return "a reply without content" if empty else ""


def _blocked(body: dict[str, Any]) -> bool:
    return bool(as_object(body.get("promptFeedback")).get("blockReason"))


def _is_stream(reply: Reply) -> bool:
    """Whether the body is an event stream. Some servers name another type, or a stream that is JSON."""
    start = reply.body.lstrip()[:16]
    if reply.stream_form is AWS_EVENT_STREAM:
        return start[:1] == b"\0"
    if reply.stream_form is JSON_LINES:
        return start[:1] == b"{"
    if reply.is_event_stream:
        return start[:1] not in (b"{", b"[", b"<")
    return start.startswith((b"data:", b"event:", b": "))


def _events(reply: Reply) -> list[bytes]:
    """The events of a stream; one that names another type is taken for server-sent events."""
    return list(reply.events() if reply.stream_form is not None else split_events(reply.body))


def tool_outage(reply: Reply, *, whole: bool, wants_json: bool = False, no_page: bool = False) -> str:
    """The same for any other server.

    ``wants_json``: it was a read, and its client accepts JSON first. ``no_page``: the request sent JSON, so
    that a page does not answer it.
    """
    status = reply.status
    if status >= 400:
        return f"it answered {status}" if status >= 500 or status in _TOOL_STATUSES else ""
    if status >= 300 or status in (204, 205):
        return ""
    if _is_html(reply):
        title = _title(reply)
        is_error_page = _ERROR_TITLE.search(title) is not None
        if is_error_page or wants_json or no_page or _is_json_type(reply):
            return f"it answered {status} with an HTML page{_quoted(title)}"
        return ""
    if not reply.body.strip():
        is_json = wants_json or _is_json_type(reply)
        return f"it answered {status} with an empty body" if whole and is_json else ""
    if not _is_json_type(reply):
        return ""
    try:
        value = parsed(reply.body)
    except ValueError:
        return f"it answered {status} with a body that is not JSON" if whole else ""
    failed = next(filter(_is_server_error, _tool_errors(as_object(value))), None)
    return f"it answered {status} with an error{_quoted(_message(failed))}" if failed is not None else ""


def _tool_errors(value: dict[str, Any]) -> Iterator[Any]:
    """The errors that a tool's JSON reports: under ``error``, and GraphQL's where there is no data."""
    error = value.get("error")
    if isinstance(error, dict | str) and error:
        yield error
        if isinstance(error, str):  # Spring and others name status and phrase beside each other
            yield {**value, "message": error}
    if not value.get("data"):
        for error in as_objects(value.get("errors")):
            yield {"type": as_object(error.get("extensions")).get("code"), **error}


def mcp_outage(reply: Reply, *, whole: bool) -> str:
    """The same for an MCP server's reply to a request. An error of a tool is a result, and no outage."""
    status = reply.status
    if status >= 400:
        return f"it answered {status}" if status >= 500 or status in _TOOL_STATUSES else ""
    if status >= 300 or status in (202, 204):
        return ""
    if _is_html(reply):
        return f"it answered {status} with an HTML page{_quoted(_title(reply))}"
    if not whole:
        return ""
    if not reply.body.strip():
        return f"it answered {status} with an empty body"
    if reply.body.lstrip()[:1] == b"[":
        return ""  # a batch, which older versions of the protocol allow
    sources = list(map(data_of, _events(reply))) if _is_stream(reply) else [reply.body]
    messages = [message for source in sources if (message := read_message(source)) is not None]
    if not messages:
        return f"it answered {status} with a body that is not MCP"
    errors = [message.error for message in messages if message.error is not None]
    failed = next((error for error in errors if error.get("code") == _INTERNAL_ERROR), None)
    return f"it answered {status} with an error{_quoted(_message(failed))}" if failed else ""


# errors in bodies


def _errors(reply: Reply) -> Iterator[Any]:
    """The errors that the body holds: one object or text each."""
    if not _is_stream(reply):
        if reply.status >= 400 and (kind := reply.header(ERROR_TYPE).partition(":")[0]):
            yield {**reply.json_object(), "type": kind}
            return
        try:
            value = parsed(reply.body) if reply.body.lstrip()[:1] in (b"{", b"[") else None
        except ValueError:
            value = None
        yield from _errors_in(value)
        return
    for event in _events(reply):
        value = value_of(event)
        errors = list(_errors_in(value))
        if kind := exception_in(event):
            errors = [{**as_object(value), "type": kind}]
        yield from errors
        if not errors and event.startswith(b"event: error"):
            yield value if isinstance(value, dict) else data_of(event).decode("utf-8", "replace")


def _errors_in(value: Any) -> Iterator[Any]:
    for item in as_list(value):  # a stream of Gemini's as one array
        yield from _errors_in(item)
    if not isinstance(value, dict):
        return
    holders = [value, as_object(value.get("response")), *as_objects(value.get("choices"))]
    for holder in holders:
        error = holder.get("error")
        if isinstance(error, dict | str) and error:
            yield error
        elif holder.get("finish_reason") in _FAILED_FINISHES:
            yield {"message": f"finish_reason {holder['finish_reason']}"}
        elif holder.get("status") in ("failed", "cancelled") and "output" in holder:
            yield {"message": f"status {holder['status']}"}
    if (value.get("type") == "error" and not value.get("error")) or value.get("object") == "error":
        yield value


def _names(error: Any) -> set[str]:
    """Its types and codes, in small letters."""
    value = as_object(error)
    names = [value.get(key) for key in ("type", "code", "status", "reason")]
    names += [detail.get("reason") for detail in as_objects(value.get("details"))]
    return {name.lower() for name in names if isinstance(name, str)}


def _code(error: Any) -> int | None:
    """The HTTP status that the error names."""
    value = as_object(error)
    for key in ("code", "status", "status_code", "statusCode"):
        code = value.get(key)
        if isinstance(code, str) and code.isdecimal():
            code = int(code[:4])
        if isinstance(code, int) and 400 <= code < 600:
            return code
    return None


def _is_about_caller(error: Any) -> bool:
    """Whether it refuses the key, the account or the region, whatever its status."""
    return bool(_names(error) & _CALLER_ERRORS) or _CALLER_MESSAGES.search(_message(error)) is not None


def _is_about_request(error: Any) -> bool:
    if _is_about_caller(error):
        return False
    code, names = _code(error), _names(error)
    if code is not None and code < 500 and code not in _MODEL_STATUSES:
        return True
    return bool(names & _REQUEST_ERRORS) and not names & _SERVER_ERRORS


def _is_server_error(error: Any) -> bool:
    """Whether a tool's error in a 200 says that the server failed: by a status of 5xx, or by its type."""
    code = _code(error)
    if (code is not None and code >= 500) or _names(error) & _SERVER_ERRORS:
        return True
    return isinstance(error, str) and _ERROR_PHRASE.fullmatch(error) is not None


def _message(error: Any) -> str:
    if isinstance(error, str):
        return error
    value = as_object(error)
    return as_text(value.get("message")) or as_text(value.get("detail")) or as_text(value.get("type"))


# pages


def _is_html(reply: Reply) -> bool:
    return _HTML.search(reply.body[:4096]) is not None


def _is_json_type(reply: Reply) -> bool:
    kind = reply.header("content-type").lower().partition(";")[0].strip()
    return kind == "application/json" or kind.endswith("+json")


def _title(reply: Reply) -> str:
    match = _TITLE.search(reply.body[:8192])
    if match:
        return match[1].decode("utf-8", "replace")
    text = b" ".join(_MARKUP.sub(b" ", reply.body[:8192]).split()).decode("utf-8", "replace")
    return text if _ERROR_PHRASE.fullmatch(text) else ""


def _quoted(message: str) -> str:
    words = " ".join("".join(char if char.isprintable() else " " for char in message).split())
    return f": {words[:_MAX_MESSAGE]}" if words else ""
