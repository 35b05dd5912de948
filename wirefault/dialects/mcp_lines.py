"""MCP over stdio as HTTP faults see it: a line each way is shown as a request or as a reply of JSON. Pure.

So every fault works on both transports. A client's line is a POST to ``/`` with the message as its body. The
lines that a server sends because of it (its response, and progress that it asked for) are the reply: one
response alone is JSON with status 200, several lines are an event stream. What a server sends of its own
accord comes in the reply to ``SERVER_STREAM``, which begins with the connection and is an event stream, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress

from wirefault.dialects.event_stream import data_of, split_events
from wirefault.dialects.http import JSON_TYPE, Ending, RawReply, Reply, Request, Step, dump_json
from wirefault.dialects.json_values import parsed

SERVER_STREAM = Request((("Accept", "text/event-stream"),), b"", "GET", "/")
EVENT_STREAM_HEAD = Reply((("Content-Type", "text/event-stream"),))
_HEAD = re.compile(rb"\AHTTP/1\.1 .*?\r\n\r\n", re.DOTALL)


def request_of_line(line: bytes) -> Request:
    """A client's line, with or without its line's end, as faults see it."""
    return Request(JSON_TYPE, line.strip(b"\r\n"), "POST", "/")


def reply_of_line(line: bytes) -> Reply:
    """A server's response as faults see it."""
    return Reply(JSON_TYPE, line.strip(b"\r\n"))


def event_of_line(line: bytes) -> bytes:
    """A server's line as the event that an ``EventEditor`` is shown."""
    return b"data: " + line.strip(b"\r\n") + b"\n\n"


def lines_of_steps(steps: Iterable[Step]) -> Sequence[Step]:
    """What an ``EventEditor`` returned, as lines and seconds to wait."""
    lines: list[Step] = []
    for step in steps:
        if isinstance(step, bytes):
            lines += [line_of(data) for event in split_events(step) if (data := data_of(event))]
        else:
            lines.append(step)
    return lines


def lines_of_reply(reply: Reply | RawReply) -> tuple[Sequence[Step], Ending]:
    """What the client gets in the response's place, and how it ends.

    ``keep``: the server goes on. ``close`` and ``reset``: its output ends here. ``hang``: nothing more comes
    of this response. A status has no counterpart: of a reply without a body nothing is sent.
    """
    if isinstance(reply, Reply):
        if reply.is_event_stream:
            return lines_of_steps((reply.body,)), "keep"
        return ((line_of(reply.body),) if reply.body else ()), "keep"
    steps = list(reply.steps)
    if steps and isinstance(steps[0], bytes) and _HEAD.match(steps[0]):
        steps[0] = _HEAD.sub(b"", steps[0], count=1)
        if reply.ending == "keep":
            steps.append(b"\n")  # a head told the length; a line ends by itself
    return [step for step in steps if step != b""], reply.ending


def line_of(message: bytes) -> bytes:
    """The message in one line: a line's end within its JSON is only for people."""
    if b"\n" in message or b"\r" in message:
        with suppress(ValueError):  # broken on purpose: it goes out as it is
            message = dump_json(parsed(message))
    return message + b"\n"
