"""empty: a reply that holds nothing."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from windtunnel.dialects.http import Reply
from windtunnel.faults.base import Act, Changed, Fault, Miss, Try
from windtunnel.faults.catalogue.http.edit import replace_reply

_BODIES = {"body": b"", "object": b"{}", "array": b"[]", "null": b"null"}


class Empty(Fault):
    """The reply keeps its status and headers, but holds nothing.

    ``body``: no body at all; ``object``, ``array``, ``null``: that JSON value, empty. The upstream has
    executed the request. Few clients notice before they read the first field.
    """

    name = "empty"
    family = "http"

    kind: Literal["body", "object", "array", "null"] = Field("body", description="what is left")

    def act(self, tried: Try) -> Act:
        return Act(reply=self._emptied)

    def _emptied(self, reply: Reply) -> Changed | Miss:
        if not reply.body:
            return Miss("nothing_to_change")
        return replace_reply(reply, reply.with_body(_BODIES[self.kind]), kind=self.kind)
