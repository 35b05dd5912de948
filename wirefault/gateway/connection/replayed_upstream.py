"""Cassettes in the place of an upstream connection."""

from __future__ import annotations

import asyncio

from wirefault.cassettes.cassettes import CassettePlayer
from wirefault.dialects.http import Reply
from wirefault.gateway.connection.recorded_exchanges import SentRequests
from wirefault.gateway.connection.upstream_connection import UpstreamEvents
from wirefault.gateway.endpoint import Endpoint
from wirefault.gateway.http1.rendering import render

_NOT_RECORDED = "the cassettes have no answer for this request: record it (MODEL=record)"


class ReplayedUpstream:
    """An upstream that is always reached, and that has only the replies of the cassettes."""

    connecting = False

    def __init__(self, events: UpstreamEvents, endpoint: Endpoint, player: CassettePlayer) -> None:
        self.endpoint = endpoint
        self._events = events
        self._player = player
        self._requests = SentRequests(endpoint.base_path)
        self._answering: asyncio.Handle | None = None

    def send(self, data: bytes) -> None:
        request = self._requests.feed(data)
        if request is not None:
            # in a later turn, as over a network: whoever sends the request is not done with sending
            reply = self._player.next_reply(request)
            self._answering = asyncio.get_running_loop().call_soon(self._answer, reply)

    def _answer(self, reply: Reply | None) -> None:
        if reply is None:
            self._events.on_unavailable(_NOT_RECORDED)
        else:
            self._events.on_reply(render(reply, keep_alive=True, head_only=False))

    def abort(self) -> None:
        """Nothing more is reported."""
        if self._answering is not None:
            self._answering.cancel()

    close = abort

    def send_eof(self) -> None:
        """The answer comes all the same."""

    def pause(self, paused: bool) -> None:
        """A reply from a file is there in one piece."""
