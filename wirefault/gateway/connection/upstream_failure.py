"""Whether an upstream failed by itself, so that neither the subject nor a fault of ours is to blame. Pure."""

from __future__ import annotations

from wirefault.gateway.connection.request_in_progress import RequestInProgress

# The model's provider refuses the subject itself: no key, no credit, no such model, or asked too often. Other
# refusals (400, 413, 422) are of what the subject has sent, and those of a tool are the subject's to handle.
_NO_MODEL = frozenset({401, 402, 403, 404, 429})


def is_failure(request: RequestInProgress, status: int) -> bool:
    """Whether an upstream that gave that status has failed."""
    return status >= 500 or (status in _NO_MODEL and request.of_model)


def ours_may_be_the_cause(request: RequestInProgress) -> bool:
    """Whether a fault that does more than delay was injected into a request that the upstream got."""
    if not request.forwarded or request.plan is None:
        return False
    return any(met.injected and not met.act.only_delays for met in request.plan.met_faults)
