"""The ingress: takes a subject's connections, however they were caught, and carries each where it belongs."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from wirefault.gateway.http1.heads import BadHead
from wirefault.gateway.intercept.arrival import (
    SETTLED,
    Arrival,
    Asked,
    ProxyRequest,
    RequestRewriter,
    proxy_refusal,
)
from wirefault.gateway.intercept.egress import read_first_request
from wirefault.gateway.intercept.lane_state import ArmedAttempt, IngressHistory, LaneState
from wirefault.gateway.intercept.router import Guide, Refused, Road
from wirefault.gateway.intercept.splice import TLS_RECORD, Carried, Splice, accept_all
from wirefault.history.events import ConnectionEnded
from wirefault.settings.settings import SettingsError


@dataclass(eq=False)
class Passage:
    """``led``: where to. ``attempt``: in progress when it came, if one was. ``record``: once it is made."""

    arrival: Arrival
    led: Road | Refused
    carried: Carried
    attempt: ArmedAttempt | None
    record: asyncio.Future[None] | None = None

    def as_event(self, attempt: ArmedAttempt, ended: float) -> ConnectionEnded:
        """``ended`` as ``time.perf_counter`` gives it."""
        arrival, carried, led = self.arrival, self.carried, self.led
        began = arrival.first_sent or carried.first_sent or arrival.began
        first = carried.first_received
        return ConnectionEnded(
            t=time.time(),
            link=led.link,
            episode=attempt.episode,
            attempt=attempt.attempt,
            opened=arrival.opened,
            ms=(ended - began) * 1000,
            first_byte_ms=None if first is None else max(first - began, 0.0) * 1000,
            sent=carried.sent,
            received=carried.received,
            ended_by=carried.ended_by,
            how=carried.how,
            tls=carried.tls,
            host=arrival.host,
            port=arrival.port,
            way=arrival.way,
            tunnelled=isinstance(led, Road) and led.tunnelled,
            why=led.why,
            lab_failed=isinstance(led, Refused) and led.lab_failed,
        )


def nothing_of(arrival: Arrival) -> Carried:
    """What went through of a connection that was refused."""
    is_tls = arrival.early[:1] == TLS_RECORD
    return Carried(sent=len(arrival.early), ended_by="proxy", how="refused", tls=is_tls)


class Ingress:
    """That of one lane. A connection belongs to the attempt that was in progress when it came.

    No reply and no refusal reaches its client before that is known: whoever got one may end the attempt.
    """

    def __init__(self, guide: Guide, state: LaneState, history: IngressHistory) -> None:
        self._guide = guide
        self._state = state
        self._history = history
        self._open: set[Passage] = set()

    async def serve_proxy(self, listener: socket.socket) -> None:
        """Is the proxy of clients that were told of one, until it is cancelled."""
        await accept_all(listener, self._serve_proxy_client)

    async def take(self, client: socket.socket, host: str, port: int) -> None:
        """Carries a connection that was caught on its way to there, none of its bytes read; until it ends."""
        client.setblocking(False)
        await self._carry(Arrival(client, host, port, "namespace"))

    async def settle(self) -> None:
        """Records what connections of attempts that are over have carried so far; they go on unrecorded."""
        now = await self._attempt()
        for passage in tuple(self._open):
            if passage.attempt not in (None, now):
                await self._recorded(passage)

    async def _serve_proxy_client(self, client: socket.socket) -> None:
        try:
            request, rest = await read_first_request(client)
        except BadHead as error:
            await _answer(client, proxy_refusal(error.status, str(error)))
            return
        except OSError:  # it has left
            client.close()
            return
        if request.asked is Asked.REQUEST:
            await self._carry_requests(client, request, rest)
        elif request.asked is Asked.SETTLE:
            await self.settle()
            await _answer(client, SETTLED)
        else:
            target = request.target
            arrival = Arrival(client, target.host, target.port, "proxy", request.asked, rest)
            arrival.first_sent = arrival.began if rest else None
            await self._carry(arrival)

    async def _carry(self, arrival: Arrival) -> None:
        attempt = asyncio.ensure_future(self._attempt())
        try:
            road = await self._guide.lead(arrival)
        except Refused as refused:
            passage = Passage(arrival, refused, nothing_of(arrival), await attempt)
            self._open.add(passage)  # before the client knows: its attempt may end as soon as it does
            await arrival.refuse(refused.status, str(refused))
            await self._conclude(passage)
            return
        except OSError:  # it has left, before anything was dialled for it
            arrival.client.close()
            return
        splice = Splice()
        try:
            await arrival.accept()
            await splice.attach(arrival.client)
        except OSError:  # it has left
            arrival.client.close()
            road.server.close()
            return
        await self._join(splice, arrival, road, await attempt, lambda: arrival.early)

    async def _carry_requests(self, client: socket.socket, first: ProxyRequest, rest: bytes) -> None:
        """Carries the requests that name their whole address, to one server after the other."""

        def leave() -> None:
            splice.leave_server()

        rewriter = RequestRewriter(first, rest, leave)
        splice = Splice(rewriter.feed)
        try:
            await splice.attach(client)
        except OSError:  # it has left
            client.close()
            return
        while rewriter.next is not None:
            target = rewriter.next.target
            arrival = Arrival(client, target.host, target.port, "proxy", Asked.REQUEST)
            arrival.first_sent = arrival.began
            attempt = asyncio.ensure_future(self._attempt())
            try:
                road = await self._guide.lead(arrival)
            except Refused as refused:
                passage = Passage(arrival, refused, nothing_of(arrival), await attempt)
                splice.send_down(proxy_refusal(refused.status, str(refused)))
                splice.close()
                await self._conclude(passage)
                return
            carried = await self._join(splice, arrival, road, await attempt, rewriter.begin)
            if not carried.switched:
                return
        if rewriter.bad is not None:
            splice.send_down(proxy_refusal(rewriter.bad.status, str(rewriter.bad)))
        splice.close()

    async def _join(
        self,
        splice: Splice,
        arrival: Arrival,
        road: Road,
        attempt: ArmedAttempt | None,
        early: Callable[[], bytes],
    ) -> Carried:
        """Carries the client's connection to the server, and sees to its record."""
        passage = Passage(arrival, road, Carried(), attempt)
        self._open.add(passage)
        await splice.join(road.server, early, passage.carried)
        await self._conclude(passage)
        return passage.carried

    async def _conclude(self, passage: Passage) -> None:
        """The connection is over; an attempt is settled only when that is on the disk."""
        self._open.add(passage)
        await self._recorded(passage)
        self._open.discard(passage)

    def _recorded(self, passage: Passage) -> asyncio.Future[None]:
        """Done when the passage is on the disk, as it stands when this is called for the first time."""
        if passage.record is None:
            passage.record = asyncio.ensure_future(self._record(passage))
        return passage.record

    async def _attempt(self) -> ArmedAttempt | None:
        try:
            return await self._state.attempt()
        except (sqlite3.Error, SettingsError, OSError):  # the manager and the runner tell of it
            return None

    async def _record(self, passage: Passage) -> None:
        if passage.attempt is not None:
            event = passage.as_event(passage.attempt, time.perf_counter())
            await self._history.record(passage.attempt, event)


async def _answer(client: socket.socket, reply: bytes) -> None:
    with client, suppress(OSError):  # it has left
        await asyncio.get_running_loop().sock_sendall(client, reply)
