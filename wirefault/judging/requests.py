"""One request of an episode, with the caller's record and the gateway's. Pure.

If the subject does not record its calls, there is only the gateway's record. If the request never reached the
gateway, there is only the caller's. ``trace`` joins them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, repeat
from typing import Literal
from urllib.parse import unquote

from wirefault.core.caller_errors import error_kind
from wirefault.dialects.fate import Fate, fate_of
from wirefault.dialects.http import SAFE_METHODS
from wirefault.dialects.json_values import parsed
from wirefault.dialects.mcp import MCP, ToolAnswer, read_message
from wirefault.dialects.model_requests import may_ask_model
from wirefault.history.events import LAB_MODEL, Exchange, FaultMet, ModelCall, ToolTry
from wirefault.wiring.links import Link
from wirefault.wiring.write_requests import SentRequest, is_write, operation_in

CallerRecord = ToolTry | ModelCall
TryKey = tuple[int, str, str, int, int]  # attempt, link, fingerprint, call, try
SameKey = tuple[int, str, str]
Executed = Literal["yes", "no", "maybe"]
_EXECUTED: Mapping[Fate, Executed] = {"executed": "yes", "refused": "no", "maybe": "maybe"}
_UNKNOWN: ToolAnswer = ""
_SOME_SERVER = "http://server"


def answers_of(exchange: Exchange) -> Iterator[tuple[int | None, ToolAnswer]]:
    """The upstream's status and the tool's answer for each delivery.

    A request has several deliveries if a fault of the gateway repeated it.
    """
    for fault in exchange.faults:
        copies, statuses = fault.evidence.get("copies"), fault.evidence.get("statuses")
        if fault.injected and isinstance(copies, int) and isinstance(statuses, list):
            unanswered = [None] if len(statuses) < copies else []
            before_last = fault.evidence.get("tool_answers", [])
            tool_answers = chain(before_last, [exchange.tool_answer], repeat(_UNKNOWN))
            yield from zip([*statuses, *unanswered], tool_answers, strict=False)
            return
    yield exchange.answered, exchange.tool_answer


def sent_request(exchange: Exchange) -> SentRequest:
    """The request of that record, as rules about writes see it."""
    return SentRequest(
        exchange.method,
        exchange.target,
        exchange.request_body,
        not exchange.request_cut,
        exchange.message,
        exchange.tool,
        exchange.dialect == MCP.name,
        exchange.operation,
    )


def record_key(record: Exchange | CallerRecord) -> TryKey:
    """The key that both records of a try share. Sorting by it gives the same order in every run of a seed.

    The gateway and the caller count in the same way. Model requests have no fingerprint: their bodies are not
    hashed.
    """
    match record:
        case Exchange():
            fingerprint = "" if record.of_model else record.fingerprint
            return record.attempt, record.link, fingerprint, record.call, record.try_
        case ToolTry():
            return record.attempt, record.link, record.fingerprint, record.call, record.try_
        case ModelCall():
            return record.attempt, LAB_MODEL, "", record.ordinal, record.try_


_SAME_CLOCK_S = 0.001
_TWO_CLOCKS_S = 0.005
# the gateway learns that late that a client has left, behind the ingress and Toxiproxy
_LEFT_S = 0.02


@dataclass(frozen=True)
class Request:
    """One request, with the caller's record, the gateway's, or both."""

    ids: tuple[str, ...]  # of the records, the gateway's first
    exchange: Exchange | None  # the gateway's record
    caller_record: CallerRecord | None
    link: Link | None = None
    replies_are_lost: bool | None = False  # by a toxic that stops every reply; None if it may stop some
    tls: Literal["", "fresh", "kept"] = ""  # the connection's TLS, if the gateway has no record
    read_only_tools: frozenset[str] = frozenset()  # those that the MCP server of the link annotates so
    within: tuple[Request, ...] = ()  # of a function: the requests that began while it ran
    given_up: float | None = None  # when its caller sent it again, still without an answer
    never_arrived: bool = False  # the ingress shows that the reply had not crossed a toxic to its end
    is_slow: bool = False  # a toxic makes the reply so slow that its caller may have left

    @property
    def attempt(self) -> int:
        return self._record.attempt

    @property
    def link_name(self) -> str:
        return self.exchange.link if self.exchange else record_key(self._record)[1]

    @cached_property
    def try_key(self) -> TryKey:
        """The key of the try, by the caller's record if there is one."""
        return record_key(self.caller_record or self._record)

    @property
    def error(self) -> str | None:
        """The error that the caller recorded."""
        return self.caller_record.error if self.caller_record else None

    @property
    def ms(self) -> float:
        """The duration for the caller; without its record, the duration in the gateway."""
        return self.caller_record.ms if self.caller_record else self._record.ms

    @property
    def of_model(self) -> bool:
        return self.exchange.of_model if self.exchange else isinstance(self.caller_record, ModelCall)

    @property
    def may_ask_model(self) -> bool:
        """Whether it asks a model, or has a path of a model API and a body that does not show it."""
        exchange = self.exchange
        if self.of_model or exchange is None:
            return self.of_model
        return exchange.method == "POST" and may_ask_model(exchange.target.partition("?")[0])

    @property
    def direct(self) -> bool:
        """Whether it is the fallback that bypasses the proxies and the gateway."""
        return isinstance(self.caller_record, ToolTry) and self.caller_record.route == "direct"

    @property
    def start(self) -> float:
        """Seconds since the epoch, by the caller's clock if there is a caller's record."""
        match self.caller_record:
            case ToolTry():
                return self.caller_record.start
            case ModelCall():
                return self.caller_record.t - self.caller_record.ms / 1000
        assert self.exchange is not None
        return self.exchange.start

    @property
    def end(self) -> float:
        match self.caller_record:
            case ToolTry():
                return self.caller_record.end
            case ModelCall():
                return self.caller_record.t
        assert self.exchange is not None
        exchange = self.exchange
        if self.given_up is not None:
            return self.given_up
        return exchange.start + (exchange.left_ms if exchange.left_ms else exchange.ms) / 1000

    def began_after(self, first: Request) -> bool:
        """Whether it began after the caller knew how the first had ended, as far as clocks show that."""
        is_one_clock = (first.caller_record is None) == (self.caller_record is None)
        tolerance = _LEFT_S if first.client_left else _SAME_CLOCK_S if is_one_clock else _TWO_CLOCKS_S
        return self.start >= first.end - tolerance

    @property
    def name(self) -> str:
        """Method and path if they are known, else the name of the tool, the function or the MCP message."""
        if self.exchange is not None and self.is_of_function:
            return unquote(self.exchange.target[1:])
        if self.exchange is not None and self.exchange.message:
            return self.exchange.tool or self.exchange.message
        if self.exchange is not None:
            return (
                f"{self.exchange.method} {self.exchange.target.partition('?')[0]} {self.operation}".rstrip()
            )
        record = self.caller_record
        tool = record.tool if isinstance(record, ToolTry) else "a request to the model"
        tools = self.link.tools if self.link else ()
        return next((f"{method} {path}" for name, method, path in tools if name == tool), tool)

    @property
    def is_of_function(self) -> bool:
        """Whether it calls a function of the subject's own process."""
        return self.link is not None and self.link.is_in_process

    @cached_property
    def operation(self) -> str:
        """Its operation on a path that serves several; empty for any other request."""
        exchange = self.exchange
        if exchange is None or self.of_model or exchange.message:
            return ""
        return operation_in(None if exchange.request_cut else exchange.request_body, exchange.operation)

    @property
    def method(self) -> str:
        if self.exchange is not None and (self.exchange.tool or self.is_of_function):
            return self.exchange.method
        first = self.name.partition(" ")[0]
        return first if first.isupper() else ""

    @property
    def is_read(self) -> bool:
        is_message = self.exchange is not None and self.exchange.message != "" and not self.exchange.tool
        return is_message or self.method in SAFE_METHODS

    @cached_property
    def is_write(self) -> bool:
        """Whether it changes state: its caller says so, or ``wiring.write_requests.is_write`` does.

        A function that is declared nowhere and sends requests is no write: these may be.
        """
        if isinstance(self.caller_record, ToolTry) and self.caller_record.write:
            return True
        exchange = self.exchange
        if exchange is None or self.of_model:
            return False
        if any(request.is_write for request in self.within):
            return False  # the request is the write
        if exchange.write:
            return True
        return not self.within and is_write(
            self.link or Link(exchange.link, _SOME_SERVER), sent_request(exchange), self.read_only_tools
        )

    @property
    def same(self) -> SameKey | None:
        """Equal for requests of one attempt that ask for the same; None if unknown."""
        exchange = self.exchange
        if not self.of_model:
            record = exchange or self.caller_record
            assert isinstance(record, Exchange | ToolTry)
            operation = f" {exchange.operation}" if exchange and exchange.operation else ""
            fingerprint = f"{record.fingerprint}{operation}"
            return (self.attempt, self.link_name, fingerprint) if record.fingerprint else None
        if isinstance(self.caller_record, ModelCall):
            return self.attempt, self.link_name, f"request {self.caller_record.ordinal}"
        if exchange and exchange.request_body and not exchange.request_cut:
            return self.attempt, self.link_name, exchange.request_body
        # a subject that only forwards the lab's headers does not number its calls; the gateway counts them
        if exchange and exchange.identity == "baggage":
            return self.attempt, self.link_name, f"request {exchange.call}"
        return None

    @property
    def idempotency_key(self) -> str | None:
        """The key by which the upstream recognizes a repetition; empty without one, None if unknown."""
        if isinstance(self.caller_record, ToolTry):
            return self.caller_record.idempotency_key or ""
        return self.exchange.key if self.exchange and self.exchange.dialect else None

    @cached_property
    def reply_lost(self) -> bool | None:
        """Whether the caller did not get a complete reply; None if unknown."""
        if self.caller_record is not None:
            return error_kind(self.caller_record.error) in ("timeout", "refused", "closed", "reset")
        assert self.exchange is not None
        if self.client_left or not self.exchange.reply_complete or self.never_arrived:
            return True
        return None if self.is_slow and self.replies_are_lost is False else self.replies_are_lost

    @property
    def client_left(self) -> bool:
        """Whether its connection ended before the reply was complete, which the gateway learns late."""
        return self.given_up is not None or (self.exchange is not None and self.exchange.client_left)

    @property
    def client_gave_up(self) -> bool:
        """Whether the client itself left before the reply was complete: no toxic ended its connection."""
        return self.client_left and self.replies_are_lost is False

    @property
    def is_over_stdio(self) -> bool:
        """Whether it is a line of MCP, whose client can leave without closing anything."""
        return self.link is not None and self.link.is_stdio

    @property
    def may_be_awaited(self) -> bool:
        """Whether its connection stays open although its caller sent it again: it may still wait for both."""
        return self.given_up is not None and not self.is_over_stdio

    @property
    def status(self) -> int | None:
        """The status that the caller got; None if it got no reply, or if that is unknown."""
        if self.reply_lost is not False:
            return None
        record = self.caller_record or self.exchange
        return record.status if record else None

    @property
    def succeeded(self) -> bool:
        """Whether the caller got a complete reply with a status below 400."""
        failed = self.caller_record is not None and self.caller_record.error is not None
        return not failed and self.status is not None and self.status < 400

    @cached_property
    def failed(self) -> bool | None:
        """Whether it failed for the subject: by status, reply or MCP tool error; None if that is unknown."""
        if self.reply_lost is None:
            return None
        exchange = self.exchange
        if not self.succeeded or exchange is None or not exchange.tool:
            return not self.succeeded
        reply = None if exchange.reply_cut else read_message((exchange.reply_body or "").encode())
        if reply is not None:
            return reply.tool_answer == "error"
        # the server's answer is known, but not how a fault changed it
        return None if any(fault.content for fault in self.injected) else self.tool_failed

    @property
    def executed(self) -> Executed:
        """Whether the upstream executed the request, by its answer, whatever the caller saw."""
        exchange, record = self.exchange, self.caller_record
        if exchange is not None:
            if not exchange.forwarded:
                return "no"
            return _EXECUTED[fate_of(self.answered, exchange.tool_answer if exchange.tool else None)]
        if not isinstance(record, ToolTry) or record.route == "proxy":
            return "no"  # it did not reach the gateway
        return _EXECUTED[fate_of(record.status)]

    @property
    def tool_failed(self) -> bool:
        """Whether the MCP tool itself answered with an error, whose text is not read."""
        return self.exchange is not None and self.exchange.tool_answer == "error"

    @property
    def answered(self) -> int | None:
        """The upstream's status, before faults; None without an answer, or if unknown."""
        if self.exchange is None or not self.exchange.forwarded:
            return None
        statuses = [fault.evidence.get("upstream_status") for fault in self.exchange.faults]
        return next((status for status in statuses if isinstance(status, int)), self.exchange.answered)

    @property
    def injected(self) -> Sequence[FaultMet]:
        """The faults that the gateway injected into it."""
        return [fault for fault in self.exchange.faults if fault.injected] if self.exchange else []

    @property
    def fault_kinds(self) -> frozenset[str]:
        """The kinds of the faults that the gateway injected into it."""
        return frozenset(fault.kind for fault in self.injected)

    @property
    def _record(self) -> Exchange | CallerRecord:
        record = self.exchange or self.caller_record
        assert record is not None
        return record


