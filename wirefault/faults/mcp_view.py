"""What a fault is shown of an exchange on a link of MCP, and how its act is put back into it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from wirefault.dialects.http import (
    JSON_TYPE,
    Ending,
    RawReply,
    Reply,
    Request,
    Step,
    data_of,
    dump_json,
    split_events,
    with_lines,
)
from wirefault.dialects.mcp import MCP, McpMessage, consistent, read_message, tool_result
from wirefault.faults.base import Act, Changed, Fault, Miss, Try, WhyNot

_Change = Callable[[Reply], Changed | Miss]


def act_of(fault: Fault, tried: Try) -> Act | Miss | None:
    """What the fault does with the try; on a link of MCP it is shown of it what its ``mcp_view`` says."""
    if tried.dialect != MCP.name:
        return fault.act(tried)
    asked = read_message(tried.request.body)
    of_result = fault.mcp_view == "result"
    if of_result and asked is None:
        return Miss("no_tool_result_to_change")
    act = fault.act(_shown(tried, asked) if of_result and asked else tried)
    if not isinstance(act, Act):
        return act
    if act.request is not None:
        act = replace(act, request=consistent(tried.request, act.request))
    if isinstance(act.answer, Reply):
        act = replace(act, answer=_addressed(act.answer, asked))
    return act if act.reply is None else _with_reply(act, act.reply, fault, tried, asked)


def _with_reply(act: Act, change: _Change, fault: Fault, tried: Try, asked: McpMessage | None) -> Act | Miss:
    if fault.mcp_view != "reply":
        change = partial(_changed_result, change) if fault.mcp_view == "result" else change
        edit = partial(_ResponseEditor, change)
        return replace(act, reply=partial(_changed_reply, change, edit), events=edit)
    if tried.request.method == "GET" and act.events is None:
        return Miss("nothing_to_change")  # what a server pushes has no end, and so is no reply to change
    return replace(act, reply=partial(_addressed_change, change, asked))


def _shown(tried: Try, asked: McpMessage) -> Try:
    """The try with the tool's arguments as its request, and what tools gave earlier as its replies."""
    request = Request(JSON_TYPE, dump_json(asked.arguments), "POST", f"/{asked.name}")
    results = [tool_result(read_message(_response_in(reply))) for reply in tried.earlier]
    earlier = [Reply(JSON_TYPE, dump_json(result.document)) for result in results if result is not None]
    return replace(tried, request=request, earlier=earlier)


def _response_in(reply: Reply) -> bytes:
    """The last message of an event stream, or the body."""
    events = list(split_events(reply.body)) if reply.is_event_stream else []
    return data_of(events[-1]) if events else reply.body


def _addressed(reply: Reply, asked: McpMessage | None) -> Reply:
    """A JSON-RPC error that answers nothing in particular, as the answer to what was asked."""
    if asked is None or asked.kind != "request" or not reply.body:
        return reply
    message = read_message(reply.body)
    if message is None or message.error is None or message.value.get("id", "none") is not None:
        return reply
    return reply.with_json({**message.value, "id": asked.id})


def _addressed_change(change: _Change, asked: McpMessage | None, reply: Reply) -> Changed | Miss:
    changed = change(reply)
    if isinstance(changed, Changed) and isinstance(changed.reply, Reply) and changed.reply is not reply:
        return replace(changed, reply=_addressed(changed.reply, asked))
    return changed


def _changed_result(change: _Change, reply: Reply) -> Changed | Miss:
    """A response whose tool's result is changed."""
    result = tool_result(read_message(reply.body))
    if result is None:
        return Miss("no_tool_result_to_change")
    changed = change(Reply(JSON_TYPE, dump_json(result.document)))
    if isinstance(changed, Miss) or isinstance(changed.reply, RawReply):
        return changed
    try:
        return replace(changed, reply=reply.with_json(result.with_document(changed.reply.json())))
    except ValueError:
        return Miss("unreadable")


def _changed_reply(change: _Change, edit: Callable[[], _ResponseEditor], reply: Reply) -> Changed | Miss:
    """The reply with its response changed, whether that is the body or an event in it."""
    if not reply.is_event_stream:
        return change(reply)
    editor = edit()
    body = b"".join(b"".join(editor.event(event)) for event in split_events(reply.body))  # type: ignore[arg-type]
    return Miss(editor.why_not) if editor.why_not else Changed(reply.with_body(body), editor.evidence)


@dataclass
class _ResponseEditor:
    """Implements ``EventEditor``: changes the response in an event stream; all else goes by."""

    change: _Change
    ending: Ending = "keep"
    why_not: WhyNot | None = "nothing_to_change"
    evidence: dict[str, Any] = field(default_factory=dict)
    _done: bool = False

    def event(self, data: bytes) -> Sequence[Step]:
        message = None if self._done else read_message(data_of(data))
        if message is None or message.kind != "response":
            return (data,)
        self._done = True
        changed = self.change(Reply(JSON_TYPE, data_of(data)))
        if isinstance(changed, Miss):
            self.why_not = changed.why
            return (data,)
        if isinstance(changed.reply, RawReply) or changed.reply.body == data_of(data):
            return (data,)  # a header, or bytes below the message: an event has neither
        self.why_not, self.evidence = None, dict(changed.evidence)
        return (with_lines(data, changed.reply.body),)

    def end(self) -> Sequence[Step]:
        return ()
