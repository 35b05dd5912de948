"""Both sides of a reply that a fault or a toxic struck, for the record."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict

from wirefault.gateway.connection.bodies import BodyStart, kept_text
from wirefault.gateway.connection.natural_reply import MAX_STRUCK
from wirefault.gateway.connection.request_in_progress import RequestInProgress
from wirefault.gateway.http1.messages import content_encoding
from wirefault.history.events import StruckReply

_Text = tuple[str | None, bool]
_NOTHING: _Text = (None, False)


def struck_field(request: RequestInProgress, redact: Callable[[str], str]) -> str:
    """``Exchange.struck`` as JSON, after a comma; empty if nothing struck the request."""
    plan = request.plan
    struck_here = plan is not None and any(met.injected for met in plan.met_faults)
    if not struck_here and not request.crosses_toxic:
        return ""
    observed = _NOTHING
    if request.reply_start is not None and request.status is not None:
        observed = _first_part(request.reply_start, request.reply_block, redact)
        observed = observed[0], observed[1] or not request.reply_done
    natural = _NOTHING
    if request.natural is not None and request.natural.block:
        natural = _first_part(request.natural.start, request.natural.block, redact)
    elif request.natural is None and request.upstream_status is not None:
        natural = observed  # nothing could change this reply: the fault acted on the request, or delayed it
    struck = StruckReply(natural[0], observed[0], natural[1], observed[1], request.crosses_toxic)
    return f',"struck":{json.dumps(asdict(struck), ensure_ascii=False)}'


def _first_part(start: BodyStart, block: bytes, redact: Callable[[str], str]) -> _Text:
    text, cut = kept_text(start, content_encoding(block), redact)
    return text[:MAX_STRUCK], cut or len(text) > MAX_STRUCK
