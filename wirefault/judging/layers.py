"""Determine which layer sent a failed request again: the SDK, the code, the framework or the model. Pure.

- The *SDK* marks its retries in a header (``x-stainless-retry-count``, ``amz-sdk-request``).
- The *code* sends the same request again, with no model reply in between.
- The *framework* repeats more: a whole step, with the requests before the failed one, or the conversation
  from an earlier model request. The framework also makes the model requests, so it repeats a model request
  that has no mark of the SDK.
- The *model* was asked in between and made the call again, or the subject's own record counts it as another
  call.
"""

from __future__ import annotations

from typing import Literal

from wirefault.history.events import ToolTry
from wirefault.judging.requests import Request
from wirefault.judging.trace import EpisodeTrace

Layer = Literal["model", "framework", "code", "SDK"]
LAYERS: tuple[Layer, ...] = ("model", "framework", "code", "SDK")
"""From the outermost layer to the innermost."""


def layer_of(trace: EpisodeTrace, before: Request, request: Request) -> Layer:
    """The layer that sent ``request``, the next request after ``before`` for the same thing."""
    if request.exchange is not None and request.exchange.sdk_retry:
        return "SDK"
    if request.of_model:
        return "framework"
    if isinstance(before.caller_record, ToolTry) and isinstance(request.caller_record, ToolTry):
        return "code" if before.caller_record.call == request.caller_record.call else "model"
    between = list(trace.between(before, request))
    answered = [other for other in between if other.of_model and other.succeeded]
    earlier = [r for r in trace.requests if r.attempt == before.attempt and r.start < before.start]
    if answered:
        seen = {other.same for other in earlier if other.of_model and other.succeeded and other.same}
        return "framework" if any(other.same in seen for other in answered) else "model"
    others = {other.same for other in earlier if not other.of_model and other.same not in (None, before.same)}
    return "framework" if any(other.same in others for other in between) else "code"
