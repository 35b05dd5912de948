"""The token usage in a model's reply, in any dialect. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeGuard

from wirefault.dialects.http import value_of
from wirefault.dialects.json_values import as_object, as_text

# Most streams have no usage, or one event with it: only what has such an object is parsed.
_HAS_NAME = re.compile(rb'"model(?:Version)?"\s*:\s*"')
_HAS_USAGE = re.compile(rb'"usage(?:Metadata)?"\s*:\s*\{|"(?:prompt_)?eval_count"\s*:')
_OF_REPLY = ("prompt_eval_count", "eval_count")  # in Ollama's replies they are fields next to the message
# The counts of output, and of input and output, that may be in one object; thoughts of Gemini's are apart.
_OUTPUTS = ("completion_tokens", "output_tokens", "candidatesTokenCount", "eval_count", "outputTokens")
_TOTALS = ("total_tokens", "totalTokenCount", "totalTokens")
# where requests name their limit: the object in the body, and the key in it
_LIMITS = (
    ("", "max_completion_tokens"),
    ("", "max_output_tokens"),
    ("", "max_tokens"),
    ("generationConfig", "maxOutputTokens"),
    ("generation_config", "max_output_tokens"),
    ("options", "num_predict"),
    ("inferenceConfig", "maxTokens"),
)
_MAX_TOKENS = 2**53  # beyond, JSON's numbers are not exact
# A line of an event holds more than a number, so that nothing of an event is taken for it.
_CHUNK_FRAMING = re.compile(rb"\r\n[0-9a-fA-F]{1,8}\r\n")
# Anthropic's input_tokens leave out reads and writes of the cache; OpenAI and Google include them.
_IN = (
    ("prompt_tokens",),
    ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
    ("promptTokenCount", "toolUsePromptTokenCount"),
    ("prompt_eval_count",),
    ("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens"),
)
_OUT = (
    ("completion_tokens",),
    ("output_tokens",),
    ("candidatesTokenCount", "thoughtsTokenCount"),
    ("eval_count",),
    ("outputTokens",),
)


@dataclass(frozen=True)
class TokenUsage:
    """``model``: its name as the reply has it. Missing values are None or empty."""

    model: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None

    def updated(self, later: TokenUsage) -> TokenUsage:
        """The usage updated by a later event of the same stream."""
        return TokenUsage(
            later.model or self.model,
            self.tokens_in if later.tokens_in is None else later.tokens_in,
            self.tokens_out if later.tokens_out is None else later.tokens_out,
        )


def may_have_usage(body: bytes) -> bool:
    """Whether a model's name or usage may be in it. The framing of chunks may be in it, too."""
    if not any(name in body for name in (b"usage", b'"model', b"eval_count")):
        return False
    plain = _CHUNK_FRAMING.sub(b"", body)
    return _HAS_USAGE.search(plain) is not None or _HAS_NAME.search(plain) is not None


def read_usage(body: Any) -> TokenUsage:
    """The usage in a reply's JSON or in an event's JSON. A list is Gemini's stream as one JSON array."""
    if isinstance(body, list):
        return _joined(map(read_usage, body))
    value = as_object(body)
    begun = as_object(value.get("message")) if value.get("type") == "message_start" else {}
    response = as_object(value.get("response"))
    holder = response or begun or value
    counts = _counts(holder) or as_object(as_object(value.get("x_groq")).get("usage"))
    return TokenUsage(
        as_text(holder.get("model")) or as_text(holder.get("modelVersion")),
        _sum_of(counts, _IN),
        # Anthropic's first event counts an output that has only begun
        None if begun else _sum_of(counts, _OUT),
    )


def read_stream_usage(stream: bytes) -> TokenUsage:
    """The usage in an event stream: the input may be reported at its beginning, the output at its end.

    No more than the lines of the first name and of the first and the last usage are parsed. The framing of
    chunks may be in it.
    """
    plain = _CHUNK_FRAMING.sub(b"", stream)
    name = _HAS_NAME.search(plain)
    places = [match.start() for match in _HAS_USAGE.finditer(plain)]
    ends = [*([name.start()] if name else []), *places[:1], *places[1:][-1:]]
    return _joined(read_usage(value_of(_line_at(plain, place))) for place in ends)


def read_events_usage(events: Iterable[bytes]) -> TokenUsage:
    """The same in the events of a stream that has no lines."""
    return _joined(read_usage(value_of(event)) for event in events if may_have_usage(event))


def output_limit(request: dict[str, Any]) -> int | None:
    """The maximum of output tokens that a request's body names; None without one."""
    for holder, key in _LIMITS:
        limit = (as_object(request.get(holder)) if holder else request).get(key)
        if _is_count(limit) and limit:
            return limit
    return None


def with_output_tokens(body: dict[str, Any], tokens: int) -> dict[str, Any]:
    """The reply's JSON with that count of output tokens, and totals that agree; as it is without usage."""
    changed = {**body}
    for key in ("usage", "usageMetadata"):
        if as_object(body.get(key)):
            changed[key] = _with_output(body[key], tokens)
    groq = as_object(body.get("x_groq"))
    if as_object(groq.get("usage")):
        changed["x_groq"] = {**groq, "usage": _with_output(groq["usage"], tokens)}
    return _with_output(changed, tokens)


def _with_output(counts: dict[str, Any], tokens: int) -> dict[str, Any]:
    changed = {**counts}
    for key in _OUTPUTS:
        if _is_count(old := counts.get(key)):
            changed[key] = tokens
            changed |= {
                name: max(0, total - old + tokens) for name in _TOTALS if _is_count(total := counts.get(name))
            }
    return changed


def _line_at(stream: bytes, place: int) -> bytes:
    end = stream.find(b"\n", place)
    return stream[stream.rfind(b"\n", 0, place) + 1 : len(stream) if end < 0 else end]


def _joined(usages: Iterable[TokenUsage]) -> TokenUsage:
    joined = TokenUsage()
    for usage in usages:
        joined = joined.updated(usage)
    return joined


def _counts(holder: dict[str, Any]) -> dict[str, Any]:
    counts = as_object(holder.get("usage")) or as_object(holder.get("usageMetadata"))
    return counts or {name: holder[name] for name in _OF_REPLY if name in holder}


def _sum_of(counts: dict[str, Any], groups: Iterable[tuple[str, ...]]) -> int | None:
    """The first group of which any count is there, added up."""
    for names in groups:
        there = [count for name in names if _is_count(count := counts.get(name))]
        if there:
            return sum(there)
    return None


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MAX_TOKENS
