"""The decision about the faults that a request meets, once enough of it is here."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from functools import partial

from wirefault.dialects.http import Request
from wirefault.dialects.mcp import (
    CALL,
    SESSION_HEADER,
)
from wirefault.faults.base import Try
from wirefault.faults.matching.matcher import IncomingTry
from wirefault.faults.plan import outside_radius, plan_try
from wirefault.faults.sets.fault_set import Entry
from wirefault.gateway.budgets.enforcer import BudgetEnforcer, Spender
from wirefault.gateway.calls import CallName, CountedTry
from wirefault.gateway.exchange.bodies import kept_text
from wirefault.gateway.exchange.exchange import Decision, Exchange
from wirefault.gateway.http1.heads import (
    CONTENT_ENCODING,
    OPERATION,
    RequestHead,
    client_credential,
    read_header,
    sdk_retries,
)
from wirefault.gateway.http1.messages import request_of
from wirefault.gateway.lane import LaneAttempt
from wirefault.gateway.replayed_model import ReplayedModel
from wirefault.gateway.run import Run
from wirefault.wiring import write_requests
from wirefault.wiring.write_requests import WRITING_METHODS, SentRequest

MAX_HELD_BODY = 16 << 20
# A body in tiny chunks is mostly framing: its faults are decided at this many times the limit.
_FRAMING = 4
# Anthropic, OpenAI and Google count the tokens of a request for free.
_FREE_OF_CHARGE = ("/count_tokens", "/input_tokens", ":countTokens")


def may_meet_fault(exchange: Exchange) -> bool:
    """Whether a fault may act on the request, or its link's toxics must change first.

    Such a request waits here until its body is known.
    """
    listener, origin = exchange.listener, exchange.origin
    run, attempt = origin.run, origin.attempt
    if run is None or attempt is None:
        return False
    if listener.name in attempt.call_holds.links:
        return True
    if run.writes is not None and exchange.head.method in WRITING_METHODS and not exchange.is_model:
        return True  # its body shows whether it is a write
    if run.replay is not None and exchange.may_ask_model:
        return True  # its body shows which recorded reply fits
    if _meets_as(exchange, run, of_model=exchange.is_model):
        return True
    if not listener.dialect_by_request or exchange.is_model:
        return False
    return exchange.may_ask_model and _meets_as(exchange, run, of_model=True)


def _meets_as(exchange: Exchange, run: Run, *, of_model: bool) -> bool:
    """The same for a request that does, or does not, ask a model."""
    link = exchange.listener.name
    if run.matcher.armed(link, of_model):
        return True
    if run.shadows is not None and run.shadows.armed(link, of_model=of_model):
        return True
    return run.budgets is not None and _is_counted(run.budgets, exchange, of_model=of_model)


def _is_counted(budgets: BudgetEnforcer, exchange: Exchange, *, of_model: bool) -> bool:
    """Whether a budget counts requests like this one: of a model only questions, which have a body."""
    if not budgets.counts(of_model=of_model):
        return False
    return not of_model or (exchange.head.method == "POST" and not exchange.path.endswith(_FREE_OF_CHARGE))


def ask_faults(exchange: Exchange) -> None:
    """Decide at once if the request is whole; hold it if faults may act on it."""
    if not exchange.request_done:
        _hold(exchange)
        return
    decision = decide(exchange)
    if exchange.plan is not None or decision.waits_for_toxics:
        exchange.waiting = []


def _hold(exchange: Exchange) -> None:
    """Begin to hold the request, and as much of its body as the armed faults need."""
    exchange.waiting = []
    start, run, link = exchange.body_start, exchange.origin.run, exchange.listener.name
    needs_body = exchange.message is not None or (
        run is not None
        and (
            run.replay is not None
            or run.matcher.needs_body(link)
            or (run.shadows is not None and run.shadows.needs_body(link))
        )
    )
    if start is not None and needs_body:
        start.limit = MAX_HELD_BODY


def can_be_decided(exchange: Exchange) -> bool:
    """Whether enough of the request is here to decide its faults."""
    start = exchange.body_start
    if exchange.request_done or start is None:
        return True
    framed = exchange.request_bytes - exchange.head.size
    return len(start) >= start.limit or framed >= _FRAMING * start.limit


def decide(exchange: Exchange) -> Decision:
    """Set the decision, the plan and the number of the fault set that was asked; return the decision."""
    listener, origin = exchange.listener, exchange.origin
    run, attempt, link = origin.run, origin.attempt, listener.name
    assert run is not None
    decision = exchange.decision = Decision(
        left_to_requests=listener.is_function and exchange.is_left_to_requests,
        remembers_reply=link in run.matcher.remembering,
    )
    start = exchange.body_start
    whole = exchange.request_done and (start is None or not start.cut)
    body = bytes(start) if start else b""
    is_numbered = exchange.call > 0  # by its sender
    exchange.settle_key()
    now = time.perf_counter()
    call = CallName(exchange.fingerprint, exchange.call)
    if attempt is not None:
        call = call if is_numbered else _counted_call(exchange, attempt, body, whole=whole)
        if (
            exchange.message is not None and exchange.message != CALL
        ):  # of MCP's messages only tool calls count
            decision.link_call = attempt.calls.last_on_link(link)
        else:
            decision.link_call = attempt.calls.number_on_link(link, call)
        if link in attempt.call_holds.links and not attempt.settling:
            decision.waits_for_toxics = attempt.call_holds.must_wait(link, decision.link_call)
    exchange.configuration = run.configuration

    incoming = IncomingTry(
        link,
        exchange.head.method,
        exchange.head.target.partition("?")[0],
        _request_reader(exchange.head, body),
        exchange.fingerprint,
        origin.episode,
        origin.attempt_number,
        exchange.call,
        exchange.try_,
        now - run.began,
        exchange.is_model,
        exchange.message,
        listener.is_lines,
        now - attempt.began if attempt is not None else 0.0,
        decision.link_call,
        attempt.turn if attempt is not None else 1,
        call.number,
        exchange.dialect if exchange.is_model else "",
        origin.episode in run.episodes_with_write,
        call.fingerprint,
        partial(is_write, exchange),
        decision.left_to_requests,
    )
    matched = run.matcher.match(incoming)
    decision.eligible = matched.eligible
    # budgets first: a provider that refuses a request does nothing else with it
    budget_faults = _met_budgets(exchange, decision, run, incoming) if run.budgets is not None else ()
    if budget_faults or matched.met:
        faults = [(entry, tried) for entry, tried in matched.met if not _has_killed(attempt, entry)]
        plan = plan_try([*budget_faults, *faults], whole=whole)
        called = origin.attempt_number, link, *call
        if faults and plan.acts and not run.in_blast_radius(origin.episode, called):
            # a blast radius limits faults; a budget is part of the subject's world and applies outside the
            # radius
            plan = plan_try(budget_faults, whole=whole) if budget_faults else outside_radius(plan)
        exchange.plan = plan if plan.met_faults else None
    if run.shadows is not None:
        decision.shadows = run.shadows.match(incoming, whole=whole)
    if run.replay is not None:
        _replay(exchange, decision, run.replay, body, whole=whole)
    return decision


def _has_killed(attempt: LaneAttempt | None, entry: Entry) -> bool:
    """Whether the entry has killed the subject as often as it may in this attempt."""
    return (
        entry.fault.kills and attempt is not None and attempt.kills.count(entry.id) >= entry.fault.max_kills
    )


def _replay(
    exchange: Exchange, decision: Decision, replay: ReplayedModel, body: bytes, *, whole: bool
) -> None:
    """Choose the recorded reply to a model's request that comes before a fault, or that a fault strikes."""
    link, episode, plan = exchange.listener.name, exchange.origin.episode, exchange.plan
    changed = plan is not None and plan.request_fault is not None
    if exchange.is_model and whole and not changed and replay.replays(link, episode):
        decision.replayed = replay.next_reply(link, request_of(exchange.head, body))
        decision.replay = "hit" if decision.replayed is not None else "miss"
    if plan is not None and plan.acts:
        replay.note_fault(episode)


