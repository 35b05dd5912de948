"""What the scripted model is asked and replies, as chat completions of Groq and OpenAI."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from windtunnel.dialects.conversation import content_text
from windtunnel.dialects.json_values import compact
from windtunnel.dialects.model_messages import ModelReply, ToolCall
from windtunnel.dialects.openai_chat import OPENAI_CHAT
from windtunnel.model_server.decide import Decision
from windtunnel.model_server.personas import Persona, persona_of

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")


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
    """An error in the provider's form."""
    kind = "invalid_request_error" if status < 500 else "internal_server_error"
    return OPENAI_CHAT.error_body(kind, message, code=code)


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


def _estimate_tokens(text: str) -> int:
    """A stand-in for a tokenizer: one token for every four characters, rounded up."""
    return (len(text) + 3) // 4


@dataclass(frozen=True)
class ScriptedReply:
    """A decision with the ids that derive from seed and messages, ready to be written out."""

    request: ChatRequest
    reply: ModelReply
    created: int
    digest: str

    @classmethod
    def of(cls, request: ChatRequest, decision: Decision, created: int) -> ScriptedReply:
        """``created`` is in seconds since the epoch."""
        known = json.dumps([request.seed, request.body["messages"]], sort_keys=True)
        digest = hashlib.blake2b(known.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
        calls = tuple(
            ToolCall(call.name, compact(call.arguments), f"{OPENAI_CHAT.id_prefix}{digest[:16]}{index}")
            for index, call in enumerate(decision.tool_calls)
        )
        reply = ModelReply().with_calls(*calls) if calls else ModelReply(decision.text)
        return cls(request, reply, created, digest)

    def usage(self) -> dict[str, int]:
        """The tokens of request and reply, estimated."""
        body = self.request.body
        prompt = sum(
            4
            + _estimate_tokens(content_text(message.get("content")))
            + _estimate_tokens(json.dumps(message.get("tool_calls") or ""))
            for message in body["messages"]
        )
        prompt += _estimate_tokens(json.dumps(body["tools"])) if body.get("tools") else 0
        calls = "".join(call.name + call.arguments for call in self.reply.calls)
        return OPENAI_CHAT.usage(prompt, _estimate_tokens(self.reply.text + calls))

    def completion(self, groq: bool) -> dict[str, Any]:
        """The whole reply, not streamed; ``groq`` adds what only Groq sends."""
        ids = {"x_groq": {"id": f"req_{self.digest}"}} if groq else {}
        return {**self._body(), "usage": self.usage(), **ids}

    def events(self, groq: bool) -> Iterator[bytes]:
        """The reply as an event stream; Groq sends the usage with the last chunk, OpenAI on request."""
        usage = self.usage()
        last = {"x_groq": {"id": f"req_{self.digest}", "usage": usage}} if groq else {}
        on_request = {"usage": usage} if self.request.include_usage else {}
        return OPENAI_CHAT.spread({**self._body(), **last, **on_request})

    def _body(self) -> dict[str, Any]:
        empty = OPENAI_CHAT.new_reply(f"chatcmpl-{self.digest}", self.request.model, self.created)
        choices = empty.pop("choices")
        envelope = {**empty, "system_fingerprint": "fp_scripted"}
        return OPENAI_CHAT.write_reply({**envelope, "choices": choices}, self.reply)
