"""Who sent a failed request again: the client's SDK, the code around it, the framework or the model. Pure.

- The *SDK* says so in a header (``x-stainless-retry-count``, ``amz-sdk-request``).
- The *code* sends the same request again, with no reply of the model in between.
- The *framework* repeats more than that: a whole step, with requests that were made before the failed one, or
  the conversation from an earlier request to the model on. Requests to the model are the framework's own, so
  one that is sent again without the SDK's mark is repeated by the framework, too.
- The *model* was asked in between, and called once more; or the subject's own count of its calls says so.
"""

from __future__ import annotations

from typing import Literal

from wirefault.history.events import ToolTry
from wirefault.judging.requests import Request
from wirefault.judging.trace import EpisodeTrace

Layer = Literal["model", "framework", "code", "SDK"]
LAYERS: tuple[Layer, ...] = ("model", "framework", "code", "SDK")
"""From the outermost to the innermost."""


def layer_of(trace: EpisodeTrace, before: Request, request: Request) -> Layer:
    """Who sent ``request``, which asks for the same as ``before``, the last one that did."""
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
