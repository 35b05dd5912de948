"""Chat completions (Groq, OpenAI and compatible): replies and requests in the neutral form. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from windtunnel.dialects import event_stream as sse
from windtunnel.dialects.conversation import role_of, text_of
from windtunnel.dialects.http import Request
from windtunnel.dialects.json_values import items, obj, objects, text
from windtunnel.dialects.model_messages import PIECE, ModelReply, ModelRequest, Tool, ToolCall

ID_PREFIX = "call_"


def read(completion: dict[str, Any]) -> ModelReply:
    """The first choice. Raises ``ValueError`` for what is no completion."""
    choice = _first(completion)
    message = obj(choice.get("message"))
    return ModelReply(
        text(message.get("content")),
        tuple(map(_call, objects(message.get("tool_calls")))),
        text(choice.get("finish_reason")),
    )


def write(completion: dict[str, Any], said: ModelReply) -> dict[str, Any]:
    """The completion with that in its first choice; all else stays."""
    choice = _first(completion)
    message = {**obj(choice.get("message"))}
    same_text = said.text == text(message.get("content"))
    if not (same_text and said.calls):
        message["content"] = said.text
    asked = objects(message.pop("tool_calls", None))
    if said.calls:
        padded = [*asked, *({} for _ in said.calls)]
        message["tool_calls"] = [_written(old, call) for old, call in zip(padded, said.calls, strict=False)]
    changed = {**choice, "message": message, "finish_reason": said.finish or None}
    if not same_text and "logprobs" in changed:
        changed["logprobs"] = None
    return {**completion, "choices": [changed, *completion["choices"][1:]]}


def collect(events: Iterable[bytes]) -> dict[str, Any]:
    """The completion that a stream of chunks amounts to. Raises ``ValueError`` for anything else."""
    chunks = [value for event in events if isinstance(value := sse.value_of(event), dict)]
    choices: dict[int, dict[str, Any]] = {}
    for chunk in chunks:
        for part in objects(chunk.get("choices")):
            _add(choices.setdefault(_index(part), {"message": {}}), part)
    if not choices or any("error" in chunk for chunk in chunks):
        raise ValueError("no stream of chunks")
    whole = {key: value for chunk in reversed(chunks) for key, value in chunk.items()}
    usage = [chunk["usage"] for chunk in chunks if obj(chunk.get("usage"))]
    groq = [chunk["x_groq"] for chunk in chunks if obj(chunk.get("x_groq"))]
    whole |= {"object": "chat.completion", "choices": [choices[at] for at in sorted(choices)]}
    whole |= {"usage": usage[-1]} if usage else {}
    whole |= {"x_groq": {**groq[0], **groq[-1]}} if groq else {}
    return whole


def spread(completion: dict[str, Any]) -> Iterator[bytes]:
    """The completion as the chunks of a stream, ended by ``[DONE]``."""
    envelope = {**completion, "object": "chat.completion.chunk"}
    usage, groq = envelope.pop("usage", None), envelope.pop("x_groq", None)
    choices = [_numbered(choice, at) for at, choice in enumerate(envelope.pop("choices"))]
    first = {"x_groq": {"id": groq["id"]}} if "id" in obj(groq) else {}
    for choice in choices:
        for delta in _deltas(obj(choice.pop("message"))):
            part = {"index": choice["index"], "delta": delta, "finish_reason": None}
            yield sse.write({**envelope, "choices": [part], **first})
            first = {}
        last = {"x_groq": groq} if groq and choice is choices[-1] else {}
        yield sse.write({**envelope, "choices": [{"delta": {}, **choice}], **last})
    if usage is not None:
        yield sse.write({**envelope, "choices": [], "usage": usage})
    yield sse.DONE


def talk(request: Request) -> ModelRequest:
    """The conversation in a request; an empty one if it holds none that can be read."""
    try:
        body = obj(request.json())
    except ValueError:
        return ModelRequest()
    messages = objects(body.get("messages"))
    calls = [_call(one) for message in messages for one in objects(message.get("tool_calls"))]
    functions = [obj(tool.get("function")) for tool in objects(body.get("tools"))]
    tools = [
        Tool(text(one.get("name")), text(one.get("description")), obj(one.get("parameters")))
        for one in functions
    ]
    users = [text_of(message) for message in messages if role_of(message) == "user"]
    return ModelRequest(users[-1] if users else "", tuple(calls), tuple(tools))


def _first(completion: dict[str, Any]) -> dict[str, Any]:
    choice = obj(next(iter(items(completion.get("choices"))), None))
    if not obj(choice.get("message")):
        raise ValueError("no completion")
    return choice


def _call(value: dict[str, Any]) -> ToolCall:
    function = obj(value.get("function"))
    return ToolCall(text(function.get("name")), text(function.get("arguments")), text(value.get("id")))


def _written(old: dict[str, Any], call: ToolCall) -> dict[str, Any]:
    function = {**obj(old.get("function")), "name": call.name, "arguments": call.arguments}
    return {"type": "function", **old, "id": call.id, "function": function}


def _index(value: dict[str, Any]) -> int:
    index = value.get("index")
    return index if isinstance(index, int) else 0


def _numbered(choice: dict[str, Any], at: int) -> dict[str, Any]:
    return {"index": at, **choice}


def _add(choice: dict[str, Any], part: dict[str, Any]) -> None:
    """Adds a chunk's delta to the choice so far."""
    message = choice["message"]
    for key, value in obj(part.get("delta")).items():
        if key == "tool_calls":
            calls = message.setdefault("tool_calls", [])
            for delta in objects(value):
                _add_call(calls, delta)
        elif key != "role" and isinstance(value, str) and isinstance(message.get(key), str):
            message[key] += value
        elif value is not None or key not in message:
            message[key] = value
    rest = {key: value for key, value in part.items() if key != "delta" and value is not None}
    choice.update(rest)


def _add_call(calls: list[dict[str, Any]], delta: dict[str, Any]) -> None:
    """Adds a piece of a tool call to the one of its index, or begins it."""
    at = _index(delta)
    known = next((call for call in calls if call["index"] == at), None)
    function = obj(delta.get("function"))
    if known is None:
        calls.append({**delta, "index": at, "function": {**function, "arguments": ""}})
        known = calls[-1]
    known["function"]["arguments"] += text(function.get("arguments"))


def _deltas(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    content, calls = text(message.get("content")), objects(message.get("tool_calls"))
    rest = {key: value for key, value in message.items() if key not in ("content", "tool_calls")}
    yield {"role": "assistant", **rest, "content": None if calls and not content else ""}
    for start in range(0, len(content), PIECE):
        yield {"content": content[start : start + PIECE]}
    for at, call in enumerate(calls):
        function = obj(call.get("function"))
        yield {"tool_calls": [{**call, "index": at, "function": {**function, "arguments": ""}}]}
        arguments = text(function.get("arguments"))
        for start in range(0, len(arguments), PIECE):
            piece = {"index": at, "function": {"arguments": arguments[start : start + PIECE]}}
            yield {"tool_calls": [piece]}
