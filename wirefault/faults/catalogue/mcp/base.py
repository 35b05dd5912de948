"""What faults of MCP's responses have in common: one message becomes several, none, or another. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from wirefault.core.caller_errors import CLOSED, TIMEOUT, ErrorKind
from wirefault.dialects.http import (
    Ending,
    RawReply,
    Reply,
    Step,
    chunk,
    data_of,
    dump_json,
    head_bytes,
    split_events,
    with_data,
    write_event,
)
from wirefault.dialects.mcp import EVENT_STREAM_HEAD, McpMessage, lines_of_steps, read_message
from wirefault.faults.base import Act, Changed, Fault, Miss, Try, WhyNot

_Sent = Mapping[str, Any] | bytes | float


def ending_causes(ending: Ending) -> frozenset[ErrorKind]:
    """The errors of a try whose reply ends so."""
    return TIMEOUT if ending == "hang" else CLOSED if ending != "keep" else frozenset()


@dataclass(frozen=True)
class Replacement:
    """What is sent in a response's place: messages, events of an event stream, and seconds to wait."""

    steps: Sequence[_Sent]
    evidence: Mapping[str, Any] = field(default_factory=dict)
    ending: Ending = "keep"


class ResponseFault(Fault):
    """Changes the response to a request, which came as JSON, as an event, or as a line.

    What is no single message of JSON goes out as an event stream, which every client of MCP takes.
    """

    family = "mcp"
    where = "mcp"

    def act(self, tried: Try) -> Act | Miss:
        asked = read_message(tried.request.body)
        if asked is None or asked.kind != "request":
            return Miss("nothing_to_change")
        edit = partial(_Editor, self, tried, asked)
        return Act(reply=partial(self._changed, tried, asked), events=edit)

    def _changed(self, tried: Try, asked: McpMessage, reply: Reply) -> Changed | Miss:
        if reply.is_event_stream:
            editor = _Editor(self, tried, asked)
            steps = [step for event in split_events(reply.body) for step in editor.event(event)]
            if editor.why_not is not None:
                return Miss(editor.why_not)
            return Changed(_raw(steps, editor.ending, tried.lines, reply.headers), editor.evidence)
        response = read_message(reply.body)
        if response is None or response.kind != "response":
            return Miss("nothing_to_change")
        sent = self.sent(tried, asked, response)
        if isinstance(sent, Miss):
            return sent
        [*others, last] = sent.steps or (b"",)
        if not others and isinstance(last, Mapping) and sent.ending == "keep":
            return Changed(reply.with_json(last), sent.evidence)
        kept = tuple(pair for pair in reply.headers if pair[0].lower() != "content-type")
        events = [_event(step) for step in sent.steps]
        return Changed(_raw(events, sent.ending, tried.lines, kept), sent.evidence)

    def sent(self, tried: Try, asked: McpMessage, response: McpMessage) -> Replacement | Miss:
        """What the client gets in that response's place."""
        raise NotImplementedError


def _event(step: _Sent) -> Step:
    return write_event(step, "message") if isinstance(step, Mapping) else step


def _raw(steps: Sequence[Step], ending: Ending, lines: bool, headers: Sequence[tuple[str, str]]) -> RawReply:
    """Events as lines, or as the chunks of an event stream."""
    if lines:
        return RawReply(tuple(lines_of_steps(steps)), ending)
    head = Reply((*EVENT_STREAM_HEAD.headers, *(h for h in headers if h[0].lower() != "content-type")))
    chunks = [chunk(step) if isinstance(step, bytes) else step for step in steps if step]
    last = [chunk(b"")] if ending == "keep" else []
    return RawReply((head_bytes(head, None), *chunks, *last), ending, head.status)


@dataclass
class _Editor:
    """Implements ``EventEditor``: the first response in an event stream is changed; all else goes by."""

    fault: ResponseFault
    tried: Try
    asked: McpMessage
    ending: Ending = "keep"
    why_not: WhyNot | None = "nothing_to_change"
    evidence: dict[str, Any] = field(default_factory=dict)
    _done: bool = False

    def event(self, data: bytes) -> Sequence[Step]:
        response = None if self._done else read_message(data_of(data))
        if response is None or response.kind != "response":
            return (data,)
        self._done = True
        sent = self.fault.sent(self.tried, self.asked, response)
        if isinstance(sent, Miss):
            self.why_not = sent.why
            return (data,)
        self.why_not, self.evidence, self.ending = None, dict(sent.evidence), sent.ending
        # the event's own id and name stay with what takes its place
        return [with_data(data, dump_json(s)) if isinstance(s, Mapping) else s for s in sent.steps]

    def end(self) -> Sequence[Step]:
        return ()
