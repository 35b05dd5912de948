"""stale: an earlier answer once more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from windtunnel.dialects.http import Reply
from windtunnel.faults.base import Act, Changed, Fault, Miss, Try
from windtunnel.faults.catalogue.http.edit import changed


class Stale(Fault):
    """The client gets an earlier answer of the same link, as from a cache that mixes things up.

    The upstream has executed the request; its answer is thrown away for one that it gave earlier in the
    episode, to whatever was asked then. To the client it is a good answer, though perhaps to another
    question. With no earlier answer that differs, it is not injected.
    """

    name = "stale"
    family = "http"
    remembers = True

    which: Literal["newest", "oldest"] = Field("newest", description="which of those that differ")

    def act(self, this: Try) -> Act | Miss:
        if not this.earlier:
            return Miss("no_earlier_answer")
        return Act(reply=lambda reply: self._earlier(this.earlier, reply))

    def _earlier(self, earlier: Sequence[Reply], reply: Reply) -> Changed | Miss:
        others = [one for one in earlier if (one.status, one.body) != (reply.status, reply.body)]
        if not others:
            return Miss("no_earlier_answer")
        chosen = others[-1] if self.which == "newest" else others[0]
        return changed(reply, chosen, upstream_status=reply.status, status=chosen.status)
