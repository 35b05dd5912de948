"""Anthropic's messages API: replies and requests in the neutral form. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from windtunnel.dialects import event_stream as sse
from windtunnel.dialects.conversation import role_of, text_of
from windtunnel.dialects.http import Request
from windtunnel.dialects.json_values import compact, items, obj, objects, parsed, text
from windtunnel.dialects.model_messages import PIECE, ModelReply, ModelRequest, Tool, ToolCall

ID_PREFIX = "toolu_"
_FINISH = {"end_turn": "stop", "tool_use": "tool_calls", "refusal": "content_filter", "max_tokens": "length"}
_STOP = {finish: stop for stop, finish in _FINISH.items()}
_ENDS = ("stop_reason", "stop_sequence", "stop_details", "container")
_Block = dict[str, Any]


def read(message: dict[str, Any]) -> ModelReply:
    """Raises ``ValueError`` for what is no message."""
    blocks = _blocks(message)
    stop = text(message.get("stop_reason"))
    said = "".join(text(block.get("text")) for block in blocks if block.get("type") == "text")
    calls = tuple(_call(block) for block in blocks if block.get("type") == "tool_use")
    return ModelReply(said, calls, _FINISH.get(stop, stop))


def write(message: dict[str, Any], said: ModelReply) -> dict[str, Any]:
    """The message with that in it; blocks of other kinds stay where they are."""
    same_text = said.text == read(message).text
    calls, words = list(said.calls), said.text
    content: list[_Block] = []
    for block in _blocks(message):
        kind = block.get("type")
        if kind == "tool_use":
            content += [_written(block, calls.pop(0))] if calls else []
        elif kind != "text" or same_text:
            content.append(block)
        elif words:
            content.append({"type": "text", "text": words})
            words = ""
    if words and not same_text:
        content.append({"type": "text", "text": words})
    content += [_written({"type": "tool_use"}, call) for call in calls]
    return {**message, "content": content, "stop_reason": _STOP.get(said.finish, said.finish) or None}


def collect(events: Iterable[bytes]) -> dict[str, Any]:
    """The message that a stream of events amounts to. Raises ``ValueError`` for anything else."""
    message: dict[str, Any] | None = None
    blocks: dict[int, _Block] = {}
    for event in events:
        value = obj(sse.value_of(event))
        kind = value.get("type")
        if kind == "message_start":
            message = {**obj(value.get("message"))}
        elif kind == "message_delta" and message is not None:
            message |= obj(value.get("delta"))
            message["usage"] = {**obj(message.get("usage")), **obj(value.get("usage"))}
        elif kind == "content_block_start":
            blocks[_index(value)] = {**obj(value.get("content_block"))}
        elif kind == "content_block_delta":
            _add(blocks.setdefault(_index(value), {"type": "text"}), obj(value.get("delta")))
        elif kind == "error":
            raise ValueError("the stream ended in an error")
    if message is None:
        raise ValueError("no stream of a message")
    return {**message, "content": [_ended(blocks[at]) for at in sorted(blocks)]}


def spread(message: dict[str, Any]) -> Iterator[bytes]:
    """The message as the events of a stream."""
    usage = obj(message.get("usage"))
    start = {**message, "content": [], "stop_reason": None, "stop_sequence": None}
    yield _event("message_start", message=start)
    for at, block in enumerate(_blocks(message)):
        empty, deltas = _opened(block)
        yield _event("content_block_start", index=at, content_block=empty)
        for delta in deltas:
            yield _event("content_block_delta", index=at, delta=delta)
        yield _event("content_block_stop", index=at)
    delta = {key: message.get(key) for key in _ENDS if key in message}
    yield _event("message_delta", delta=delta, usage={"output_tokens": 0, **usage})
    yield _event("message_stop")


def talk(request: Request) -> ModelRequest:
    """The conversation in a request; an empty one if it holds none that can be read."""
    try:
        body = obj(request.json())
    except ValueError:
        return ModelRequest()
    messages = objects(body.get("messages"))
    blocks = [block for message in messages for block in objects(message.get("content"))]
    calls = [_call(block) for block in blocks if block.get("type") == "tool_use"]
    tools = [
        Tool(text(one.get("name")), text(one.get("description")), obj(one.get("input_schema")))
        for one in objects(body.get("tools"))
    ]
    users = [text_of(message) for message in messages if role_of(message) == "user"]
    return ModelRequest(users[-1] if users else "", tuple(calls), tuple(tools))


def _blocks(message: dict[str, Any]) -> list[_Block]:
    content = message.get("content")
    if not isinstance(content, list) or len(objects(content)) != len(content):
        raise ValueError("no message")
    return objects(content)


def _call(block: _Block) -> ToolCall:
    return ToolCall(text(block.get("name")), _arguments(block.get("input")), text(block.get("id")))


def _arguments(given: Any) -> str:
    """An input that is a string is what a stream's pieces amounted to, and no JSON."""
    return given if isinstance(given, str) else compact(given if given is not None else {})


def _written(block: _Block, call: ToolCall) -> _Block:
    values = call.values()
    return {**block, "id": call.id, "name": call.name, "input": call.arguments if values is None else values}


def _index(value: dict[str, Any]) -> int:
    index = value.get("index")
    return index if isinstance(index, int) else 0


_PIECES = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


def _add(block: _Block, delta: dict[str, Any]) -> None:
    kind = text(delta.get("type"))
    if kind == "input_json_delta":
        block["json"] = text(block.get("json")) + text(delta.get("partial_json"))
    elif kind == "citations_delta":
        block["citations"] = [*items(block.get("citations")), delta.get("citation")]
    elif kind in _PIECES:
        key = _PIECES[kind]
        block[key] = text(block.get(key)) + text(delta.get(key))


def _ended(block: _Block) -> _Block:
    """A block once all of it has come: its input is JSON, or the text that should have been."""
    if "json" not in block:
        return block
    written = block["json"]
    rest = {key: value for key, value in block.items() if key != "json"}
    try:
        return {**rest, "input": parsed(written) if written else {}}
    except ValueError:
        return {**rest, "input": written}


def _opened(block: _Block) -> tuple[_Block, list[dict[str, Any]]]:
    """A block as it starts, and the deltas that complete it."""
    kind = block.get("type")
    if kind == "text":
        cited = [{"type": "citations_delta", "citation": one} for one in items(block.get("citations"))]
        empty = {**block, "text": ""} | ({"citations": []} if cited else {})
        return empty, [*cited, *_cut("text_delta", "text", text(block.get("text")))]
    if kind == "tool_use":
        written = _arguments(block.get("input"))
        return {**block, "input": {}}, _cut("input_json_delta", "partial_json", written)
    if kind == "thinking":
        thought = _cut("thinking_delta", "thinking", text(block.get("thinking")))
        sign = {"type": "signature_delta", "signature": text(block.get("signature"))}
        return {**block, "thinking": "", "signature": ""}, [*thought, sign]
    return block, []


def _cut(kind: str, key: str, whole: str) -> list[dict[str, Any]]:
    return [{"type": kind, key: whole[at : at + PIECE]} for at in range(0, len(whole), PIECE)]


def _event(kind: str, **fields: Any) -> bytes:
    return sse.write({"type": kind, **fields}, kind)
