"""Gemini's ``generateContent`` and ``streamGenerateContent``. Pure.

The request's path has the model's name and says whether to stream. A tool call comes whole, in one event,
and a stream ends without an event that says so. Statuses follow its error reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from wirefault.dialects import Dialect
from wirefault.dialects.base import (
    TOOL_USE_FAILED,
    ErrorForm,
    EventKind,
    ModelReply,
    ModelRequest,
    OfferedTool,
    ToolCall,
    pieces,
)
from wirefault.dialects.conversation import last_user_text
from wirefault.dialects.gemini_contents import (
    CONTENTS,
    ContentPart,
    call_in,
    named_field,
    parts_of,
    read_call,
    to_messages,
    write_call,
)
from wirefault.dialects.http import Request, dump_json, value_of, with_data, write_event
from wirefault.dialects.json_values import as_list, as_object, as_objects, as_text, index_in

_BLOCKED = "PROHIBITED_CONTENT"
_INVALID = "INVALID_ARGUMENT"
GEMINI_ERRORS: Mapping[str, ErrorForm] = {
    "rate_limit": ErrorForm(429, "Resource has been exhausted (e.g. check quota).", "RESOURCE_EXHAUSTED"),
    "quota": ErrorForm(
        429,
        "You exceeded your current quota, please check your plan and billing details.",
        "RESOURCE_EXHAUSTED",
    ),
    "auth_error": ErrorForm(400, "API key not valid. Please pass a valid API key.", _INVALID),
    "forbidden": ErrorForm(403, "The caller does not have permission", "PERMISSION_DENIED"),
    "not_found": ErrorForm(
        404,
        "models/{model} is not found for API version v1beta, or is not supported for generateContent. Call "
        "ListModels to see the list of available models and their supported methods.",
        "NOT_FOUND",
    ),
    "server_error": ErrorForm(500, "An internal error has occurred. Please retry.", "INTERNAL"),
    "bad_gateway": ErrorForm(502, "Bad Gateway"),
    "unavailable": ErrorForm(503, "The service is currently unavailable.", "UNAVAILABLE"),
    "overloaded": ErrorForm(503, "The model is overloaded. Please try again later.", "UNAVAILABLE"),
    "context_length": ErrorForm(
        400,
        "The input token count ({tokens}) exceeds the maximum number of tokens allowed ({limit}).",
        _INVALID,
    ),
    "tool_use_failed": ErrorForm(400, TOOL_USE_FAILED + " {failed_generation}", _INVALID),
    "content_filter": ErrorForm(200, "", _BLOCKED),
}
_NAME_OF = {
    400: _INVALID,
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_STATUS_OF = {name: status for status, name in _NAME_OF.items()}


def gemini_error(type: str, message: str, **fields: Any) -> dict[str, Any]:
    """The body of an error. ``type``: a name of the API's, or the phrase of a status in snake case."""
    if type == _BLOCKED:
        return {"promptFeedback": {"blockReason": type}}
    status = _STATUS_OF.get(type) or _status_called(type)
    return {
        "error": {"code": status, "message": message, "status": _NAME_OF.get(status, "UNKNOWN"), **fields}
    }


def _status_called(phrase: str) -> int:
    """The status that a phrase in snake case names; 500 if there is none."""
    names = {status.phrase.lower().replace(" ", "_"): status.value for status in HTTPStatus}
    digits = phrase.rpartition("_")[2]
    return names.get(phrase, int(digits) if digits.isdecimal() else 500)


_PLAIN = {"text", "thought"}
_Candidate = dict[str, Any]


def event_candidate(event: bytes) -> _Candidate:
    """The first candidate of an event; empty without one."""
    return next(iter(as_objects(as_object(value_of(event)).get("candidates"))), {})


def collect_chunks(events: Iterable[bytes]) -> dict[str, Any]:
    """The reply that the events amount to. Raises ``ValueError`` for none, and for an error among them."""
    chunks = [value for event in events if isinstance(value := value_of(event), dict)]
    candidates: dict[int, _Candidate] = {}
    for chunk in chunks:
        for part in as_objects(chunk.get("candidates")):
            _add(candidates.setdefault(index_in(part), {"content": {"role": "model"}}), part)
    if not candidates or any("error" in chunk for chunk in chunks):
        raise ValueError("no stream of chunks")
    whole = {key: value for chunk in chunks for key, value in chunk.items()}
    return {**whole, "candidates": [candidates[at] for at in sorted(candidates)]}


def _add(candidate: _Candidate, piece: _Candidate) -> None:
    """Add what a chunk brings to the candidate so far: pieces of one text are joined."""
    content = as_object(piece.get("content"))
    whole = candidate["content"]
    parts = whole.setdefault("parts", [])
    for part in parts_of(content):
        last = parts[-1] if parts else {}
        if set(part) <= _PLAIN and "text" in last and _alike(last, part):
            parts[-1] = {**last, "text": as_text(last["text"]) + as_text(part.get("text"))}
        elif set(part) != {"text"} or part["text"]:
            parts.append(part)
    whole.update({key: value for key, value in content.items() if key != "parts"})
    candidate.update({key: value for key, value in piece.items() if key != "content"})


