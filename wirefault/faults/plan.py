"""The plan for one try that has met faults: which of them acts, and the record of each. Pure.

Delays add up. At most one fault changes the try, the first in the set's order. Whether a fault can change the
reply is known only when the reply arrives: until then all possible faults are candidates, and the first that
can change it does. On MCP links a fault sees the exchange through its ``mcp_view``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from wirefault.dialects.http import (
    JSON_TYPE,
    Ending,
    Reply,
    ReplyInPieces,
    Request,
    Step,
    data_of,
    dump_json,
    split_events,
    with_lines,
)
from wirefault.dialects.mcp import (
    MCP,
    McpMessage,
    consistent,
    is_answered_on_stream,
    read_message,
    tool_result,
)
from wirefault.faults.base import Act, Changed, Fault, Miss, Try, WhyNot
from wirefault.faults.sets.fault_set import Entry

_Change = Callable[[Reply], Changed | Miss]


def act_of(fault: Fault, tried: Try) -> Act | Miss | None:
    """The fault's effect on the try, seen through its ``mcp_view`` on an MCP link."""
    if tried.dialect != MCP.name:
        return fault.act(tried)
    request_message = read_message(tried.request.body)
    of_result = fault.mcp_view == "result"
    if of_result and request_message is None:
        return Miss("no_tool_result_to_change")
    act = fault.act(_shown(tried, request_message) if of_result and request_message else tried)
    if not isinstance(act, Act):
        return act
    if _acts_on_reply(act) and is_answered_on_stream(tried.request):
        return Miss("answered_on_stream")
    if act.request is not None:
        act = replace(act, request=consistent(tried.request, act.request))
    if isinstance(act.answer, Reply):
        act = replace(act, answer=_addressed(act.answer, request_message))
    return act if act.reply is None else _with_reply(act, act.reply, fault, tried, request_message)


def _acts_on_reply(act: Act) -> bool:
    """Whether it needs a reply with the response: it changes one, or is one."""
    replaces = isinstance(act.answer, Reply) and act.answer.status < 400
    return replaces or act.reply is not None or act.events is not None


def _with_reply(
    act: Act, change: _Change, fault: Fault, tried: Try, request_message: McpMessage | None
) -> Act | Miss:
    if fault.mcp_view != "reply":
        change = partial(_changed_result, change) if fault.mcp_view == "result" else change
        edit = partial(_ResponseEditor, change)
        return replace(act, reply=partial(_changed_reply, change, edit), events=edit)
    if tried.request.method == "GET" and act.events is None:
        return Miss("nothing_to_change")  # a push stream does not end, so no reply is complete
    return replace(act, reply=partial(_addressed_change, change, request_message))


def _shown(tried: Try, request_message: McpMessage) -> Try:
    """The try with the tool's arguments as its request and earlier tool results as its replies."""
    request = Request(JSON_TYPE, dump_json(request_message.arguments), "POST", f"/{request_message.name}")
    results = [tool_result(read_message(_response_in(reply))) for reply in tried.earlier]
    earlier = [Reply(JSON_TYPE, dump_json(result.document)) for result in results if result is not None]
    return replace(tried, request=request, earlier=earlier)


def _response_in(reply: Reply) -> bytes:
    """The last message of an event stream, or the body."""
    events = list(split_events(reply.body)) if reply.is_event_stream else []
    return data_of(events[-1]) if events else reply.body


def _addressed(reply: Reply, request_message: McpMessage | None) -> Reply:
    """Give a JSON-RPC error without an id the request's id."""
    if request_message is None or request_message.kind != "request" or not reply.body:
        return reply
    message = read_message(reply.body)
    if message is None or message.error is None or message.value.get("id", "none") is not None:
        return reply
    return reply.with_json({**message.value, "id": request_message.id})


def _addressed_change(change: _Change, request_message: McpMessage | None, reply: Reply) -> Changed | Miss:
    changed = change(reply)
    if isinstance(changed, Changed) and isinstance(changed.reply, Reply) and changed.reply is not reply:
        return replace(changed, reply=_addressed(changed.reply, request_message))
    return changed


def _changed_result(change: _Change, reply: Reply) -> Changed | Miss:
    """Change the tool result of a response."""
    result = tool_result(read_message(reply.body))
    if result is None:
        return Miss("no_tool_result_to_change")
    changed = change(Reply(JSON_TYPE, dump_json(result.document)))
    if isinstance(changed, Miss) or isinstance(changed.reply, ReplyInPieces):
        return changed
    try:
        return replace(changed, reply=reply.with_json(result.with_document(changed.reply.json())))
    except ValueError:
        return Miss("unreadable")


def _changed_reply(change: _Change, edit: Callable[[], _ResponseEditor], reply: Reply) -> Changed | Miss:
    """Change the response of a reply: its body, or an event in it."""
    if not reply.is_event_stream:
        return change(reply)
    editor = edit()
    body = b"".join(b"".join(editor.event(event)) for event in split_events(reply.body))  # type: ignore[arg-type]
    return Miss(editor.why_not) if editor.why_not else Changed(reply.with_body(body), editor.evidence)


@dataclass
class _ResponseEditor:
    """Implements ``EventEditor``: changes the response in an event stream, passes everything else."""

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
        if isinstance(changed.reply, ReplyInPieces) or changed.reply.body == data_of(data):
            return (data,)  # events have neither headers nor raw bytes
        self.why_not, self.evidence = None, dict(changed.evidence)
        return (with_lines(data, changed.reply.body),)

    def end(self) -> Sequence[Step]:
        return ()


_T = TypeVar("_T")