def call_name(exchange: Exchange) -> str:
    """Return the MCP tool that the request calls, else its method, its path and its operation."""
    return (
        exchange.tool
        or f"{exchange.head.method} {exchange.path} {_client_request(exchange).operation}".rstrip()
    )


def _client_request(exchange: Exchange) -> SentRequest:
    """Return the client's request as far as it shows whether it is a write."""
    head, start = exchange.head, exchange.body_start
    encoding = head.noted.get(CONTENT_ENCODING, "").lower()
    body, cut = kept_text(start, encoding, str) if start else ("", False)
    return SentRequest(
        head.method,
        head.target,
        body,
        exchange.request_done and not cut,
        exchange.message or "",
        exchange.tool,
        exchange.message is not None,
        head.noted.get(OPERATION, ""),
    )


def is_write(exchange: Exchange) -> bool:
    """Whether the client's request, which asks no model, is a write.

    A fault may have changed it, but whether it writes stays the same.
    """
    if exchange.is_marked_write:
        return True
    return not exchange.has_sent_requests and write_requests.is_write(
        exchange.listener.link, _client_request(exchange), _read_only_tools(exchange)
    )


def may_write(exchange: Exchange) -> bool:
    """As ``is_write``, but the name of a read proves nothing."""
    return write_requests.may_write(
        exchange.listener.link, _client_request(exchange), _read_only_tools(exchange)
    )


