"""Determine which layer sent a failed request again: the SDK, the code, a repeated step or the model. Pure.

- The *SDK* marks its retries in a header (``x-stainless-retry-count``, ``amz-sdk-request``).
- The *code* sends the same request again, with no model reply in between.
- A repeated *step* is more: the requests before the failed one, too, or the conversation from an earlier
  model request, or a model request without the SDK's mark. The agent's code or its framework repeats it: the
  record does not show which.
- The *model* was asked in between and made the call again, or the subject's own record counts it as another
  call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from wirefault.history.events import ToolTry
from wirefault.judging.requests import Request
from wirefault.judging.trace import EpisodeTrace

Layer = Literal["model", "step", "code", "SDK"]
LAYERS: tuple[Layer, ...] = ("model", "step", "code", "SDK")
"""From the outermost layer to the innermost."""
BY_LAYER: Mapping[Layer, str] = {
    "model": "by the model",
    "step": "by a repeated step",
    "code": "by the client",
    "SDK": "by the client's SDK",
}
"""Who sent a request again, as the end of a clause."""


def layer_of(trace: EpisodeTrace, before: Request, request: Request) -> Layer:
    """The layer that sent ``request``, the next request after ``before`` for the same thing."""
    if request.exchange is not None and request.exchange.sdk_retry:
        return "SDK"
    if request.of_model:
        return "step"
    if isinstance(before.caller_record, ToolTry) and isinstance(request.caller_record, ToolTry):
        return "code" if before.caller_record.call == request.caller_record.call else "model"
    between = list(trace.between(before, request))
    answered = [other for other in between if other.may_ask_model and other.succeeded]
    earlier = [r for r in trace.requests if r.attempt == before.attempt and r.start < before.start]
    if answered:
        seen = {other.same for other in earlier if other.may_ask_model and other.succeeded and other.same}
        return "step" if any(other.same in seen for other in answered) else "model"
    others = {o.same for o in earlier if not o.may_ask_model and o.same not in (None, before.same)}
    return "step" if any(other.same in others for other in between) else "code"


def repeater_of(trace: EpisodeTrace, before: Request, request: Request) -> Layer | None:
    """Return the layer that sent ``request``; None where a model may have been asked in between, unseen.

    A model request may begin before the record of ``before`` ends, since the gateway still waits for a reply
    that the caller does not expect anymore.
    """
    layer = layer_of(trace, before, request)
    if layer != "code":
        return layer
    meanwhile = [
        other
        for other in trace.requests
        if other.attempt == before.attempt and before.start < other.start < before.end
    ]
    between = list(trace.between(before, request))
    if any(other.may_ask_model for other in meanwhile) or trace.past_lab:
        return None
    return layer if not between or any(other.may_ask_model for other in trace.requests) else None


def repeated_text(trace: EpisodeTrace, pairs: Iterable[tuple[Request, Request]]) -> str:
    """Say who sent the second request of each pair; empty if that is unknown for one of them."""
    known = [(repeater_of(trace, before, again), before, again) for before, again in pairs]
    layers = {layer for layer, _, _ in known}
    if None in layers or not layers:
        return ""
    text = " and ".join(BY_LAYER[layer] for layer in LAYERS if layer in layers)
    between = any(True for _, before, again in known for _ in trace.between(before, again))
    if not between and any(request.may_ask_model for request in trace.requests):
        text += ", with no model request in between"
    return text
