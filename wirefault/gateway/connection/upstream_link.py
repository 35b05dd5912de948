"""The upstream of one client connection: opened, throttled and dropped here; and the message that it gets."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from wirefault.faults.plan import Plan
from wirefault.gateway.connection.replayed_upstream import ReplayedUpstream
from wirefault.gateway.connection.request_in_progress import RequestInProgress
from wirefault.gateway.connection.upstream_connection import Upstream, UpstreamConnection, UpstreamEvents
from wirefault.gateway.endpoint import Endpoint, rewrite
from wirefault.gateway.http1.heads import RequestHead
from wirefault.gateway.http1.messages import ask_for_identity, reframed


class UpstreamLink:
    """Has one upstream connection at most. ``events`` is told what happens to it.

    ``client_is_behind()``: the client reads too slowly, so that nothing is read from the upstream.
    """

    def __init__(
        self, events: UpstreamEvents, connect_timeout: float, client_is_behind: Callable[[], bool]
    ) -> None:
        self._events = events
        self._connect_timeout = connect_timeout
        self._client_is_behind = client_is_behind
        self.connection: Upstream | None = None

    def open(self, endpoint: Endpoint) -> Upstream:
        """The connection to that endpoint: the one there is, or a new one. One to another is dropped."""
        connection = self.connection
        if connection is not None and connection.endpoint is not endpoint:
            self.drop()
            connection = None
        if connection is None:
            if endpoint.opener is not None:
                connection = cast(Upstream, endpoint.opener(self._events, endpoint))
            elif endpoint.player is not None:
                connection = ReplayedUpstream(self._events, endpoint, endpoint.player)
            else:
                connection = UpstreamConnection(self._events, endpoint, self._connect_timeout)
            self.connection = connection
            self.throttle()
        return connection

    @property
    def connecting(self) -> bool:
        return self.connection is not None and self.connection.connecting

    def send(self, data: bytes) -> None:
        """Sends if there is a connection."""
        if self.connection is not None:
            self.connection.send(data)

    def send_eof(self) -> None:
        """Passes on that the client will send no more."""
        if self.connection is not None:
            self.connection.send_eof()

    def throttle(self) -> None:
        """Reads from the upstream, unless the client is behind."""
        if self.connection is not None:
            self.connection.pause(self._client_is_behind())

    def close(self) -> None:
        """Closes the connection in order: what was sent still goes out."""
        if self.connection is not None:
            self.connection.close()

    def drop(self) -> None:
        """Closes the connection at once; the next request opens another."""
        connection = self.connection
        if connection is not None:
            self.connection = None
            connection.abort()
            self._events.on_full(False)


def message_for(
    request: RequestInProgress, endpoint: Endpoint, body: bytes, *, is_tool: bool
) -> tuple[RequestHead, bytes]:
    """The head that is sent, and its rewritten header block with the ``body`` that follows it."""
    head = request.head
    if request.plan is not None:
        head, body = _changed(head, request.plan, body)
    if endpoint.recorder is not None:
        ask_for_identity(head)  # what is recorded can then be read, and compared in a diff
    of_lab_tool = is_tool and endpoint.is_lab and request.attempt
    lab_headers = of_lab_tool.lab_headers if of_lab_tool else b""
    return head, rewrite(head, endpoint, lab_headers) + body


def _changed(head: RequestHead, plan: Plan, body: bytes) -> tuple[RequestHead, bytes]:
    """The request as its faults want it: changed, and asking for a reply that can be read."""
    met = plan.request_fault
    if met is not None and met.act.request is not None:
        changed = met.guarded(reframed, met.act.request, head)
        if changed is not None:
            head, body = changed
            met.mark_injected()
    accepted = ask_for_identity(head) if plan.reply_candidates else ""
    if accepted not in ("", "identity"):
        for candidate in plan.reply_candidates:
            candidate.evidence["accept_encoding"] = accepted
    return head, body
