"""What all faults of a reply's content have in common: read, change, write again. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

from windtunnel.dialects import Dialect
from windtunnel.dialects import anthropic as messages
from windtunnel.dialects import event_stream as sse
from windtunnel.dialects import openai_chat as chat
from windtunnel.dialects.http import Reply, Request
from windtunnel.dialects.model_messages import ModelReply, ModelRequest, ToolCall
from windtunnel.faults.base import Act, Changed, Fault, Miss, Try, kept

_T = TypeVar("_T")


class Api(Protocol):
    """One API's replies (as JSON), event streams and requests. The readers raise ``ValueError``."""

    ID_PREFIX: str

    def read(self, body: dict[str, Any], /) -> ModelReply: ...

    def write(self, body: dict[str, Any], said: ModelReply, /) -> dict[str, Any]: ...

    def collect(self, events: Iterable[bytes], /) -> dict[str, Any]: ...

    def spread(self, body: dict[str, Any], /) -> Iterator[bytes]: ...

    def talk(self, request: Request, /) -> ModelRequest: ...


APIS: Mapping[Dialect, Api] = {"openai": chat, "anthropic": messages}


class ContentFault(Fault):
    """Changes what the model said; the reply keeps its form, and an event stream stays one.

    A stream is collected and written anew, so that its first event comes when the model's last has.
    """

    family = "model"
    where = "model"
    needs_body = True

    def act(self, this: Try) -> Act | Miss:
        api = APIS.get(this.dialect)
        return Miss("unreadable") if api is None else Act(reply=partial(self._changed, this, api))

    def change(self, said: ModelReply, talk: ModelRequest, this: Try) -> ModelReply | None:
        """What the model says instead; None if there is nothing to change."""
        raise NotImplementedError

    def _changed(self, this: Try, api: Api, reply: Reply) -> Changed | Miss:
        if reply.status >= 300:
            return Miss("upstream_failed")
        try:
            body = whole_body(api, reply)
            said = api.read(body)
            after = self.change(said, api.talk(this.request), this)
            if after is None or after == said:
                return Miss("nothing_to_change")
            rewritten = with_body(api, reply, api.write(body, after))
        except (ValueError, RecursionError):  # the latter from JSON that is nested very deep
            return Miss("unreadable")
        return Changed(rewritten, {"original": kept(said.shown()), "changed": kept(after.shown())})


def whole_body(api: Api, reply: Reply) -> dict[str, Any]:
    """The reply's JSON, or what its event stream amounts to. Raises ``ValueError``."""
    body = api.collect(sse.split(reply.body)) if reply.is_event_stream else reply.json()
    if not isinstance(body, dict):
        raise ValueError("no object")
    return body


def with_body(api: Api, reply: Reply, body: dict[str, Any]) -> Reply:
    """The reply in the same form, with another body."""
    return reply.with_body(b"".join(api.spread(body))) if reply.is_event_stream else reply.with_json(body)


def twin(call: ToolCall, said: ModelReply, talk: ModelRequest, this: Try, number: int = 0) -> ToolCall:
    """The same call with an id that no other has."""
    taken = {one.id for one in (*said.calls, *talk.calls)}
    start = int(this.chance(f"call-id-{number}") * 2**48)
    prefix = next((one.ID_PREFIX for name, one in APIS.items() if name == this.dialect), "call_")
    ids = (f"{prefix}{(start + step) % 2**48:012x}" for step in range(len(taken) + 1))
    return replace(call, id=next(one for one in ids if one not in taken))


def pick(choices: Iterable[_T], drawn: float) -> _T | None:
    """One of them by a draw in [0, 1); None if there is none."""
    found = list(choices)
    return found[int(drawn * len(found))] if found else None
