"""Messages of MCP as lines: a request is a line, a reply one line, several lines, or pieces of them."""

from __future__ import annotations

from collections.abc import Sequence

from wirefault.dialects.http import JSON_TYPE, Ending, Headers, Reply, ReplyInPieces, Step
from wirefault.dialects.mcp import EVENT_STREAM_HEAD, line_event, line_of, read_message, step_lines
from wirefault.faults.plan import Plan
from wirefault.gateway.endpoint import Endpoint
from wirefault.gateway.exchange.carrier import MessageReader
from wirefault.gateway.http1.framing import Sink, broken_off
from wirefault.gateway.http1.heads import RequestHead
from wirefault.gateway.http1.messages import is_bodiless

RESPONSE, ACCEPTED = Reply(JSON_TYPE), Reply(status=202)


class LinePart(bytes):
    """Bytes of lines, as a part of a reply."""

    head: Reply
    """The reply's status and headers, as faults see them."""
    body: bytes
    """The part's share of the reply's body."""
    last: bool
    """It completes the reply."""

    def __new__(cls, data: bytes, head: Reply, body: bytes = b"", *, last: bool = False) -> LinePart:
        part = super().__new__(cls, data)
        part.head, part.body, part.last = head, body, last
        return part


def response_part(line: bytes) -> LinePart:
    """Return a response of the server as the whole reply."""
    return LinePart(line, RESPONSE, split_line_end(line)[0], last=True)


def event_part(line: bytes) -> LinePart:
    """Return one line of the server as an event of the reply."""
    message = read_message(line)
    is_response = message is not None and message.kind == "response"
    return LinePart(line, EVENT_STREAM_HEAD, line_event(line), last=is_response)


def split_line_end(line: bytes) -> tuple[bytes, bytes]:
    """Split off the line's end: LF, CR LF, or nothing."""
    body = line.rstrip(b"\r\n")
    return body, line[len(body) :]


class LineCarrier:
    """Implements ``Carrier`` for the exchange of one line of the client.

    A status has no counterpart on a line; a reply without a body gives none.
    """

    def __init__(self, line: bytes) -> None:
        self._line = line
        self.line_end = b"\n"
        """Of the server's response, for one in its place."""

    def request_for(
        self, head: RequestHead, body: bytes, plan: Plan | None, endpoint: Endpoint, lab_headers: bytes
    ) -> tuple[RequestHead, bytes]:
        fault = plan.request_fault if plan is not None else None
        if fault is not None and fault.act.request is not None:
            fault.mark_injected()
            if fault.act.request.body != body:
                return head, line_of(fault.act.request.body)
        return head, self._line

    def reader(self, head: RequestHead, swallow_continue: bool, sink: Sink | None) -> MessageReader:
        return _LineReader(sink)

    def size(self, data: bytes) -> int:
        """Return the size without the line's end."""
        return len(data.removesuffix(b"\n").removesuffix(b"\r"))

    def steps_of(
        self, reply: Reply | ReplyInPieces, *, keep_alive: bool, head_only: bool
    ) -> tuple[Sequence[Step], Ending]:
        if isinstance(reply, Reply):
            return [self._whole(reply)], "keep"
        head, pieces = reply.head, reply.pieces
        if head is not None and reply.length is not None:
            return [*((reply.wait,) if reply.wait else ()), *self._sized(head, reply)], reply.ending
        lines = pieces if head is None else step_lines(pieces)
        sizes = [len(line) if isinstance(line, bytes) else 0 for line in lines]
        if not any(sizes):  # it gives nothing, and the server's stream continues
            return lines, "hang" if reply.ending == "keep" else reply.ending
        last = max(at for at, size in enumerate(sizes) if size) if reply.ending == "keep" else None
        return [
            LinePart(line, head or RESPONSE, line, last=at == last) if isinstance(line, bytes) else line
            for at, line in enumerate(lines)
        ], reply.ending

    def _whole(self, reply: Reply) -> LinePart:
        if reply.is_event_stream:
            return LinePart(_lines_in(reply.body), reply, reply.body, last=True)
        body = b"" if is_bodiless(reply.status) else reply.body
        return LinePart(self._as_line(body), reply, body, last=True)

    def _as_line(self, body: bytes) -> bytes:
        if b"\n" in body:
            return line_of(body)
        return body + self.line_end if body else b""

    def _sized(self, head: Reply, reply: ReplyInPieces) -> Sequence[Step]:
        """Return pieces of one line; the last of them ends the line."""
        left = reply.length or 0
        steps: list[Step] = []
        for piece in reply.pieces:
            if isinstance(piece, bytes):
                left -= len(piece)
                end = self.line_end if left <= 0 else b""
                steps.append(LinePart(piece + end, head, piece, last=left <= 0))
            else:
                steps.append(piece)
        return steps

    def takes_streams(self, head: RequestHead) -> bool:
        return True

    def stream_start(self, head: Reply, *, keep_alive: bool) -> bytes:
        return LinePart(b"", head)

    def stream_steps(self, head: Reply, steps: Sequence[Step]) -> Sequence[Step]:
        return [LinePart(_lines_in(step), head, step) if isinstance(step, bytes) else step for step in steps]

    def stream_end(self, head: Reply) -> bytes:
        return LinePart(b"", head, last=True)


def _lines_in(events: bytes) -> bytes:
    return b"".join(line for line in step_lines((events,)) if isinstance(line, bytes))


class _LineReader:
    """Implements ``MessageReader`` for parts of lines."""

    encoding = ""
    interim = 0
    tunnel = ends_by_close = False
    keep_alive = continued = True
    error = None

    def __init__(self, sink: Sink | None) -> None:
        self.head: Reply | None = None
        self.done = False
        self._sink = sink

    @property
    def message(self) -> Reply:
        return self.head or RESPONSE

    @property
    def headers(self) -> Headers:
        return ()  # lines have none

    @property
    def begun(self) -> bool:
        return self.head is not None

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        if isinstance(data, LinePart):
            self.head, self.done = data.head.with_body(b""), data.last
            if self._sink is not None:
                self._sink(data.body)
        return data, b""

    def take_rest(self) -> bytes:
        return b""

    def broken_off(self, reason: str | None, *, begun: bool) -> str:
        return broken_off(reason, begun=begun)