def _alike(last: ContentPart, part: ContentPart) -> bool:
    return set(last) <= _PLAIN and bool(last.get("thought")) == bool(part.get("thought"))


def spread_candidates(body: dict[str, Any]) -> Iterator[bytes]:
    """The reply as events. The last of a candidate has an empty text and the finish reason."""
    envelope = {key: value for key, value in body.items() if key not in ("candidates", "usageMetadata")}
    usage = {"usageMetadata": body["usageMetadata"]} if "usageMetadata" in body else {}
    for at, candidate in enumerate(as_objects(body.get("candidates"))):
        index = {"index": candidate.get("index", at)}
        content = as_object(candidate.get("content"))
        for piece in (piece for part in parts_of(content) for piece in _cut(part)):
            one = {"content": {**content, "parts": [piece]}, **index}
            yield write_event({"candidates": [one], **envelope})
        last = {**candidate, "content": {**content, "parts": [{"text": ""}]}, **index}
        yield write_event({"candidates": [last], **usage, **envelope})


def _cut(part: ContentPart) -> Iterator[ContentPart]:
    """A plain text in pieces; any other part as it is."""
    if set(part) <= _PLAIN and as_text(part.get("text")):
        yield from ({**part, "text": piece} for piece in pieces(part["text"]))
    else:
        yield part


def break_off(event: bytes, arguments: str) -> bytes:
    """The event up to its empty arguments, which these arguments replace."""
    return event[: event.rindex(b'"args": {}')] + b'"args": ' + arguments.encode("utf-8", "replace")


_FINISH = {"STOP": "stop", "MAX_TOKENS": "length", "SAFETY": "content_filter"}
_REASONS = {finish: reason for reason, finish in _FINISH.items()} | {"tool_calls": "STOP"}
_MALFORMED = "MALFORMED_FUNCTION_CALL"


