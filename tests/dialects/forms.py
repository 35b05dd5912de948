"""Requests to a model and its replies, in every dialect, as JSON and as event streams."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.dialects.gemini_forms import gemini_reply, gemini_request
from wirefault.dialects import Dialect
from wirefault.dialects.base import ModelDialect, ModelReply, ToolCall, reply_body
from wirefault.dialects.http import JSON_TYPE, Reply, Request, json_reply
from wirefault.dialects.registry import MODEL_DIALECTS

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}
REPORT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "status": {"enum": ["done", "failed", "unsure"], "type": "string"},
        "answer": {"type": "string"},
        "values": {"type": "array", "items": {"$ref": "#/$defs/Value"}, "default": []},
    },
    "required": ["status", "answer"],
}
TOOLS = {
    "get_weather": ("The weather of a city.", SCHEMA),
    "calculate": ("Evaluates an arithmetic expression.", SCHEMA),
    "Report": ("Report to the user; ends the task.", REPORT),
}
USER = "How warm is it in Zurich, and how warm in Bern?"
USAGE = {"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 16}
ZURICH = ToolCall("get_weather", '{"city": "Zurich", "days": 2}', "c1")
BERN = ToolCall("get_weather", '{"city": "Bern", "days": 1}', "c2")
TEXT = ModelReply("It is 21.5 degrees in Zurich, which is more than the 19 in Bern.")
CALL = ModelReply("I look it up.", (ZURICH,), "tool_calls")
CALLS = ModelReply("", (ZURICH, BERN), "tool_calls")
ANSWER = {"status": "done", "answer": "It is 21.5 degrees.", "values": [{"value": 21.5, "unit": "celsius"}]}
FINAL = ModelReply("", (ToolCall("Report", json.dumps(ANSWER), "c3"),), "tool_calls")


@dataclass(frozen=True)
class Form:
    """A dialect, as JSON or as an event stream."""

    dialect: Dialect
    stream: bool

    def __str__(self) -> str:
        return f"{self.dialect}-{'stream' if self.stream else 'json'}"

    def reply(self, reply: ModelReply) -> Reply:
        body = WRITERS[self.dialect].reply(reply)
        return streamed(self.dialect, body) if self.stream else json_reply(200, body)

    @property
    def model_dialect(self) -> ModelDialect:
        return MODEL_DIALECTS[self.dialect]

    def read(self, reply: Reply) -> ModelReply:
        return self.model_dialect.read_reply(reply_body(self.model_dialect, reply))

    def request(self, *earlier: ToolCall, tools: bool = True) -> Request:
        """A request with those calls in its conversation, answered by the tools."""
        writer = WRITERS[self.dialect]
        body = {**writer.request(earlier, tools), "stream": self.stream}
        path = (self.stream and writer.stream_path) or writer.path
        return Request(JSON_TYPE, json.dumps(body).encode(), "POST", path)


def streamed(dialect: Dialect, body: dict[str, Any]) -> Reply:
    kind = STREAM_TYPES.get(dialect, "text/event-stream")
    return Reply((("Content-Type", kind),), b"".join(MODEL_DIALECTS[dialect].spread(body)))


def events(reply: ModelReply, form: Form) -> list[bytes]:
    return list(form.reply(reply).events())


def _ollama_reply(reply: ModelReply) -> dict[str, Any]:
    calls = [
        {"function": {"name": c.name, "arguments": json.loads(c.arguments)}, "id": c.id} for c in reply.calls
    ]
    message = {"role": "assistant", "content": reply.text} | ({"tool_calls": calls} if calls else {})
    head = {"model": "m", "created_at": "2026-11-26T05:00:00Z", "message": message}
    counts = {"prompt_eval_count": 9, "eval_count": 7, "total_duration": 5}
    return {**head, "done": True, "done_reason": "stop", **counts}


def _ollama_request(earlier: tuple[ToolCall, ...], tools: bool) -> dict[str, Any]:
    body = _chat_request(earlier, tools)
    messages: list[dict[str, Any]] = [{"role": "user", "content": USER}]
    for call in earlier:
        messages.append(_ollama_reply(ModelReply("", (call,)))["message"])
        messages.append({"role": "tool", "tool_name": call.name, "content": '{"temperature": 21.5}'})
    return {**body, "messages": messages}


def _converse_reply(reply: ModelReply) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = [{"text": reply.text}] if reply.text else []
    blocks += [{"toolUse": _tool_use(call)} for call in reply.calls]
    message = {"role": "assistant", "content": blocks}
    usage = {"inputTokens": 9, "outputTokens": 7, "totalTokens": 16}
    end = {
        "stopReason": "tool_use" if reply.calls else "end_turn",
        "usage": usage,
        "metrics": {"latencyMs": 5},
    }
    return {"output": {"message": message}, **end}


def _tool_use(call: ToolCall) -> dict[str, Any]:
    return {"toolUseId": call.id, "name": call.name, "input": json.loads(call.arguments)}


def _converse_request(earlier: tuple[ToolCall, ...], tools: bool) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": [{"text": USER}]}]
    for call in earlier:
        messages.append({"role": "assistant", "content": [{"toolUse": _tool_use(call)}]})
        result = {"toolUseId": call.id, "content": [{"json": {"temperature": 21.5}}], "status": "success"}
        messages.append({"role": "user", "content": [{"toolResult": result}]})
    offered = [
        {"toolSpec": {"name": name, "description": about, "inputSchema": {"json": schema}}}
        for name, (about, schema) in TOOLS.items()
    ]
    return {"messages": messages} | ({"toolConfig": {"tools": offered}} if tools else {})


def _completion(reply: ModelReply) -> dict[str, Any]:
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in reply.calls
    ]
    message = {"role": "assistant", "content": reply.text or None} | ({"tool_calls": calls} if calls else {})
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reply.finish}
    envelope = {"id": "chatcmpl-1", "object": "chat.completion", "created": 5, "model": "m"}
    return {**envelope, "choices": [choice], "usage": USAGE, "x_groq": {"id": "req_1"}}


def _message(reply: ModelReply) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": reply.text}] if reply.text else []
    blocks += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(call.arguments)}
        for call in reply.calls
    ]
    stop = "tool_use" if reply.calls else "end_turn"
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": blocks}
    usage = {"input_tokens": 9, "output_tokens": 7}
    return {**head, "stop_reason": stop, "stop_sequence": None, "usage": usage}


def _chat_request(earlier: tuple[ToolCall, ...], tools: bool) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": USER}]
    for call in earlier:
        messages.append(_completion(ModelReply("", (call,)))["choices"][0]["message"])
        messages.append({"role": "tool", "tool_call_id": call.id, "content": '{"temperature": 21.5}'})
    offered = [
        {"type": "function", "function": {"name": name, "description": about, "parameters": schema}}
        for name, (about, schema) in TOOLS.items()
    ]
    return {"model": "m", "messages": messages} | ({"tools": offered} if tools else {})


def _messages_request(earlier: tuple[ToolCall, ...], tools: bool) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": USER}]
    for call in earlier:
        messages.append({"role": "assistant", "content": _message(ModelReply("", (call,)))["content"]})
        result = {"type": "tool_result", "tool_use_id": call.id, "content": '{"temperature": 21.5}'}
        messages.append({"role": "user", "content": [result]})
    offered = [
        {"name": name, "description": about, "input_schema": schema}
        for name, (about, schema) in TOOLS.items()
    ]
    return {"model": "m", "max_tokens": 99, "messages": messages} | ({"tools": offered} if tools else {})


def _response(reply: ModelReply) -> dict[str, Any]:
    part = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }
    items = [{**_call_item(call), "id": f"fc_{call.id}", "status": "completed"} for call in reply.calls]
    head = {"id": "resp_1", "object": "response", "created_at": 5, "status": "completed", "model": "m"}
    echo = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "incomplete_details": None}
    usage = {
        **{"input_tokens": 9, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}},
        **{"output_tokens": 7, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 16},
    }
    return {**head, **echo, "output": [*([message] if reply.text else []), *items], "usage": usage}


def _call_item(call: ToolCall) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}


def _response_request(earlier: tuple[ToolCall, ...], tools: bool) -> dict[str, Any]:
    items: list[dict[str, Any]] = [{"role": "user", "content": USER}]
    for call in earlier:
        output = {"type": "function_call_output", "call_id": call.id, "output": '{"temperature": 21.5}'}
        items += [_call_item(call), output]
    offered = [
        {"type": "function", "name": name, "description": about, "parameters": schema, "strict": False}
        for name, (about, schema) in TOOLS.items()
    ]
    return {"model": "m", "input": items} | ({"tools": offered} if tools else {})


@dataclass(frozen=True)
class Writer:
    """Write the neutral form in a dialect, without code of the product.

    ``stream_path`` is the path of requests for a stream, if it differs.
    """

    path: str
    reply: Callable[[ModelReply], dict[str, Any]]
    request: Callable[[tuple[ToolCall, ...], bool], dict[str, Any]]
    stream_path: str = ""


WRITERS: dict[Dialect, Writer] = {
    "openai_chat": Writer("/openai/v1/chat/completions", _completion, _chat_request),
    "anthropic": Writer("/v1/messages", _message, _messages_request),
    "gemini": Writer(
        "/v1beta/models/m:generateContent",
        gemini_reply,
        lambda earlier, tools: gemini_request(USER, earlier, TOOLS if tools else {}),
        "/v1beta/models/m:streamGenerateContent?alt=sse",
    ),
    "openai_responses": Writer("/v1/responses", _response, _response_request),
    "ollama": Writer("/api/chat", _ollama_reply, _ollama_request),
    "bedrock": Writer("/model/m/converse", _converse_reply, _converse_request, "/model/m/converse-stream"),
}
STREAM_TYPES = {"ollama": "application/x-ndjson", "bedrock": "application/vnd.amazon.eventstream"}
FORMS = [Form(dialect, stream) for dialect in WRITERS for stream in (False, True)]
STREAMS = [form for form in FORMS if form.stream]
