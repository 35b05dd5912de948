"""mixed_calls: the index and the id by which a client tells parallel tool calls apart are wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import Any, Literal

from pydantic import Field

from wirefault.dialects import Dialect
from wirefault.dialects.base import ModelDialect
from wirefault.dialects.http import Reply, dump_json, value_of, with_data
from wirefault.dialects.json_values import as_object
from wirefault.dialects.registry import MODEL_DIALECTS
from wirefault.faults.base import Act, Changed, Fault, Miss, Try, evidence_text

_Kind = Literal["same_id", "missing_id", "same_index", "missing_index", "interleaved"]
# Faults do not look deeper: replies of that shape are attacks.
_MAX_DEPTH = 24


@dataclass(frozen=True)
class _Marks:
    """Where an API has the id and the index of a tool call."""

    is_call: Callable[[str, dict[str, Any]], bool]
    """Whether an object, under that key of its parent, is a call."""
    id_key: str
    index_key: str = ""
    """The key of its index in a stream; empty if calls have none."""
    in_event: bool = False
    """Whether the event has the index, and not the call in it."""
    in_pieces: bool = True
    """Whether the arguments come in several events."""


def _has_function(key: str, value: dict[str, Any]) -> bool:
    return isinstance(value.get("function"), dict)


_MARKS: Mapping[Dialect, _Marks] = {
    "openai_chat": _Marks(_has_function, "id", "index"),
    "openai_responses": _Marks(
        lambda key, value: value.get("type") == "function_call", "call_id", "output_index", True
    ),
    "anthropic": _Marks(lambda key, value: value.get("type") == "tool_use", "id", "index", True),
    "gemini": _Marks(lambda key, value: key in ("functionCall", "function_call"), "id", in_pieces=False),
    "ollama": _Marks(_has_function, "id", "index", in_pieces=False),
    "bedrock": _Marks(lambda key, value: key == "toolUse", "toolUseId", "contentBlockIndex", True),
}


class MixedCalls(Fault):
    """Mix up the tool calls of a reply: same, missing or interleaved ids and indexes.

    ``same_id``: each call has the id of the first. ``missing_id``: no call has an id. ``same_index`` and
    ``missing_index``: the same with the number by which the pieces of a stream belong to a call.
    ``interleaved``: the pieces of parallel calls take turns, each with its right index. Gemini's calls have
    no index, and Gemini's and Ollama's come whole: these kinds are not in their dialects. A client may join
    the arguments of two calls, drop one, or answer the wrong call.
    """

    name = "mixed_calls"
    family = "model"
    where = "model"
    can_cause = frozenset({"bad_reply"})

    kind: _Kind = Field("same_id", description="the mistake")

    def act(self, tried: Try) -> Act | Miss:
        dialect, marks = MODEL_DIALECTS.get(tried.dialect), _MARKS.get(tried.dialect)
        if dialect is None:
            return Miss("unreadable")
        of_index = self.kind in ("same_index", "missing_index", "interleaved")
        if marks is None or (of_index and not marks.index_key):
            return Miss("not_in_dialect")
        if self.kind == "interleaved" and not marks.in_pieces:
            return Miss("not_in_dialect")
        return Act(reply=partial(self._mixed, dialect, marks))

    def _mixed(self, dialect: ModelDialect, marks: _Marks, reply: Reply) -> Changed | Miss:
        if reply.status >= 300:
            return Miss("upstream_failed")
        try:
            if reply.stream_form is not None:
                return self._mixed_stream(dialect, marks, reply)
            if self.kind not in ("same_id", "missing_id"):
                return Miss("not_a_stream")
            value = reply.json()
            changed = deepcopy(value)
            self._change_ids(marks, [changed])
        except (ValueError, RecursionError):
            return Miss("unreadable")
        if changed == value:
            return Miss("nothing_to_change")
        after = reply.with_json(changed)
        return Changed(after, self._evidence(reply.body, after.body))

    def _mixed_stream(self, dialect: ModelDialect, marks: _Marks, reply: Reply) -> Changed | Miss:
        events = list(reply.events())
        if self.kind == "interleaved":
            mixed = _numbered(_interleaved(dialect, marks, events))
        else:
            values = [deepcopy(value_of(event)) for event in events]
            if self.kind in ("same_id", "missing_id"):
                self._change_ids(marks, values)
            else:
                self._change_indexes(dialect, marks, events, values)
            mixed = [
                event if value == value_of(event) else with_data(event, dump_json(value))
                for event, value in zip(events, values, strict=True)
            ]
        differ = [(old, new) for old, new in zip(events, mixed, strict=True) if old != new]
        if not differ:
            return Miss("nothing_to_change")
        return Changed(reply.with_body(b"".join(mixed)), self._evidence(*differ[0]))

    def _change_ids(self, marks: _Marks, values: list[Any]) -> None:
        first: Any = None
        for call in (call for value in values for call in _calls_in(marks, value)):
            if not call.get(marks.id_key):
                continue
            if self.kind == "missing_id":
                del call[marks.id_key]
            else:
                first = first or call[marks.id_key]
                call[marks.id_key] = first

    def _change_indexes(
        self, dialect: ModelDialect, marks: _Marks, events: list[bytes], values: list[Any]
    ) -> None:
        first: Any = None
        for holder in _index_holders(dialect, marks, events, values):
            if self.kind == "missing_index":
                del holder[marks.index_key]
            else:
                first = holder[marks.index_key] if first is None else first
                holder[marks.index_key] = first

    def _evidence(self, before: bytes, after: bytes) -> dict[str, Any]:
        """The first changed event, or the body, before and after."""
        return {"kind": self.kind, "original": evidence_text(before), "changed": evidence_text(after)}


def _calls_in(marks: _Marks, value: Any, key: str = "", depth: int = _MAX_DEPTH) -> Iterator[dict[str, Any]]:
    """The tool calls in a JSON value, in their order."""
    if isinstance(value, dict):
        if marks.is_call(key, value):
            yield value
        children = list(value.items())
    elif isinstance(value, list):
        children = [(key, item) for item in value]
    else:
        return
    for name, inner in children if depth else ():
        yield from _calls_in(marks, inner, name, depth - 1)


def _index_holders(
    dialect: ModelDialect, marks: _Marks, events: list[bytes], values: list[Any]
) -> Iterator[dict[str, Any]]:
    """The objects that have a call's index: the calls in the events, or the events about a call."""
    of_calls: set[Any] = set()
    for event, value in zip(events, values, strict=True):
        if not marks.in_event:
            for call in _calls_in(marks, value):
                yield from (h for h in (call, as_object(call.get("function"))) if marks.index_key in h)
            continue
        index = as_object(value).get(marks.index_key)
        if not isinstance(index, int):
            continue
        if dialect.calls_begun(event):
            of_calls.add(index)
        if index in of_calls:
            yield value


