"""Decides which faults a request has met and what they do: asks the run's matcher, once per request."""

from __future__ import annotations

from windtunnel.dialects.http import Request
from windtunnel.faults.matching.matcher import IncomingTry
from windtunnel.faults.plan import plan_try
from windtunnel.gateway.connection.framed_lines import frame_lines
from windtunnel.gateway.connection.request_in_progress import RequestInProgress
from windtunnel.gateway.http1.messages import request_of

MAX_HELD_BODY = 16 << 20
# A body in tiny chunks is mostly framing: a request is decided once it is this many times its limit.
_FRAMING = 4


def may_meet_fault(request: RequestInProgress) -> bool:
    """Whether a fault could act on the request, so that it must be held until its body is known."""
    run = request.run
    return (
        run is not None
        and run.matcher.armed(request.link, request.of_model)
        and request.identity != "mismatch"
    )


def hold(request: RequestInProgress) -> None:
    """Begins to hold the request, as much of its body as the armed faults need."""
    request.held = []
    start, run = request.body_start, request.run
    needed = request.message is not None or (run is not None and run.matcher.needs_body(request.link))
    if start is not None and needed:
        start.limit = MAX_HELD_BODY


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
    if request.plan is not None:
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
    request.configuration = run.configuration
    request.reply_is_remembered = matcher.remembers(link)

    shown: Request | None = None  # not kept with the request: it may be large, and a reply may last

    def read() -> Request:
        nonlocal shown
        if shown is None:
            shown = request_of(head, body)
        return shown

    path = head.target.partition("?")[0]
    matched = matcher.match(
        IncomingTry(
            link,
            head.method,
            path,
            read,
            request.fingerprint,
            request.episode,
            request.attempt_number,
            request.call,
            request.try_,
            run.elapsed_s,
            request.of_model,
            request.message,
            request.of_lines,
        )
    )
    request.eligible = matched.eligible
    if matched.met:
        plan = plan_try(matched.met, whole=whole)
        if request.of_lines:
            frame_lines(plan)
        request.plan = plan if plan.met_faults else None
