"""The calls of an attempt, and how each is named and selected. Pure.

A call's key is its link, method and path with numbers and ids as ``*``; a tool's or an operation's name
replaces the path where there is one. Its place is the ordinal within the key. In 415 of 415 measured calls
the key of a call before the fault was equal in all runs of an agent, the raw body in 82 % only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote

from wirefault.dialects.base import ModelReply
from wirefault.dialects.json_values import as_object, as_text, parsed
from wirefault.dialects.mcp import MCP
from wirefault.dialects.model_requests import may_ask_model
from wirefault.dialects.registry import MODEL_DIALECTS
from wirefault.dialects.stream_forms import recorded_events
from wirefault.history.events import Exchange
from wirefault.judging.requests import Request
from wirefault.judging.trace import EpisodeTrace
from wirefault.judging.writes import writes_in
from wirefault.wiring.write_requests import path_template

CallKind = Literal["model", "write", "read"]
_LARGEST_COUNTER = 2
_WILDCARDS = re.compile(r"[\[?]")  # of fnmatch; an asterisk in a path may stay one


class CallKey(NamedTuple):
    """A call's identity, equal in all runs of an agent. ``name``: method and path, or a tool's name."""

    link: str
    name: str


@dataclass(frozen=True)
class Call:
    """One logical call of an attempt."""

    key: CallKey
    ordinal: int
    """Its number among the calls with that key, from 1."""
    kind: CallKind
    only: Mapping[str, Any]
    """The selectors of a fault set's entry for the calls with that key."""
    of_mcp: bool = False
    over_stdio: bool = False
    in_session: bool = False
    """Of an MCP call over HTTP: it named its session."""
    number: int = 0
    """Of a model call: its number among all model calls."""
    reply: str = ""
    """Of a model call: what its reply did."""
    streams: bool = False
    """Of a model call: its answer was an event stream."""
    calls_write: bool = False
    """Of a model call: a write was sent before the next model call."""
    executed: bool = False
    """Of a write: the upstream executed it."""
    after_write: bool = False
    """A write was executed before it began."""
    shared_field: str = ""
    """The path of a figure in its reply that a later reply of another tool call has, too; empty if none."""
    start: float = field(default=0.0, compare=False, repr=False)
    """Seconds since the epoch."""
    figures: Mapping[str, float] = field(default_factory=dict, compare=False, repr=False)
    """Of a tool call: the figures in its JSON reply, by their paths."""

    @property
    def text(self) -> str:
        """Its name for people: ``POST /orders``, ``model 2 (calls place_order)``."""
        if self.kind != "model":
            return self.key.name
        return f"model {self.number}" + (f" ({self.reply})" if self.reply else "")


def calls_in(trace: EpisodeTrace) -> list[Call]:
    """Return the logical calls of the first attempt, in the order in which they began.

    Messages of MCP that call no tool are left out, since their number depends on how the server was started;
    so are a provider's requests that ask no model, such as an SDK's traces, and functions of the subject that
    send requests themselves.
    """
    all_requests = [request for request in trace.requests if request.attempt == 1 and request.exchange]
    requests = [each for each in all_requests if not (each.within and each.link and each.link.found)]
    writes = {id(write.request): write for write in writes_in(trace)}
    seen: dict[CallKey, dict[tuple[str, int], int]] = {}
    calls: list[Call] = []
    writes_end = math.inf  # the first that was executed
    for request in requests:
        exchange = request.exchange
        named = identify_call(exchange) if exchange is not None else None
        if exchange is None or named is None or _asks_no_model(request, exchange):
            continue
        name, only = named
        if request.link is not None and request.link.is_in_process:
            name = unquote(exchange.target[1:])
        key = CallKey(exchange.link, name)
        ordinals = seen.setdefault(key, {})
        identity = exchange.fingerprint, exchange.call
        if identity in ordinals:
            continue  # a further try of the same call
        ordinals[identity] = len(ordinals) + 1
        write = writes.get(id(request))
        number = 1 + sum(call.kind == "model" for call in calls) if exchange.of_model else 0
        executed = write is not None and write.fate == "executed"
        calls.append(
            Call(
                key,
                ordinals[identity],
                "model" if exchange.of_model else "write" if write else "read",
                only,
                of_mcp=bool(exchange.tool),
                over_stdio=request.is_over_stdio,
                in_session=bool(exchange.session),
                number=number,
                reply=_reply_of(exchange) if exchange.of_model else "",
                streams=exchange.first_token_ms is not None,
                executed=executed,
                after_write=writes_end <= request.start,
                start=exchange.start,
                figures=_figures_in(exchange),
            )
        )
        if executed:
            writes_end = min(writes_end, request.end)
    return _with_shared_fields(_with_writes(calls))


