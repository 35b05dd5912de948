"""The event streams of OpenAI's Responses API: a response as events, and what events amount to. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from itertools import count
from typing import Any

from wirefault.dialects.event_stream import value_of, write_event
from wirefault.dialects.json_values import as_list, as_object, as_objects, as_text
from wirefault.dialects.model_messages import pieces

FINISHED = ("response.completed", "response.incomplete")
_BEGUN = ("response.created", "response.queued", "response.in_progress")
_Event = dict[str, Any]


def collect_response(events: Iterable[bytes]) -> dict[str, Any]:
    """The response that the events amount to: as the last of them has it, else of the pieces that came.

    Raises ``ValueError`` for what is no stream of a response, and for one that ended in an error.
    """
    response: dict[str, Any] | None = None
    items: dict[int, dict[str, Any]] = {}
    for event in events:
        value = as_object(value_of(event))
        kind = as_text(value.get("type"))
        if kind in FINISHED:
            return {**as_object(value.get("response"))}
        if kind in ("error", "response.failed"):
            raise ValueError("the stream ended in an error")
        if kind in _BEGUN:
            response = {**as_object(value.get("response"))}
        elif kind in ("response.output_item.added", "response.output_item.done"):
            items[_number(value, "output_index")] = deepcopy(as_object(value.get("item")))
        else:
            _add(items.setdefault(_number(value, "output_index"), {}), kind, value)
    if response is None:
        raise ValueError("no stream of a response")
    return {**response, "output": [items[at] for at in sorted(items) if items[at]]}


def _add(item: dict[str, Any], kind: str, event: _Event) -> None:
    """Adds what an event brings to the item so far."""
    delta = as_text(event.get("delta"))
    if kind == "response.function_call_arguments.delta":
        item["arguments"] = as_text(item.get("arguments")) + delta
    elif kind == "response.content_part.added":
        item["content"] = [*as_list(item.get("content")), {**as_object(event.get("part"))}]
    elif kind == "response.output_text.delta":
        parts = as_objects(item.get("content"))
        if parts:
            part = parts[min(_number(event, "content_index"), len(parts) - 1)]
            part["text"] = as_text(part.get("text")) + delta


def _number(event: _Event, name: str) -> int:
    value = event.get(name)
    return value if isinstance(value, int) and value >= 0 else 0


def spread_response(body: Mapping[str, Any]) -> Iterator[bytes]:
    """The response as the events of a stream."""
    numbers = count()
    for event in _events(body):
        yield write_event({**event, "sequence_number": next(numbers)}, event["type"])


def _events(body: Mapping[str, Any]) -> Iterator[_Event]:
    begun: _Event = {"status": "in_progress", "output": [], "incomplete_details": None, "usage": None}
    yield {"type": "response.created", "response": {**body, **begun}}
    yield {"type": "response.in_progress", "response": {**body, **begun}}
    for at, item in enumerate(as_objects(body.get("output"))):
        of_item = {"item_id": as_text(item.get("id")), "output_index": at}
        filled = {key: item[key] for key in item.keys() & {"content", "summary", "arguments"}}
        empty = {key: value[:0] for key, value in filled.items() if isinstance(value, str | list)}
        opened = {**item, **empty} | ({"status": "in_progress"} if "status" in item else {})
        yield {"type": "response.output_item.added", "output_index": at, "item": opened}
        yield from ({**event, **of_item} for event in _inside(item))
        yield {"type": "response.output_item.done", "output_index": at, "item": item}
    status = "incomplete" if body.get("status") == "incomplete" else "completed"
    yield {"type": f"response.{status}", "response": dict(body)}


def _inside(item: dict[str, Any]) -> Iterator[_Event]:
    """The events between the begin and the end of an item."""
    if item.get("type") == "function_call":
        written = as_text(item.get("arguments"))
        for piece in pieces(written):
            yield {"type": "response.function_call_arguments.delta", "delta": piece}
        name = as_text(item.get("name"))
        yield {"type": "response.function_call_arguments.done", "arguments": written, "name": name}
    for at, part in enumerate(as_objects(item.get("content"))):
        yield from ({**event, "content_index": at} for event in _of_part(part, "response.content_part"))
    for at, part in enumerate(as_objects(item.get("summary"))):
        summary = _of_part(part, "response.reasoning_summary_part")
        yield from ({**event, "summary_index": at} for event in summary)


# the kinds of parts whose text comes in pieces: what their events are called, and the key of their text
_TEXTS: dict[str, tuple[str, str, _Event]] = {
    "output_text": ("response.output_text", "text", {"logprobs": []}),
    "refusal": ("response.refusal", "refusal", {}),
    "reasoning_text": ("response.reasoning_text", "text", {}),
    "summary_text": ("response.reasoning_summary_text", "text", {}),
}


def _of_part(part: dict[str, Any], called: str) -> Iterator[_Event]:
    name, key, more = _TEXTS.get(as_text(part.get("type")), ("", "", {}))
    yield {"type": f"{called}.added", "part": {**part, key: ""} if key else part}
    if key:
        text = as_text(part.get(key))
        for piece in pieces(text):
            yield {"type": f"{name}.delta", "delta": piece, **more}
        yield {"type": f"{name}.done", key: text, **more}
    yield {"type": f"{called}.done", "part": part}
