"""Decides which faults a request has met and what they do: asks the run's matchers, once per request."""

from __future__ import annotations

import time
from collections.abc import Sequence

from wirefault.dialects.http import Request
from wirefault.dialects.mcp import CALL
from wirefault.faults.base import Try
from wirefault.faults.matching.matcher import IncomingTry
from wirefault.faults.plan import plan_try, spared
from wirefault.faults.sets.fault_set import Entry
from wirefault.gateway.budgets.keeper import BudgetKeeper, Spender
from wirefault.gateway.connection.framed_lines import frame_lines
from wirefault.gateway.connection.request_in_progress import RequestInProgress
from wirefault.gateway.http1.messages import request_of
from wirefault.gateway.lane_attempt import LaneAttempt
from wirefault.gateway.run import Run

MAX_HELD_BODY = 16 << 20
# A body in tiny chunks is mostly framing: a request is decided once it is this many times its limit.
_FRAMING = 4
# how many tokens a request would take is told for nothing by Anthropic, OpenAI and Google
_FREE_OF_CHARGE = ("/count_tokens", "/input_tokens", ":countTokens")


def may_meet_fault(request: RequestInProgress) -> bool:
    """Whether a fault could act on the request, or a change of toxics must come first, so that it is held
    until its body is known."""
    run, attempt = request.run, request.attempt
    if run is None or request.identity == "mismatch":
        return False
    waits = attempt is not None and request.link in attempt.held_calls.links
    if waits or run.matcher.armed(request.link, request.of_model):
        return True
    if run.shadows is not None and run.shadows.armed(request.link, request.of_model):
        return True
    return run.budgets is not None and _uses_up(run.budgets, request)


def _uses_up(budgets: BudgetKeeper, request: RequestInProgress) -> bool:
    """Whether it may be one of the requests that are counted: of a model its questions, with a body."""
    if not budgets.counts(of_model=request.of_model):
        return False
    path = request.head.target.partition("?")[0]
    return not request.of_model or (request.head.method == "POST" and not path.endswith(_FREE_OF_CHARGE))


def hold(request: RequestInProgress) -> None:
    """Begins to hold the request, as much of its body as the armed faults need."""
    request.held = []
    start, run = request.body_start, request.run
    needed = request.message is not None or (run is not None and _needs_body(run, request.link))
    if start is not None and needed:
        start.limit = MAX_HELD_BODY


def _needs_body(run: Run, link: str) -> bool:
    """Whether a fault, or the shadow of one, reads bodies there beyond what the fingerprint takes."""
    return run.matcher.needs_body(link) or (run.shadows is not None and run.shadows.needs_body(link))


def can_be_decided(request: RequestInProgress) -> bool:
    """Whether so much of the request has come that its faults can be decided."""
    if request.request_done or request.body_start is None:
        return True
    limit = request.body_start.limit
    framed = request.request_bytes - request.head.size
    return len(request.body_start) >= limit or framed >= _FRAMING * limit


def ask_faults(request: RequestInProgress) -> None:
    """Decides at once if the request is whole; holds a request that faults may act on."""
    if not request.request_done:
        hold(request)
        return
    decide(request)
    if request.plan is not None or request.waits_for_toxics:
        hold(request)


def decide(request: RequestInProgress) -> None:
    """Sets the request's plan, what was eligible, and the configuration that was asked."""
    run, head, start = request.run, request.head, request.body_start
    assert run is not None
    matcher, link = run.matcher, request.link
    request.decided = True
    whole = request.request_done and (start is None or not start.cut)
    body = bytes(start) if start else b""
    request.settle_key()
    now, attempt = time.perf_counter(), request.attempt
    attempt_s, turn, request.link_call = 0.0, 1, 1
    if attempt is not None:
        attempt_s, turn = now - attempt.began, attempt.turn
        request.link_call = _call_of_link(request, attempt)
        if link in attempt.held_calls.links and not attempt.settling:
            request.waits_for_toxics = attempt.held_calls.must_wait(link, request.link_call)
    request.configuration = run.configuration
    request.reply_is_remembered = link in matcher.remembering

    shown: Request | None = None  # not kept with the request: it may be large, and a reply may last

    def read() -> Request:
        nonlocal shown
        if shown is None:
            shown = request_of(head, body)
        return shown

    path = head.target.partition("?")[0]
    incoming = IncomingTry(
        link,
        head.method,
        path,
        read,
        request.fingerprint,
        request.episode,
        request.attempt_number,
        request.call,
        request.try_,
        now - run.began,
        request.of_model,
        request.message,
        request.of_lines,
        attempt_s,
        request.link_call,
        turn,
    )
    matched = matcher.match(incoming)
    request.eligible = matched.eligible
    # first, since a provider that refuses a request does nothing else with it
    of_budgets = _met_budgets(request, run, incoming) if run.budgets is not None else ()
    if of_budgets or matched.met:
        plan = plan_try([*of_budgets, *matched.met], whole=whole)
        called = request.attempt_number, link, request.fingerprint, request.call
        if matched.met and plan.acts and not run.may_strike(request.episode, called):
            # a blast radius is for faults: a budget is what the subject is given, and holds beyond it
            plan = plan_try(of_budgets, whole=whole) if of_budgets else spared(plan)
        if request.of_lines:
            frame_lines(plan)
        request.plan = plan if plan.met_faults else None
    if run.shadows is not None:
        request.shadows = run.shadows.met(incoming, whole=whole)


def _call_of_link(request: RequestInProgress, attempt: LaneAttempt) -> int:
    """Its call's number on the link in the attempt. Of MCP's messages those that call a tool are counted."""
    if request.message is not None and request.message != CALL:
        return attempt.last_call(request.link)
    return attempt.count_call(request.link, request.fingerprint, request.call)


def _met_budgets(request: RequestInProgress, run: Run, incoming: IncomingTry) -> Sequence[tuple[Entry, Try]]:
    """What the run's budgets do to the request; they count it if they let it through."""
    if run.budgets is None or not _uses_up(run.budgets, request):
        return []
    if request.message is not None and not request.tool:
        return []  # it calls no tool, as most messages of MCP
    spender = Spender(request.episode, request.attempt_number, request.link, request.of_model)
    entries, request.charge = run.admit(spender)
    return [(entry, run.matcher.try_of(entry, incoming)) for entry in entries]