def _with_writes(calls: Sequence[Call]) -> list[Call]:
    """Note for each model call whether a write follows before the next one."""
    noted: list[Call] = []
    follows = False
    for call in reversed(calls):
        if call.kind == "model":
            call, follows = replace(call, calls_write=follows), False
        follows = follows or call.kind == "write"
        noted.append(call)
    return noted[::-1]


def _with_shared_fields(calls: Sequence[Call]) -> list[Call]:
    """Note for each read the first figure that a later tool call with another key returns, too."""
    noted = []
    for place, call in enumerate(calls, 1):
        others = (other for other in calls[place:] if other.key != call.key)
        later = {value for other in others for value in other.figures.values()}
        shared = (path for path, value in call.figures.items() if value in later)
        noted.append(replace(call, shared_field=next(shared, "") if call.kind == "read" else ""))
    return noted


def _figures(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, float]]:
    """Yield the figures of a JSON object by their paths, without counters such as 0, 1 and 2."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _figures(inner, (*path, str(name)))
        return
    is_figure = isinstance(value, float) or (isinstance(value, int) and abs(value) > _LARGEST_COUNTER)
    if is_figure and path:
        yield ".".join(path), float(value)


def _figures_in(exchange: Exchange) -> Mapping[str, float]:
    """Return the figures in the JSON reply to a tool call, by their paths; empty for any other reply."""
    if exchange.reply_cut or not exchange.reply_body or exchange.tool or exchange.of_model:
        return {}
    try:
        return dict(_figures(as_object(parsed(exchange.reply_body))))
    except ValueError:
        return {}


def identify_call(exchange: Exchange) -> tuple[str, Mapping[str, Any]] | None:
    """Return the call's name and the selectors of its key; None for an MCP message that calls no tool."""
    if exchange.tool:
        return exchange.tool, {"tool": exchange.tool}
    if exchange.message or exchange.dialect == MCP.name:  # without a message: its stream, or a session's end
        return None
    path = path_template(exchange.target)
    only: dict[str, Any] = {"method": exchange.method, "path": _WILDCARDS.sub("?", path)}
    name = f"{exchange.method} {path}"
    if exchange.of_model:
        return name, only
    if exchange.operation:
        return f"{name} {exchange.operation}", {**only, "header": {"X-Amz-Target": exchange.operation}}
    for field_name in ("operationName", "method"):
        body = _body_of(exchange)
        value = as_text(body.get(field_name))
        if value and (field_name == "operationName" or "jsonrpc" in body):
            return f"{name} {value}", {**only, "json": {field_name: value}}
    return name, only


def _asks_no_model(request: Request, exchange: Exchange) -> bool:
    """Whether a request to a provider that was found at run time asks no model."""
    is_found = request.link is None or request.link.found
    return exchange.of_model and is_found and not may_ask_model(exchange.target.partition("?")[0])


def _body_of(exchange: Exchange) -> Mapping[str, Any]:
    if exchange.request_cut or not exchange.request_body:
        return {}
    try:
        return as_object(parsed(exchange.request_body))
    except ValueError:
        return {}


def _reply_of(exchange: Exchange) -> str:
    """Return what a model's reply did, as ``calls get_price`` or ``answers``; empty if it cannot be read."""
    reply = _read(exchange)
    if reply is None:
        return ""
    if reply.calls:
        return "calls " + ", ".join(dict.fromkeys(call.name for call in reply.calls))
    return "answers"


def _read(exchange: Exchange) -> ModelReply | None:
    dialect = MODEL_DIALECTS.get(exchange.dialect)
    body = exchange.reply_body
    if dialect is None or not body or exchange.reply_cut:
        return None
    try:
        events = recorded_events(body)
        value = dialect.collect(events) if exchange.first_token_ms is not None and events else parsed(body)
        return dialect.read_reply(as_object(value))
    except (ValueError, LookupError, TypeError):
        return None


def varying_call(runs: Sequence[Sequence[Call]]) -> str:
    """Return a sentence about the first call in which clean runs differ; empty if their keys are equal."""
    for place, calls in enumerate(_side_by_side(runs), start=1):
        if len(set(calls)) > 1:
            names = " or ".join(
                f"{key.name} of {key.link}" if key else "nothing" for key in dict.fromkeys(calls)
            )
            return f"call {place} varies between the clean runs: {names}"
    return ""


def _side_by_side(runs: Sequence[Sequence[Call]]) -> Iterator[tuple[CallKey | None, ...]]:
    for place in range(max(map(len, runs), default=0)):
        yield tuple(calls[place].key if place < len(calls) else None for calls in runs)


def same_way(calls: Iterable[Call], clean: Sequence[Call], faulted: Call) -> bool:
    """Return whether a run made the clean run's calls up to the one that a fault was to meet."""
    wanted: list[CallKey] = []
    for call in clean:
        wanted.append(call.key)
        if call.key == faulted.key and call.ordinal == faulted.ordinal:
            break
    return [call.key for call in calls][: len(wanted)] == wanted
