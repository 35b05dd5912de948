"""Builders of faults: ``faults.rate_limit(link="model", nth=1)`` is an entry of a fault set.

made by `make docs`; do not edit. Parameters after ``probability`` say when and at which requests it acts, as
``when`` and ``only`` of a fault set do; ``after_calls`` is ``when: {after: ...}``; ``during`` and
``together`` are keys of the entry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack

Link = str | Sequence[str]
Entry = dict[str, Any]
Range = int | str


class Conditions(TypedDict, total=False):
    """When it acts, and at which requests."""

    probability: float
    nth: Range
    after_calls: int
    first_calls: int
    every: int
    of: Literal["call", "try"]
    turn: Range
    model_requests: Range
    persistent: bool
    at_most: int
    cooldown: int
    tool: str
    only_method: str
    only_path: str
    only_header: Mapping[str, str]
    only_json: Mapping[str, Any]
    episodes: Sequence[str]
    during: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    together: bool


_WHEN = {
    "probability": "probability",
    "nth": "nth",
    "after_calls": "after",
    "first_calls": "first",
    "every": "every",
    "of": "of",
    "turn": "turn",
    "model_requests": "model_requests",
    "persistent": "persistent",
    "at_most": "at_most",
    "cooldown": "cooldown",
}
_ONLY = {
    "tool": "tool",
    "only_method": "method",
    "only_path": "path",
    "only_header": "header",
    "only_json": "json",
    "episodes": "episodes",
}
_DOSE = ("during", "together")


def _entry(fault: str, link: Link, parameters: Mapping[str, Any], conditions: Mapping[str, Any]) -> Entry:
    entry: Entry = {"fault": fault, "links": link if isinstance(link, str) else list(link)}
    chosen = {name: value for name, value in parameters.items() if value is not None}
    when = {_WHEN[name]: value for name, value in conditions.items() if name in _WHEN}
    only = {_ONLY[name]: _plain(value) for name, value in conditions.items() if name in _ONLY}
    known = [*_WHEN, *_ONLY, *_DOSE]
    if unknown := conditions.keys() - set(known):
        raise TypeError(f"{fault}: unknown condition {min(unknown)}; known: {', '.join(known)}")
    for key, part in (("with", chosen), ("when", when), ("only", only)):
        if part:
            entry[key] = part
    return entry | {name: _plain(conditions[name]) for name in _DOSE if name in conditions}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


__all__ = [
    "api_timeout",
    "auth_error",
    "bad_gateway",
    "changed_arguments",
    "changed_tools",
    "content_filter",
    "context_length",
    "contradiction",
    "corrupt_event",
    "delay",
    "drop_message",
    "duplicate_event",
    "duplicate_message",
    "duplicate_request",
    "duplicate_response",
    "early_end",
    "empty",
    "empty_answer",
    "encoding",
    "ended_stream",
    "entity_swap",
    "fabricated",
    "flap",
    "forbidden",
    "garbage_line",
    "hallucination",
    "hang",
    "ignored_cancel",
    "incorrect_reasoning",
    "infinite_loop",
    "inject_message",
    "instruction",
    "kill_subject",
    "late_response",
    "lose_reply",
    "lose_request",
    "lost_interim_result",
    "lost_notification",
    "malformed",
    "malformed_tool_call",
    "memory_exhaustion",
    "mixed_calls",
    "noise",
    "nonexistent_reference",
    "not_found",
    "off_topic",
    "outdated",
    "overflow",
    "overloaded",
    "partial",
    "partial_truth",
    "poisoned_description",
    "quota",
    "rate_limit",
    "refusing_progress",
    "reorder_history",
    "repeated_tool_call",
    "reset",
    "retried_original",
    "rpc_error",
    "schema_drift",
    "server_death",
    "server_error",
    "slow_body",
    "slow_first_token",
    "slow_progress",
    "slow_tokens",
    "split_line",
    "stale",
    "stale_context",
    "status",
    "stream_cut",
    "stream_error",
    "stream_hang",
    "stuck_pattern",
    "swap_events",
    "token_limit",
    "tool_error",
    "tool_use_failed",
    "truncate",
    "truncate_history",
    "unavailable",
    "unit_error",
    "unknown_session",
    "unknown_tool",
    "user_input",
    "wrong_arguments",
    "wrong_id",
    "wrong_value",
    "ws_cut",
    "ws_delay",
    "ws_drop",
    "ws_error",
]


def status(
    link: Link = "all",
    *,
    executed: bool | None = None,
    status: int | None = None,
    body: Any | None = None,
    headers: Any | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Return any status with any body and headers in the upstream's place."""
    parameters = {
        "executed": executed,
        "status": status,
        "body": body,
        "headers": headers,
    }
    return _entry("status", link, parameters, conditions)