def with_inner(requests: Sequence[Request]) -> list[Request]:
    """Note for each call of a function the requests that began while it ran, which it may have sent."""
    others = [request for request in requests if not request.is_of_function]
    if len(others) == len(requests):
        return others
    return [
        replace(call, within=tuple(each for each in others if _is_within(each, call)))
        if call.is_of_function
        else call
        for call in requests
    ]


def _is_within(request: Request, call: Request) -> bool:
    return request.attempt == call.attempt and call.start <= request.start <= call.end


# equal calls that are planned for the same time are sent together
_PATIENCE_S = 1.0


def with_given_up(requests: Sequence[Request]) -> Sequence[Request]:
    """Note for each request, by start, when its caller gave up on it without closing its connection.

    A client over stdio has nothing to close, and a promise or a thread that nobody waits for any more keeps a
    connection open. The same request, sent again at least 1 s later, shows it: over stdio always, over
    HTTP if a fault kept the reply back.
    """
    later: defaultdict[SameKey, list[Request]] = defaultdict(list)
    noted = list(requests)
    for place in reversed(range(len(noted))):
        request = noted[place]
        if request.same is None or request.caller_record is not None:
            continue
        if _may_be_given_up(request):
            times = (each.start for each in reversed(later[request.same]))
            again = next((start for start in times if start >= request.start + _PATIENCE_S), request.end)
            if again < request.end - _LEFT_S:
                noted[place] = replace(request, given_up=again)
        later[request.same].append(request)
    return noted


def _may_be_given_up(request: Request) -> bool:
    exchange = request.exchange
    if exchange is None or request.is_of_function:
        return False
    return request.is_over_stdio or any(
        fault.delay_ms or not exchange.reply_complete for fault in request.injected
    )


_REFUSED_FOR_NOW = (429, 503)


def is_refused_model(exchange: Exchange) -> bool:
    """Whether a model refused the request for now."""
    return exchange.of_model and exchange.status in _REFUSED_FOR_NOW


def asks_model_again(refused: Exchange, later: Exchange) -> bool:
    """Whether the model that refused the request for now is asked again, with whatever prompt."""
    return (
        is_refused_model(refused)
        and later.of_model
        and (refused.episode, refused.attempt, refused.link) == (later.episode, later.attempt, later.link)
        and _model_of(refused) == _model_of(later)
        and later.start >= refused.start + refused.ms / 1000
    )


def _model_of(exchange: Exchange) -> tuple[str, object]:
    """Its path, and the model that its body names: limits are for each model."""
    try:
        body = parsed(exchange.request_body or "null")
    except ValueError:
        body = None
    return exchange.target.partition("?")[0], body.get("model") if isinstance(body, dict) else None
