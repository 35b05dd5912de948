"""Classify an attempt's failures: network, server or agent. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from wirefault.history.events import AttemptEnded, ErrorClass
from wirefault.judging.requests import Request
from wirefault.judging.trace import EpisodeTrace


def attempt_error_class(trace: EpisodeTrace, ended: AttemptEnded) -> ErrorClass:
    """Classify an attempt by all its failures, not only by the exception that ended it.

    ``network`` if all its tries failed in the network. If the agent reports a failure, the class of the last
    call that never succeeded. Otherwise the class that the subject recorded. Only tool requests count; if the
    attempt has none, model requests count.
    """
    if ended.ended_by == "exception" and ended.error_class == "none":
        return "none"  # the lab failed
    own = [request for request in trace.requests if request.attempt == ended.attempt]
    requests = [request for request in own if not request.of_model] or own
    failures = [_failure(request) for request in requests]
    if failures and all(failure == "network" for failure in failures):
        return "network"
    reported = ended.report is not None and ended.report.status != "done"
    if not reported or ended.error_class != "none":
        return ended.error_class
    return _class_of_open_calls(requests)


def _failure(request: Request) -> ErrorClass:
    """The class of a request's failure; ``none`` for a success, and if it is unknown whether it failed."""
    if request.reply_lost:
        return "network"
    status = request.status
    failed = (status is not None and status >= 400) or request.error is not None or request.tool_failed
    return "server" if failed else "none"


def _class_of_open_calls(requests: Sequence[Request]) -> ErrorClass:
    """The class of the last call that never succeeded; all tries of one call count once."""
    last = {request.same or request.ids: request for request in requests}
    failures = [failure for request in last.values() if (failure := _failure(request)) != "none"]
    return failures[-1] if failures else "none"
