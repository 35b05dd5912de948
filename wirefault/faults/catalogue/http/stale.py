"""stale: an earlier answer once more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from wirefault.core.caller_errors import HTTP_ERRORS
from wirefault.dialects.http import Reply
from wirefault.faults.base import Act, Changed, Fault, Miss, Try
from wirefault.faults.catalogue.http.edit import replace_reply


class Stale(Fault):
    """The client gets an earlier answer of the same link, as from a cache that mixes up its entries.

    The upstream has executed the request. In place of its answer the client gets one that the upstream gave
    earlier in the episode, perhaps to another request. To the client it is a good answer. Without an earlier
    answer that differs, the fault is not injected.
    """

    name = "stale"
    family = "http"
    mcp_view = "result"
    remembers = True
    can_cause = HTTP_ERRORS | {"bad_reply"}

    which: Literal["newest", "oldest"] = Field("newest", description="which of the answers that differ")

    def act(self, tried: Try) -> Act | Miss:
        if not tried.earlier:
            return Miss("no_earlier_answer")
        return Act(reply=lambda reply: self._earlier(tried.earlier, reply))

    def _earlier(self, earlier: Sequence[Reply], reply: Reply) -> Changed | Miss:
        others = [other for other in earlier if (other.status, other.body) != (reply.status, reply.body)]
        if not others:
            return Miss("no_earlier_answer")
        chosen = others[-1] if self.which == "newest" else others[0]
        return replace_reply(reply, chosen, upstream_status=reply.status, status=chosen.status)