@dataclass(eq=False)
class MetFault:
    """A fault that the try has met, and whether it was injected."""

    id: str
    fault: Fault
    act: Act = field(default_factory=Act)
    injected: bool = False
    why_not: WhyNot | None = None
    detail: str = ""
    delay: float = 0.0  # planned, in s
    delay_ms: float = 0.0  # added so far
    shows: dict[str, Any] = field(default_factory=dict)
    """Signs of the fault that the caller must see."""
    evidence: dict[str, Any] = field(default_factory=dict)
    content: bool = False
    """Whether the content of a complete reply was changed."""
    acted_at: float | None = None
    """When the fault began to act, in s of the gateway's clock."""
    answered: bool | None = None
    """Whether the upstream replied to the changed or repeated request."""

    @property
    def settled(self) -> bool:
        """Whether it is known if the fault was injected."""
        return self.injected or self.why_not is not None

    def guarded(self, function: Callable[..., _T], *arguments: object) -> _T | None:
        """Call a fault's function; None if it failed, which is recorded."""
        try:
            return function(*arguments)
        except Exception as error:  # noqa: BLE001  a bug in a fault must not break the try
            self.why_not, self.detail = "failed", type(error).__name__
            return None

    def mark_injected(self, evidence: Mapping[str, Any] | None = None) -> None:
        """Record that the fault was injected."""
        self.injected, self.why_not = True, None
        self.evidence.update(evidence or {})

    def mark_acting(self, now: float) -> None:
        """Record when it began to act, unless already recorded."""
        if self.acted_at is None:
            self.acted_at = now

    def began_after(self, moment: float) -> bool:
        """Whether it began to act after that moment; False if unknown."""
        return self.acted_at is not None and self.acted_at > moment

    def take_back(self, why: WhyNot) -> None:
        """Withdraw the injection: its effect did not reach the client."""
        self.injected, self.why_not = False, why
        self.shows.clear()

    def mark_delayed(self, ms: float) -> None:
        """Record an added delay."""
        self.mark_injected()
        self.delay_ms += ms
        self.shows["delay_ms"] = round(self.delay_ms, 3)

    def mark_not_injected(self, why: WhyNot) -> None:
        """Record why the fault is not injected, unless settled."""
        if not self.settled:
            self.why_not = why


@dataclass(eq=False)
class Plan:
    """The effects of a try's faults.

    ``request_fault`` answers, changes or copies the request; ``reply_candidates`` may change the reply,
    ``message_candidates`` the messages of the WebSocket connection that it opens.
    """

    met_faults: list[MetFault] = field(default_factory=list)
    request_fault: MetFault | None = None
    reply_candidates: list[MetFault] = field(default_factory=list)
    message_candidates: list[MetFault] = field(default_factory=list)

    @property
    def acts(self) -> bool:
        """Whether any of its faults may still act."""
        return any(not met.settled for met in self.met_faults)

    @property
    def delay(self) -> float:
        """The total delay of the request, in s."""
        return sum(met.delay for met in self.met_faults)

    @property
    def answers(self) -> bool:
        """Whether a fault replies in the upstream's place."""
        return self.request_fault is not None and self.request_fault.act.answer is not None

    def mark_answered(self, *, upstream_answered: bool) -> None:
        """Record whether the upstream replied to a request that a fault changed."""
        met = self.request_fault
        if met is not None and met.act.request is not None:
            met.answered = upstream_answered

    def mark_delayed(self, seconds: float) -> None:
        """Distribute an added delay over the faults."""
        planned = self.delay
        for met in self.met_faults:
            if met.delay:
                met.mark_delayed(seconds * 1000 * met.delay / planned)

    def mark_not_injected(self, why: WhyNot) -> None:
        """Record for all unsettled faults that they are not injected."""
        for met in self.met_faults:
            met.mark_not_injected(why)


def outside_radius(plan: Plan) -> Plan:
    """The same met faults without effect, for a try outside the blast radius."""
    return Plan(
        [MetFault(met.id, met.fault, why_not=met.why_not or "outside_radius") for met in plan.met_faults]
    )


def plan_try(met_entries: Iterable[tuple[Entry, Try]], *, whole: bool) -> Plan:
    """Plan a try from the entries that it met. ``whole``: the faults see the complete request."""
    plan = Plan()
    for entry, tried in met_entries:
        met = MetFault(entry.id, entry.fault)
        if entry.fault.needs_body and not whole:
            met.why_not = "too_large"
        else:
            act = met.guarded(act_of, entry.fault, tried)
            if isinstance(act, Act):
                _assign(plan, met, act, whole)
            elif isinstance(act, Miss):
                met.why_not = act.why
            elif met.why_not is None:
                continue  # the fault lets the try pass
        plan.met_faults.append(met)
    return plan


def _assign(plan: Plan, met: MetFault, act: Act, whole: bool) -> None:
    met.act, met.evidence = act, dict(act.evidence)
    if act.only_delays:
        met.delay = max(act.delay, 0.0)
        met.why_not = None if met.delay else "nothing_to_change"
        return
    if act.messages is not None:
        plan.message_candidates.append(met)
        return
    in_request = act.answer is not None or act.request is not None or act.copies != 1
    in_reply = act.reply is not None or act.events is not None
    if plan.request_fault is not None or (in_request and plan.reply_candidates):
        met.why_not = "already_faulted"
    elif in_request and act.answer is None and not whole:
        met.why_not = "too_large"
    else:
        met.delay = max(act.delay, 0.0)
        plan.request_fault = met if in_request else None
        if in_reply:
            plan.reply_candidates.append(met)