def _read_only_tools(exchange: Exchange) -> Collection[str]:
    run = exchange.origin.run
    return run.read_only_tools.get(exchange.listener.name, ()) if run is not None else ()


def _request_reader(head: RequestHead, body: bytes) -> Callable[[], Request]:
    """Read the request at most once, and keep it no longer than the decision: it may be large."""
    request: Request | None = None

    def read() -> Request:
        nonlocal request
        if request is None:
            request = request_of(head, body)
        return request

    return read


def _counted_call(exchange: Exchange, attempt: LaneAttempt, body: bytes, *, whole: bool) -> CallName:
    """Return the call as triggers count it: a client's own retry is a try of the call that it repeats."""
    head = exchange.head
    is_message = exchange.message is not None
    session = read_header(head, SESSION_HEADER) if is_message else ""
    tried = exchange.counted = CountedTry(
        exchange.listener.name,
        head.method,
        head.target,
        exchange.fingerprint,
        body,
        len(body) if whole else head.length or None,
        exchange.began,
        of_model=exchange.is_model,
        tool=exchange.tool,
        is_protocol=is_message and exchange.message != CALL,
        access=f"{client_credential(head)} {session}",
        key_field=exchange.listener.link.key or "",
    )
    return attempt.calls.name(tried, exchange.call, is_marked=sdk_retries(head.noted) > 0)


def _met_budgets(
    exchange: Exchange, decision: Decision, run: Run, incoming: IncomingTry
) -> Sequence[tuple[Entry, Try]]:
    """Return what the run's budgets do to the request; they count it if they let it through."""
    if run.budgets is None or not _is_counted(run.budgets, exchange, of_model=exchange.is_model):
        return ()
    if incoming.by_name_only:
        return ()  # its requests are counted
    if exchange.message is not None and not exchange.tool:
        return ()  # most messages of MCP call no tool
    origin, listener = exchange.origin, exchange.listener
    spender = Spender(origin.episode, origin.attempt_number, listener.name, exchange.is_model)
    entries, decision.charge = run.admit(spender)
    return [(entry, run.matcher.try_of(entry, incoming)) for entry in entries]
