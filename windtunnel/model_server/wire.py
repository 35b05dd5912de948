"""The chat-completions wire format of Groq and OpenAI: reading requests, writing replies."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from windtunnel.model_server.decide import Decision
from windtunnel.model_server.personas import Persona, persona_of
from windtunnel.model_server.results import text_of

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_PIECE = 12


class BadRequest(Exception):
    """A request that is answered with an error in the provider's form."""

    def __init__(self, message: str, status: int = 400, code: str = "invalid_request") -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code

    def body(self) -> dict[str, Any]:
        return error_body(self.message, self.code, self.status)


def error_body(message: str, code: str, status: int) -> dict[str, Any]:
    kind = "invalid_request_error" if status < 500 else "internal_server_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


@dataclass(frozen=True)
class ChatRequest:
    """A checked request; ``body`` is the whole of it."""

    body: Mapping[str, Any]
    model: str
    persona: Persona
    seed: int
    stream: bool
    include_usage: bool


def parse_request(raw: bytes) -> ChatRequest:
    """Checks a request's body; raises ``BadRequest`` that names what is wrong."""
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body is not JSON: {error}", code="invalid_json") from None
    if not isinstance(body, dict):
        raise BadRequest("the body must be a JSON object")
    model = body.get("model")
    if not isinstance(model, str):
        raise BadRequest("'model' must be a string")
    persona = persona_of(model)
    if persona is None:
        raise BadRequest(
            f"The model `{model}` does not exist or you do not have access to it.", 404, "model_not_found"
        )
    _check_messages(body.get("messages"))
    _check_tools(body.get("tools"))
    options = body.get("stream_options") or {}
    seed = body.get("seed")
    if seed is not None and (not isinstance(seed, int) or isinstance(seed, bool)):
        raise BadRequest("'seed' must be an integer")
    for name in ("stream", "parallel_tool_calls"):
        if not isinstance(body.get(name), bool | None):
            raise BadRequest(f"'{name}' must be a boolean")
    if not isinstance(options, dict):
        raise BadRequest("'stream_options' must be an object")
    return ChatRequest(
        body, model, persona, seed or 0, bool(body.get("stream")), bool(options.get("include_usage"))
    )


def _check_messages(messages: object) -> None:
    if not isinstance(messages, list) or not messages:
        raise BadRequest("'messages' must be a list with at least one message")
    for index, message in enumerate(messages):
        where = f"'messages.{index}'"
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            raise BadRequest(f"{where} must be an object whose role is one of {', '.join(_ROLES)}")
        content = message.get("content")
        if not isinstance(content, str | list | None):
            raise BadRequest(f"{where}: content must be a string or a list of parts")
        if content is None and message["role"] in ("system", "user", "tool"):
            raise BadRequest(f"{where}: content is missing")
        if not isinstance(message.get("tool_calls"), list | None):
            raise BadRequest(f"{where}: tool_calls must be a list")


def _check_tools(tools: object) -> None:
    if not isinstance(tools, list | None):
        raise BadRequest("'tools' must be a list")
    for index, tool in enumerate(tools or []):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise BadRequest(f"'tools.{index}' must be an object with a function that has a name")


def estimate_tokens(text: str) -> int:
    """A documented stand-in for a tokenizer: one token for every four characters, at least one for any
    text."""
    return (len(text) + 3) // 4


@dataclass(frozen=True)
class Reply:
    """A decision with the ids that derive from seed and messages, ready to be written out."""

    request: ChatRequest
    decision: Decision
    created: int
    digest: str

    @classmethod
    def of(cls, request: ChatRequest, decision: Decision, created: int) -> Reply:
        """``created`` is in seconds since the epoch."""
        known = json.dumps([request.seed, request.body["messages"]], sort_keys=True)
        return cls(
            request,
            decision,
            created,
            hashlib.blake2b(known.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest(),
        )

    @property
    def finish_reason(self) -> str:
        return "tool_calls" if self.decision.tool_calls else "stop"

    def tool_calls(self) -> list[dict[str, Any]]:
        return [
            {
                "id": f"call_{self.digest[:16]}{index}",
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
            }
            for index, call in enumerate(self.decision.tool_calls)
        ]

    def usage(self) -> dict[str, int]:
        messages = self.request.body["messages"]
        prompt = sum(
            4
            + estimate_tokens(text_of(m.get("content")))
            + estimate_tokens(json.dumps(m.get("tool_calls") or ""))
            for m in messages
        )
        prompt += (
            estimate_tokens(json.dumps(self.request.body["tools"])) if self.request.body.get("tools") else 0
        )
        said = self.decision.text + "".join(
            call["function"]["name"] + call["function"]["arguments"] for call in self.tool_calls()
        )
        completion = estimate_tokens(said)
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}

    def message(self) -> dict[str, Any]:
        if self.decision.tool_calls:
            return {"role": "assistant", "content": None, "tool_calls": self.tool_calls()}
        return {"role": "assistant", "content": self.decision.text}

    def completion(self, groq: bool) -> dict[str, Any]:
        """The whole reply, not streamed."""
        choice = {
            "index": 0,
            "message": self.message(),
            "logprobs": None,
            "finish_reason": self.finish_reason,
        }
        body = {**self._envelope("chat.completion"), "choices": [choice], "usage": self.usage()}
        return {**body, "x_groq": {"id": self._groq_id()}} if groq else body

    def chunks(self, groq: bool) -> Iterator[dict[str, Any]]:
        """The reply as the chunks of a stream: the role, pieces of text or arguments, the end, and usage."""
        yield self._chunk(
            {"role": "assistant", "content": None if self.decision.tool_calls else ""}, first=groq
        )
        for delta in self._deltas():
            yield self._chunk(delta)
        last = self._chunk({}, self.finish_reason)
        if groq:
            last["x_groq"] = {"id": self._groq_id(), "usage": self.usage()}
        yield last
        if self.request.include_usage:
            yield {**self._envelope("chat.completion.chunk"), "choices": [], "usage": self.usage()}

    def _deltas(self) -> Iterator[dict[str, Any]]:
        for piece in _pieces(self.decision.text):
            yield {"content": piece}
        for index, call in enumerate(self.tool_calls()):
            function = {"name": call["function"]["name"], "arguments": ""}
            yield {
                "tool_calls": [{"index": index, "id": call["id"], "type": "function", "function": function}]
            }
            for piece in _pieces(call["function"]["arguments"]):
                yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}

    def _chunk(self, delta: dict[str, Any], finish: str | None = None, first: bool = False) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        body = {**self._envelope("chat.completion.chunk"), "choices": [choice]}
        return {**body, "x_groq": {"id": self._groq_id()}} if first else body

    def _envelope(self, kind: str) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{self.digest}",
            "object": kind,
            "created": self.created,
            "model": self.request.model,
            "system_fingerprint": "fp_scripted",
        }

    def _groq_id(self) -> str:
        return f"req_{self.digest}"


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), _PIECE):
        yield text[start : start + _PIECE]


def event(body: Mapping[str, Any]) -> str:
    """One server-sent event."""
    return f"data: {json.dumps(body, ensure_ascii=False)}\n\n"