def _interleaved(dialect: ModelDialect, marks: _Marks, events: list[bytes]) -> list[bytes]:
    """The events, those of parallel calls in turns; all others where they were."""
    places: list[int] = []
    by_index: dict[Any, list[bytes]] = {}
    of_calls: set[Any] = set()
    for at, event in enumerate(events):
        value = as_object(value_of(event))
        holders = [value] if marks.in_event else list(_calls_in(marks, value))
        index = holders[0].get(marks.index_key) if holders else None
        if not isinstance(index, int):
            continue
        if dialect.calls_begun(event):
            of_calls.add(index)
        if index in of_calls:
            places.append(at)
            by_index.setdefault(index, []).append(event)
    turns = [event for turn in zip_longest(*by_index.values()) for event in turn if event is not None]
    mixed = list(events)
    for at, event in zip(places, turns, strict=True):
        mixed[at] = event
    return mixed


def _numbered(events: list[bytes]) -> list[bytes]:
    """The events with their sequence numbers in order again, where the API has them."""
    values = [value_of(event) for event in events]
    numbers = sorted(as_object(v)["sequence_number"] for v in values if _has_number(v))
    if not numbers:
        return events
    left = iter(numbers)
    return [
        with_data(event, dump_json({**value, "sequence_number": next(left)})) if _has_number(value) else event
        for event, value in zip(events, values, strict=True)
    ]


def _has_number(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("sequence_number"), int)