class Gemini:
    """Implements ``ModelDialect``; of a reply's candidates the first is read and written."""

    name: Dialect = "gemini"
    id_header = ""
    errors: Mapping[str, ErrorForm] = GEMINI_ERRORS
    path_end = (":generateContent", ":streamGenerateContent")
    id_prefix = ""

    def error_body(
        self, type: str, message: str, *, code: str | None = None, id: str = "", **fields: Any
    ) -> dict[str, Any]:
        return gemini_error(type, message, **fields)

    def read_request(self, request: Request) -> ModelRequest:
        body = request.json_object()
        contents = as_objects(body.get(CONTENTS))
        calls = [call for content in contents for part in parts_of(content) if (call := call_in(part))]
        declared = [
            function
            for tool in as_objects(body.get("tools"))
            for function in as_objects(named_field(tool, "functionDeclarations"))
        ]
        return ModelRequest(
            last_user_text(to_messages({CONTENTS: contents})),
            tuple(map(read_call, calls)),
            tuple(map(_offered, declared)),
            model=request.path.rpartition("/")[2].partition(":")[0],
        )

    def new_reply(self, id: str, model: str, created: int) -> dict[str, Any]:
        """A reply does not say when it was created."""
        candidate = {"content": {"parts": [], "role": "model"}, "index": 0}
        return {"candidates": [candidate], "modelVersion": model, "responseId": id}

    def read_reply(self, body: dict[str, Any]) -> ModelReply:
        candidate = _first(body)
        parts = parts_of(candidate.get("content"))
        calls = tuple(read_call(call_in(part)) for part in parts if call_in(part))
        reason = as_text(named_field(candidate, "finishReason"))
        finish = "tool_calls" if calls and reason == "STOP" else _FINISH.get(reason, reason)
        return ModelReply("".join(map(_plain_text, parts)), calls, finish)

    def write_reply(self, body: dict[str, Any], reply: ModelReply) -> dict[str, Any]:
        """Parts of other kinds stay where they are.

        The API never returns a call with malformed arguments: its reply ends there and says why.
        """
        candidate = _first(body)
        same_text = reply.text == self.read_reply(body).text
        calls, malformed = _up_to_malformed(reply.calls)
        waiting, text = list(calls), reply.text
        parts: list[ContentPart] = []
        for part in parts_of(candidate.get("content")):
            if call_in(part):
                parts += [_written(part, waiting.pop(0))] if waiting else []
            elif not _is_text(part) or same_text:
                parts.append(part)
            elif text:
                parts.append({"text": text})
                text = ""
        if text and not same_text:
            before_calls = next((at for at, part in enumerate(parts) if call_in(part)), len(parts))
            parts.insert(before_calls, {"text": text})
        parts += [_written({}, call) for call in waiting]
        content = {**as_object(candidate.get("content")), "parts": parts}
        reason = _REASONS.get(reply.finish, reply.finish) or None
        changed = {**candidate, "content": content, "finishReason": reason}
        if malformed is not None:
            message = f"Malformed function call: {malformed.name}({malformed.arguments})"
            changed |= {"finishReason": _MALFORMED, "finishMessage": message}
        return {**body, "candidates": [changed, *as_list(body.get("candidates"))[1:]]}

    def cut_call(self, call: ToolCall, *, stream: bool) -> ToolCall | None:
        """Calls come whole or not at all."""
        return None

    def usage(self, prompt: int, completion: int) -> dict[str, int]:
        counts = {"promptTokenCount": prompt, "candidatesTokenCount": completion}
        return {**counts, "totalTokenCount": prompt + completion}

    def collect(self, events: Iterable[bytes]) -> dict[str, Any]:
        return collect_chunks(events)

    def spread(self, body: dict[str, Any]) -> Iterator[bytes]:
        return spread_candidates(body)

    def kind_of(self, event: bytes) -> EventKind:
        """Text and calls come first: the last of them often has the finish reason too."""
        candidate = event_candidate(event)
        parts = parts_of(candidate.get("content"))
        if any(map(call_in, parts)):
            return "call"
        if any(as_text(part.get("text")) for part in parts):
            return "text"
        return "finish" if named_field(candidate, "finishReason") else "other"

    def calls_begun(self, event: bytes) -> int:
        return sum(1 for part in parts_of(event_candidate(event).get("content")) if call_in(part))

    def arguments_in(self, event: bytes) -> str:
        parts = parts_of(event_candidate(event).get("content"))
        return next((read_call(call).arguments for part in parts if (call := call_in(part))), "")

    def with_arguments(self, event: bytes, arguments: str) -> bytes:
        """An event cannot hold malformed arguments: it breaks off after them."""
        candidate = event_candidate(event)
        parts = parts_of(candidate.get("content"))
        at = next((at for at, part in enumerate(parts) if call_in(part)), None)
        if at is None:
            return event
        call = replace(read_call(call_in(parts[at])), arguments=arguments)
        content = {**as_object(candidate.get("content")), "parts": [*parts[:at], _written(parts[at], call)]}
        whole = _with_candidate(event, {**_without_reason(candidate), "content": content})
        return whole if call.values() is not None else break_off(whole, arguments)

    def without_finish(self, event: bytes) -> bytes | None:
        """The event without its finish reason; None if it has none."""
        candidate = event_candidate(event)
        if not named_field(candidate, "finishReason"):
            return None
        has_content = self.kind_of(event) != "finish"
        return _with_candidate(event, _without_reason(candidate)) if has_content else b""


GEMINI = Gemini()


def _first(body: dict[str, Any]) -> _Candidate:
    candidates = as_objects(body.get("candidates"))
    if not candidates:
        raise ValueError("no candidate")
    return candidates[0]


def _without_reason(candidate: _Candidate) -> _Candidate:
    return {key: candidate[key] for key in ("content", "index") if key in candidate}


def _with_candidate(event: bytes, candidate: _Candidate) -> bytes:
    return with_data(event, dump_json({**as_object(value_of(event)), "candidates": [candidate]}))


def _is_text(part: ContentPart) -> bool:
    """Whether the part is text of the answer; a thought is not."""
    return "text" in part and not part.get("thought")


def _plain_text(part: ContentPart) -> str:
    return as_text(part.get("text")) if _is_text(part) else ""


def _offered(function: dict[str, Any]) -> OfferedTool:
    """A declaration has a JSON schema, or the API's own, whose types are in capitals."""
    schema = named_field(function, "parametersJsonSchema")
    plain = schema if schema is not None else json_schema(function.get("parameters"))
    return OfferedTool.read({**function, "schema": plain}, schema="schema")


def json_schema(schema: Any, depth: int = 0) -> Any:
    """A schema in the API's own form as JSON schema has it: the names of types are in small letters."""
    if isinstance(schema, list):
        return [json_schema(item, depth + 1) for item in schema]
    if not isinstance(schema, dict) or depth > 32:
        return schema
    return {
        key: value.lower() if key == "type" and isinstance(value, str) else json_schema(value, depth + 1)
        for key, value in schema.items()
    }


def _up_to_malformed(calls: Sequence[ToolCall]) -> tuple[Sequence[ToolCall], ToolCall | None]:
    """The calls before the first malformed one, and the malformed one."""
    at = next((at for at, call in enumerate(calls) if call.values() is None), None)
    return (calls, None) if at is None else (calls[:at], calls[at])


def _written(part: ContentPart, call: ToolCall) -> ContentPart:
    return write_call(part, call, call.values() or {})