def rate_limit(
    link: Link = "all",
    *,
    executed: bool | None = None,
    retry_after: float | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Return 429 (too many requests) with Retry-After; on the model link with the provider's error ..."""
    parameters = {
        "executed": executed,
        "retry_after": retry_after,
    }
    return _entry("rate_limit", link, parameters, conditions)


def quota(
    link: Link = "all",
    *,
    executed: bool | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Report an exhausted quota: 429 insufficient_quota (OpenAI), 402 billing_error (Anthropic) ..."""
    parameters = {
        "executed": executed,
    }
    return _entry("quota", link, parameters, conditions)


def auth_error(
    link: Link = "all",
    *,
    executed: bool | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Reject the API key: 401 (Gemini: 400)."""
    parameters = {
        "executed": executed,
    }
    return _entry("auth_error", link, parameters, conditions)


def forbidden(
    link: Link = "all",
    *,
    executed: bool | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Deny permission: 403. The request is not forwarded; a retry is pointless."""
    parameters = {
        "executed": executed,
    }
    return _entry("forbidden", link, parameters, conditions)


def not_found(
    link: Link = "all",
    *,
    executed: bool | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Return 404; on the model link for an unknown model."""
    parameters = {
        "executed": executed,
    }
    return _entry("not_found", link, parameters, conditions)


def server_error(
    link: Link = "all",
    *,
    executed: bool | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Return 500. The request is not forwarded, unless ``executed``."""
    parameters = {
        "executed": executed,
    }
    return _entry("server_error", link, parameters, conditions)


def bad_gateway(
    link: Link = "all",
    *,
    executed: bool | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Return 502, as a proxy without upstream does; on the model link as a proxy's HTML page."""
    parameters = {
        "executed": executed,
    }
    return _entry("bad_gateway", link, parameters, conditions)


def unavailable(
    link: Link = "all",
    *,
    executed: bool | None = None,
    retry_after: float | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Return 503, optionally with Retry-After. The request is not forwarded."""
    parameters = {
        "executed": executed,
        "retry_after": retry_after,
    }
    return _entry("unavailable", link, parameters, conditions)


def overloaded(
    link: Link = "all",
    *,
    executed: bool | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Report overload: 529 overloaded_error (Anthropic), 503 elsewhere."""
    parameters = {
        "executed": executed,
    }
    return _entry("overloaded", link, parameters, conditions)


def delay(
    link: Link = "all",
    *,
    preset: Literal["good", "moderate", "poor", "degrading", "spiky"] | None = None,
    kind: Literal["fixed", "uniform", "exponential", "jitter", "spike", "degrading"] | None = None,
    ms: float | None = None,
    spread_ms: float | None = None,
    spike_ms: float | None = None,
    spike_chance: float | None = None,
    step_ms: float | None = None,
    max_ms: float | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Delay the request on its way to the upstream."""
    parameters = {
        "preset": preset,
        "kind": kind,
        "ms": ms,
        "spread_ms": spread_ms,
        "spike_ms": spike_ms,
        "spike_chance": spike_chance,
        "step_ms": step_ms,
        "max_ms": max_ms,
    }
    return _entry("delay", link, parameters, conditions)


def hang(
    link: Link = "all",
    *,
    at: Literal["before_headers", "after_headers", "mid_body"] | None = None,
    forwarded: bool | None = None,
    limit: float | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Stop sending and keep the connection open until the client gives up, or for 65 s."""
    parameters = {
        "at": at,
        "forwarded": forwarded,
        "limit": limit,
    }
    return _entry("hang", link, parameters, conditions)


def reset(
    link: Link = "all",
    *,
    at: Literal["connect", "after_request", "mid_body"] | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Reset the connection with a TCP RST."""
    parameters = {
        "at": at,
    }
    return _entry("reset", link, parameters, conditions)


def lose_request(
    link: Link = "all",
    *,
    then: Literal["close", "hang"] | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Drop the request: the upstream never sees it, and no reply comes."""
    parameters = {
        "then": then,
    }
    return _entry("lose_request", link, parameters, conditions)


def lose_reply(
    link: Link = "all",
    *,
    then: Literal["close", "hang"] | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Drop the reply: the upstream has executed the request, but no reply comes."""
    parameters = {
        "then": then,
    }
    return _entry("lose_reply", link, parameters, conditions)


def duplicate_request(
    link: Link = "all",
    *,
    n: int | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Deliver the request several times in a row; the client gets the last reply."""
    parameters = {
        "n": n,
    }
    return _entry("duplicate_request", link, parameters, conditions)


def truncate(
    link: Link = "all",
    *,
    fraction: float | None = None,
    at_byte: int | None = None,
    content_length: Literal["kept", "corrected"] | None = None,
    compressed: bool | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Cut off the reply's body, at a byte or a fraction of its length."""
    parameters = {
        "fraction": fraction,
        "at_byte": at_byte,
        "content_length": content_length,
        "compressed": compressed,
    }
    return _entry("truncate", link, parameters, conditions)


def slow_body(
    link: Link = "all",
    *,
    bytes_per_second: float | None = None,
    keep_chunks: bool | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Send the headers at once and the body slowly, in pieces."""
    parameters = {
        "bytes_per_second": bytes_per_second,
        "keep_chunks": keep_chunks,
    }
    return _entry("slow_body", link, parameters, conditions)


def malformed(
    link: Link = "all",
    *,
    kind: str | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Break the reply's body; length and framing stay correct."""
    parameters = {
        "kind": kind,
    }
    return _entry("malformed", link, parameters, conditions)


def empty(
    link: Link = "all",
    *,
    kind: Literal["body", "object", "array", "null"] | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Empty the reply's body; status and headers stay."""
    parameters = {
        "kind": kind,
    }
    return _entry("empty", link, parameters, conditions)


def partial(
    link: Link = "all",
    *,
    kind: Literal["list", "fields"] | None = None,
    fraction: float | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Remove a part of the JSON reply, which stays valid."""
    parameters = {
        "kind": kind,
        "fraction": fraction,
    }
    return _entry("partial", link, parameters, conditions)


def schema_drift(
    link: Link = "all",
    *,
    kind: Literal["rename", "drop", "retype", "wrap"] | None = None,
    field: str | None = None,
    to: str | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Change one field's name, type or nesting wherever it occurs in the JSON reply, as an upgrade ..."""
    parameters = {
        "kind": kind,
        "field": field,
        "to": to,
    }
    return _entry("schema_drift", link, parameters, conditions)


def stale(
    link: Link = "all",
    *,
    which: Literal["newest", "oldest"] | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Return an earlier reply of the same link, like a cache that mixes up its entries."""
    parameters = {
        "which": which,
    }
    return _entry("stale", link, parameters, conditions)


def flap(
    link: Link = "all",
    *,
    fails: int | None = None,
    passes: int | None = None,
    kind: Literal["unavailable", "bad_gateway", "server_error", "close"] | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Alternate between down and up: ``fails`` calls fail, then ``passes`` calls pass, and so on."""
    parameters = {
        "fails": fails,
        "passes": passes,
        "kind": kind,
    }
    return _entry("flap", link, parameters, conditions)


def kill_subject(
    link: Link = "all",
    *,
    at: Literal["before_reply", "after_reply", "mid_stream", "before_request"] | None = None,
    after: int | None = None,
    signal: Literal["kill", "term"] | None = None,
    grace: float | None = None,
    wait_ms: float | None = None,
    times: int | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Kill the subject with all its processes at a point of the wire, then resume it in the same ..."""
    parameters = {
        "at": at,
        "after": after,
        "signal": signal,
        "grace": grace,
        "wait_ms": wait_ms,
        "times": times,
    }
    return _entry("kill_subject", link, parameters, conditions)


def wrong_value(
    link: Link = "all",
    *,
    severity: float | None = None,
    field: str | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Change a figure in the result."""
    parameters = {
        "severity": severity,
        "field": field,
    }
    return _entry("wrong_value", link, parameters, conditions)


def entity_swap(
    link: Link = "all",
    *,
    severity: float | None = None,
    field: str | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Replace a person, place or title by another one."""
    parameters = {
        "severity": severity,
        "field": field,
    }
    return _entry("entity_swap", link, parameters, conditions)


def unit_error(
    link: Link = "all",
    *,
    severity: float | None = None,
    field: str | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Convert a figure to another unit and keep the unit's name."""
    parameters = {
        "severity": severity,
        "field": field,
    }
    return _entry("unit_error", link, parameters, conditions)


def contradiction(
    link: Link = "all",
    *,
    severity: float | None = None,
    field: str | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Add a contradiction to a text of the result."""
    parameters = {
        "severity": severity,
        "field": field,
    }
    return _entry("contradiction", link, parameters, conditions)


def fabricated(
    link: Link = "all",
    *,
    severity: float | None = None,
    field: str | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Replace values of the result by invented ones of the same form."""
    parameters = {
        "severity": severity,
        "field": field,
    }
    return _entry("fabricated", link, parameters, conditions)


def outdated(
    link: Link = "all",
    *,
    severity: float | None = None,
    field: str | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Move the dates in the result back, as in stale data."""
    parameters = {
        "severity": severity,
        "field": field,
    }
    return _entry("outdated", link, parameters, conditions)


def nonexistent_reference(
    link: Link = "all",
    *,
    severity: float | None = None,
    field: str | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Break a link or an id in the result."""
    parameters = {
        "severity": severity,
        "field": field,
    }
    return _entry("nonexistent_reference", link, parameters, conditions)


def partial_truth(
    link: Link = "all",
    *,
    severity: float | None = None,
    field: str | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Silently remove the decisive part of the result."""
    parameters = {
        "severity": severity,
        "field": field,
    }
    return _entry("partial_truth", link, parameters, conditions)


def instruction(
    link: Link = "all",
    *,
    severity: float | None = None,
    field: str | None = None,
    text: str | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Plant an instruction to the agent in a text of the result, as a third party's page or message ..."""
    parameters = {
        "severity": severity,
        "field": field,
        "text": text,
    }
    return _entry("instruction", link, parameters, conditions)


def changed_arguments(
    link: Link = "all",
    *,
    kind: Literal["value", "type", "missing", "extra"] | None = None,
    argument: str | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Change an argument of a tool call on its way to the tool."""
    parameters = {
        "kind": kind,
        "argument": argument,
    }
    return _entry("changed_arguments", link, parameters, conditions)


def api_timeout(
    link: Link = "all",
    *,
    limit: float | None = None,
    at_least: float | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Accept the request and never reply, until the client gives up, or for 65 s."""
    parameters = {
        "limit": limit,
        "at_least": at_least,
    }
    return _entry("api_timeout", link, parameters, conditions)


def context_length(
    link: Link = "all",
    *,
    limit: int | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Refuse the request as too long for the model: 400; a retry is pointless."""
    parameters = {
        "limit": limit,
    }
    return _entry("context_length", link, parameters, conditions)


def tool_use_failed(
    link: Link = "all",
    **conditions: Unpack[Conditions],
) -> Entry:
    """Refuse the model's output because of an unreadable tool call."""
    return _entry("tool_use_failed", link, {}, conditions)


def content_filter(
    link: Link = "all",
    *,
    form: Literal["finish", "error"] | None = None,
    fraction: float | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Stop the answer or refuse the request by the provider's content filter."""
    parameters = {
        "form": form,
        "fraction": fraction,
    }
    return _entry("content_filter", link, parameters, conditions)


def token_limit(
    link: Link = "all",
    *,
    at: Literal["text", "call"] | None = None,
    fraction: float | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """End the reply by the token limit, in its text or inside its last tool call."""
    parameters = {
        "at": at,
        "fraction": fraction,
    }
    return _entry("token_limit", link, parameters, conditions)


def memory_exhaustion(
    link: Link = "all",
    *,
    limit_mib: int | None = None,
    reply_mib: int | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Let the agent run out of memory: its process gets a limit, and the reply unpacks to more than ..."""
    parameters = {
        "limit_mib": limit_mib,
        "reply_mib": reply_mib,
    }
    return _entry("memory_exhaustion", link, parameters, conditions)


def stream_cut(
    link: Link = "all",
    *,
    at: Literal["events", "arguments", "between_calls", "finish"] | None = None,
    after: int | None = None,
    ending: Literal["close", "reset"] | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Break the stream's connection: after some events, inside a tool call, or before the end."""
    parameters = {
        "at": at,
        "after": after,
        "ending": ending,
    }
    return _entry("stream_cut", link, parameters, conditions)


def stream_hang(
    link: Link = "all",
    *,
    at: Literal["events", "arguments", "between_calls", "finish"] | None = None,
    after: int | None = None,
    limit: float | None = None,
    ping_every: float | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Stop the stream and keep its connection open until the client leaves, or for 65 s."""
    parameters = {
        "at": at,
        "after": after,
        "limit": limit,
        "ping_every": ping_every,
    }
    return _entry("stream_hang", link, parameters, conditions)


def stream_error(
    link: Link = "all",
    *,
    at: Literal["events", "arguments", "between_calls", "finish"] | None = None,
    after: int | None = None,
    error: Literal["overloaded", "server_error", "rate_limit"] | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Report an error inside a stream that began with status 200, and end the stream."""
    parameters = {
        "at": at,
        "after": after,
        "error": error,
    }
    return _entry("stream_error", link, parameters, conditions)


def slow_first_token(
    link: Link = "all",
    *,
    ms: int | None = None,
    ping_every: float | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Delay the first token; a reply that is not a stream is delayed as a whole."""
    parameters = {
        "ms": ms,
        "ping_every": ping_every,
    }
    return _entry("slow_first_token", link, parameters, conditions)


def slow_tokens(
    link: Link = "all",
    *,
    ms: int | None = None,
    jitter_ms: int | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Delay every token of the stream."""
    parameters = {
        "ms": ms,
        "jitter_ms": jitter_ms,
    }
    return _entry("slow_tokens", link, parameters, conditions)


def duplicate_event(
    link: Link = "all",
    *,
    nth: int | None = None,
    **conditions: Any,
) -> Entry:
    """Send one event of the stream twice."""
    parameters = {
        "nth": nth,
    }
    return _entry("duplicate_event", link, parameters, conditions)


def corrupt_event(
    link: Link = "all",
    *,
    nth: int | None = None,
    kind: Literal["cut", "words", "bytes", "shape"] | None = None,
    **conditions: Any,
) -> Entry:
    """Corrupt one event of the stream."""
    parameters = {
        "nth": nth,
        "kind": kind,
    }
    return _entry("corrupt_event", link, parameters, conditions)


def swap_events(
    link: Link = "all",
    *,
    nth: int | None = None,
    **conditions: Any,
) -> Entry:
    """Swap one event of the stream with the next one."""
    parameters = {
        "nth": nth,
    }
    return _entry("swap_events", link, parameters, conditions)


def early_end(
    link: Link = "all",
    *,
    at: Literal["events", "arguments", "between_calls", "finish"] | None = None,
    after: int | None = None,
    terminator: bool | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """End the stream cleanly, without a finish reason."""
    parameters = {
        "at": at,
        "after": after,
        "terminator": terminator,
    }
    return _entry("early_end", link, parameters, conditions)


def malformed_tool_call(
    link: Link = "all",
    *,
    kind: Literal["cut", "trailing_comma", "single_quotes", "words"] | None = None,
    fraction: float | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Break the JSON of a tool call's arguments."""
    parameters = {
        "kind": kind,
        "fraction": fraction,
    }
    return _entry("malformed_tool_call", link, parameters, conditions)


def unknown_tool(
    link: Link = "all",
    *,
    tool: str | None = None,
    **conditions: Any,
) -> Entry:
    """Make the model call an unknown tool."""
    parameters = {
        "tool": tool,
    }
    return _entry("unknown_tool", link, parameters, conditions)


def wrong_arguments(
    link: Link = "all",
    *,
    kind: Literal["value", "type", "missing", "extra"] | None = None,
    argument: str | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Change a tool call's arguments; they stay valid JSON."""
    parameters = {
        "kind": kind,
        "argument": argument,
    }
    return _entry("wrong_arguments", link, parameters, conditions)


def repeated_tool_call(
    link: Link = "all",
    *,
    times: int | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Repeat a tool call within one reply, with different ids."""
    parameters = {
        "times": times,
    }
    return _entry("repeated_tool_call", link, parameters, conditions)


def mixed_calls(
    link: Link = "all",
    *,
    kind: Literal["same_id", "missing_id", "same_index", "missing_index", "interleaved"] | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Mix up the tool calls of a reply: same, missing or interleaved ids and indexes."""
    parameters = {
        "kind": kind,
    }
    return _entry("mixed_calls", link, parameters, conditions)


def empty_answer(
    link: Link = "all",
    **conditions: Unpack[Conditions],
) -> Entry:
    """Empty the model's reply: no text, no tool call, the usual finish reason."""
    return _entry("empty_answer", link, {}, conditions)


def hallucination(
    link: Link = "all",
    *,
    answer_tool: str | None = None,
    kind: Literal["any", "figure", "confirmed", "done"] | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Make the model state something without a source."""
    parameters = {
        "answer_tool": answer_tool,
        "kind": kind,
    }
    return _entry("hallucination", link, parameters, conditions)


def incorrect_reasoning(
    link: Link = "all",
    *,
    answer_tool: str | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Invert a conclusion of the model's answer."""
    parameters = {
        "answer_tool": answer_tool,
    }
    return _entry("incorrect_reasoning", link, parameters, conditions)


def off_topic(
    link: Link = "all",
    *,
    answer_tool: str | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Replace the model's answer by one about something else."""
    parameters = {
        "answer_tool": answer_tool,
    }
    return _entry("off_topic", link, parameters, conditions)


def infinite_loop(
    link: Link = "all",
    *,
    answer_tool: str | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Make the model repeat its last tool call, whatever the result was."""
    parameters = {
        "answer_tool": answer_tool,
    }
    return _entry("infinite_loop", link, parameters, conditions)


def stuck_pattern(
    link: Link = "all",
    **conditions: Unpack[Conditions],
) -> Entry:
    """Make the model think about the next step without taking it."""
    return _entry("stuck_pattern", link, {}, conditions)


def refusing_progress(
    link: Link = "all",
    *,
    kind: Literal["asks", "refuses"] | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Make the model stop before the next step: it asks for permission or refuses."""
    parameters = {
        "kind": kind,
    }
    return _entry("refusing_progress", link, parameters, conditions)


def truncate_history(
    link: Link = "all",
    *,
    keep_last: int | None = None,
    fraction: float | None = None,
    keep_pairs: bool | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Remove the beginning of the conversation from the request."""
    parameters = {
        "keep_last": keep_last,
        "fraction": fraction,
        "keep_pairs": keep_pairs,
    }
    return _entry("truncate_history", link, parameters, conditions)


def reorder_history(
    link: Link = "all",
    **conditions: Unpack[Conditions],
) -> Entry:
    """Shuffle the conversation's messages."""
    return _entry("reorder_history", link, {}, conditions)


def drop_message(
    link: Link = "all",
    *,
    which: Literal["random", "oldest", "newest", "system"] | None = None,
    keep_pairs: bool | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Remove one message from the conversation."""
    parameters = {
        "which": which,
        "keep_pairs": keep_pairs,
    }
    return _entry("drop_message", link, parameters, conditions)


def duplicate_message(
    link: Link = "all",
    *,
    which: Literal["random", "oldest", "newest"] | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Repeat one message of the conversation, tool calls with their results (under new ids)."""
    parameters = {
        "which": which,
    }
    return _entry("duplicate_message", link, parameters, conditions)


def inject_message(
    link: Link = "all",
    *,
    text: str | None = None,
    role: Literal["user", "assistant", "system"] | None = None,
    position: Literal["end", "start", "random"] | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Add a message to the conversation."""
    parameters = {
        "text": text,
        "role": role,
        "position": position,
    }
    return _entry("inject_message", link, parameters, conditions)


def noise(
    link: Link = "all",
    *,
    roles: Any | None = None,
    rate: float | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Drop, double, swap or replace letters in the messages, as in a bad transcription."""
    parameters = {
        "roles": roles,
        "rate": rate,
    }
    return _entry("noise", link, parameters, conditions)


def encoding(
    link: Link = "all",
    *,
    roles: Any | None = None,
    kind: Literal["utf8_as_latin1", "latin1_as_utf8", "twice", "utf8_as_utf16"] | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Decode the messages with a wrong encoding: ``Zürich`` becomes ``ZÃ¼rich`` or ``Z�rich``."""
    parameters = {
        "roles": roles,
        "kind": kind,
    }
    return _entry("encoding", link, parameters, conditions)


def stale_context(
    link: Link = "all",
    *,
    kind: Literal["older_result", "forgotten"] | None = None,
    turns: int | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Give the model an outdated conversation."""
    parameters = {
        "kind": kind,
        "turns": turns,
    }
    return _entry("stale_context", link, parameters, conditions)


def overflow(
    link: Link = "all",
    *,
    characters: int | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Pad the conversation with meaningless text, up to a full context."""
    parameters = {
        "characters": characters,
    }
    return _entry("overflow", link, parameters, conditions)


def user_input(
    link: Link = "all",
    *,
    kind: Literal["emptied", "cut", "contradicted", "repeated", "mixed_language", "garbled"] | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Change the user's last message."""
    parameters = {
        "kind": kind,
    }
    return _entry("user_input", link, parameters, conditions)


def tool_error(
    link: Link = "all",
    *,
    executed: bool | None = None,
    text: str | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Fail the tool: a result with ``isError`` and an error text."""
    parameters = {
        "executed": executed,
        "text": text,
    }
    return _entry("tool_error", link, parameters, conditions)


def rpc_error(
    link: Link = "all",
    *,
    executed: bool | None = None,
    code: int | None = None,
    message: str | None = None,
    data: Any | None = None,
    status: int | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Return a JSON-RPC error, by default with status 200."""
    parameters = {
        "executed": executed,
        "code": code,
        "message": message,
        "data": data,
        "status": status,
    }
    return _entry("rpc_error", link, parameters, conditions)


def unknown_session(
    link: Link = "all",
    *,
    executed: bool | None = None,
    status: Literal[400, 404] | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Report an unknown session, as after a server restart: 404 (some servers: 400)."""
    parameters = {
        "executed": executed,
        "status": status,
    }
    return _entry("unknown_session", link, parameters, conditions)


def late_response(
    link: Link = "all",
    *,
    ms: float | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Delay the response, preferably beyond the client's time limit."""
    parameters = {
        "ms": ms,
    }
    return _entry("late_response", link, parameters, conditions)


def duplicate_response(
    link: Link = "all",
    *,
    n: int | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Send the response twice with the same id; over HTTP as two events of one stream."""
    parameters = {
        "n": n,
    }
    return _entry("duplicate_response", link, parameters, conditions)


def wrong_id(
    link: Link = "all",
    *,
    kind: Literal["other", "text", "none"] | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Give the response a wrong id."""
    parameters = {
        "kind": kind,
    }
    return _entry("wrong_id", link, parameters, conditions)


def ended_stream(
    link: Link = "all",
    *,
    at: Literal["before_id", "after_id"] | None = None,
    ending: Literal["keep", "close", "reset"] | None = None,
    id: str | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """End a call's event stream before the response. The server has executed the call."""
    parameters = {
        "at": at,
        "ending": ending,
        "id": id,
    }
    return _entry("ended_stream", link, parameters, conditions)


def lost_interim_result(
    link: Link = "all",
    *,
    kind: Literal["any", "input_required", "task"] | None = None,
    ending: Literal["keep", "close", "reset"] | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Lose a result that does not end its call: a question to the client, or the handle of a task."""
    parameters = {
        "kind": kind,
        "ending": ending,
    }
    return _entry("lost_interim_result", link, parameters, conditions)


def retried_original(
    link: Link = "all",
    *,
    n: int | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Deliver twice a call that the client sends again with its answer to ``input_required``."""
    parameters = {
        "n": n,
    }
    return _entry("retried_original", link, parameters, conditions)


def server_death(
    link: Link = "all",
    *,
    executed: bool | None = None,
    down: int | None = None,
    forgets: int | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Let the server die during a call and restart without its sessions."""
    parameters = {
        "executed": executed,
        "down": down,
        "forgets": forgets,
    }
    return _entry("server_death", link, parameters, conditions)


def lost_notification(
    link: Link = "all",
    *,
    method: str | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Drop a notification of the client or of the server."""
    parameters = {
        "method": method,
    }
    return _entry("lost_notification", link, parameters, conditions)


def ignored_cancel(
    link: Link = "all",
    **conditions: Unpack[Conditions],
) -> Entry:
    """Drop the client's cancellation: the server continues and still sends its response."""
    return _entry("ignored_cancel", link, {}, conditions)


def slow_progress(
    link: Link = "all",
    *,
    ms: float | None = None,
    steps: int | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Delay the response and keep reporting progress."""
    parameters = {
        "ms": ms,
        "steps": steps,
    }
    return _entry("slow_progress", link, parameters, conditions)


def changed_tools(
    link: Link = "all",
    *,
    tool: str | None = None,
    kind: Literal["removed", "renamed", "new_argument", "retyped_argument", "none"] | None = None,
    **conditions: Any,
) -> Entry:
    """Change the list of tools, as after an upgrade of the server or for another user."""
    parameters = {
        "tool": tool,
        "kind": kind,
    }
    return _entry("changed_tools", link, parameters, conditions)


def poisoned_description(
    link: Link = "all",
    *,
    tool: str | None = None,
    text: str | None = None,
    **conditions: Any,
) -> Entry:
    """Plant an instruction to the agent in a tool's description ("tool poisoning")."""
    parameters = {
        "tool": tool,
        "text": text,
    }
    return _entry("poisoned_description", link, parameters, conditions)


def split_line(
    link: Link = "all",
    *,
    kind: Literal["pause", "newline", "unfinished"] | None = None,
    ms: float | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Split a response's line in two; stdio only."""
    parameters = {
        "kind": kind,
        "ms": ms,
    }
    return _entry("split_line", link, parameters, conditions)


def garbage_line(
    link: Link = "all",
    *,
    kind: Literal["log", "json", "utf8", "empty"] | None = None,
    **conditions: Unpack[Conditions],
) -> Entry:
    """Send a line that is not a message before the response, like a server that prints to stdout ..."""
    parameters = {
        "kind": kind,
    }
    return _entry("garbage_line", link, parameters, conditions)


def ws_cut(
    link: Link = "all",
    *,
    sender: Literal["client", "server"] | None = None,
    type: str | None = None,
    nth: Any | None = None,
    probability: float | None = None,
    at_most: int | None = None,
    at: Literal["before", "inside", "after"] | None = None,
    ending: Literal["close", "reset"] | None = None,
    code: int | None = None,
    **conditions: Any,
) -> Entry:
    """Cut a WebSocket connection at a message: before it, inside its bytes, or after it."""
    parameters = {
        "sender": sender,
        "type": type,
        "nth": nth,
        "probability": probability,
        "at_most": at_most,
        "at": at,
        "ending": ending,
        "code": code,
    }
    return _entry("ws_cut", link, parameters, conditions)


def ws_delay(
    link: Link = "all",
    *,
    sender: Literal["client", "server"] | None = None,
    type: str | None = None,
    nth: Any | None = None,
    probability: float | None = None,
    at_most: int | None = None,
    seconds: float | None = None,
    **conditions: Any,
) -> Entry:
    """Delay messages of a WebSocket connection; the later ones of that side wait behind them."""
    parameters = {
        "sender": sender,
        "type": type,
        "nth": nth,
        "probability": probability,
        "at_most": at_most,
        "seconds": seconds,
    }
    return _entry("ws_delay", link, parameters, conditions)


def ws_drop(
    link: Link = "all",
    *,
    sender: Literal["client", "server"] | None = None,
    type: str | None = None,
    nth: Any | None = None,
    probability: float | None = None,
    at_most: int | None = None,
    **conditions: Any,
) -> Entry:
    """Lose messages of a WebSocket connection; the others pass, and neither side gets an error."""
    parameters = {
        "sender": sender,
        "type": type,
        "nth": nth,
        "probability": probability,
        "at_most": at_most,
    }
    return _entry("ws_drop", link, parameters, conditions)


def ws_error(
    link: Link = "all",
    *,
    sender: Literal["client", "server"] | None = None,
    type: str | None = None,
    nth: Any | None = None,
    probability: float | None = None,
    at_most: int | None = None,
    error: str | None = None,
    place: Literal["after", "instead"] | None = None,
    closes: bool | None = None,
    **conditions: Any,
) -> Entry:
    """Send a realtime client an error event, after a message or in its place."""
    parameters = {
        "sender": sender,
        "type": type,
        "nth": nth,
        "probability": probability,
        "at_most": at_most,
        "error": error,
        "place": place,
        "closes": closes,
    }
    return _entry("ws_error", link, parameters, conditions)
