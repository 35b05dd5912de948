"""The front: takes a subject's connections, however they were caught, and carries each where it belongs."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
import time
from contextlib import suppress

from windtunnel.gateway.http1.heads import BadHead
from windtunnel.gateway.intercept.accepting import accept_all
from windtunnel.gateway.intercept.arrival import Arrival
from windtunnel.gateway.intercept.egress import read_first_request
from windtunnel.gateway.intercept.first_bytes import TLS_RECORD
from windtunnel.gateway.intercept.front_history import FrontHistory
from windtunnel.gateway.intercept.guide import Guide, Refused, Road
from windtunnel.gateway.intercept.lane_state import ArmedAttempt, LaneState
from windtunnel.gateway.intercept.proxy_requests import Asked, ProxyRequest, RequestRewriter, proxy_refusal
from windtunnel.gateway.intercept.splice import Carried, Splice
from windtunnel.history.events import ConnectionEnded
from windtunnel.settings.settings import SettingsError

Attempt = asyncio.Future[ArmedAttempt | None]


class Front:
    """That of one lane. A connection belongs to the attempt that was in progress when it came."""

    def __init__(self, guide: Guide, state: LaneState, history: FrontHistory) -> None:
        self._guide = guide
        self._state = state
        self._history = history

    async def serve_proxy(self, listener: socket.socket) -> None:
        """Is the proxy of clients that were told of one, until it is cancelled."""
        await accept_all(listener, self._serve_proxy_client)

    async def take(self, client: socket.socket, host: str, port: int) -> None:
        """Carries a connection that was caught on its way to there, none of its bytes read; until it ends."""
        client.setblocking(False)
        await self._carry(Arrival(client, host, port, "namespace"))

    async def _serve_proxy_client(self, client: socket.socket) -> None:
        try:
            request, rest = await read_first_request(client)
        except BadHead as error:
            with client, suppress(OSError):  # it has left
                await asyncio.get_running_loop().sock_sendall(client, proxy_refusal(error.status, str(error)))
            return
        except OSError:  # it has left
            client.close()
            return
        if request.asked is Asked.REQUEST:
            await self._carry_requests(client, request, rest)
            return
        arrival = Arrival(client, request.target.host, request.target.port, "proxy", request.asked, rest)
        arrival.first_sent = arrival.began if rest else None
        await self._carry(arrival)

    async def _carry(self, arrival: Arrival) -> None:
        attempt = asyncio.ensure_future(self._attempt())
        try:
            road = await self._guide.lead(arrival)
        except Refused as refused:
            await arrival.refuse(refused.status, str(refused))
            await self._record(arrival, refused, _nothing_of(arrival), attempt)
            return
        except OSError:  # it has left, before anything was dialled for it
            arrival.client.close()
            return
        with suppress(OSError):  # it has left: the splice sees to that
            await arrival.accept()
        splice = Splice()
        await splice.attach(arrival.client)
        carried = await splice.join(road.server, lambda: arrival.early)
        await self._record(arrival, road, carried, attempt)

    async def _carry_requests(self, client: socket.socket, first: ProxyRequest, rest: bytes) -> None:
        """Carries the requests that name their whole address, to one server after the other."""

        def leave() -> None:
            splice.leave_server()

        rewriter = RequestRewriter(first, rest, leave)
        splice = Splice(rewriter.feed)
        await splice.attach(client)
        while rewriter.next is not None:
            target = rewriter.next.target
            arrival = Arrival(client, target.host, target.port, "proxy", Asked.REQUEST)
            arrival.first_sent = arrival.began
            attempt = asyncio.ensure_future(self._attempt())
            try:
                road = await self._guide.lead(arrival)
            except Refused as refused:
                splice.send_down(proxy_refusal(refused.status, str(refused)))
                splice.close()
                await self._record(arrival, refused, _nothing_of(arrival), attempt)
                return
            carried = await splice.join(road.server, rewriter.begin)
            await self._record(arrival, road, carried, attempt)
            if not carried.switched:
                return
        if rewriter.bad is not None:
            splice.send_down(proxy_refusal(rewriter.bad.status, str(rewriter.bad)))
        splice.close()

    async def _attempt(self) -> ArmedAttempt | None:
        try:
            return await self._state.attempt()
        except (sqlite3.Error, SettingsError, OSError):  # the manager and the runner tell of it
            return None

    async def _record(
        self, arrival: Arrival, led: Road | Refused, carried: Carried, attempt: Attempt
    ) -> None:
        began, ended = arrival.first_sent or carried.first_sent or arrival.began, time.perf_counter()
        first = carried.first_received
        of = await attempt
        if of is None:
            return
        record = ConnectionEnded(
            t=time.time(),
            link=led.link,
            episode=of.episode,
            attempt=of.attempt,
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
        )
        await self._history.record(of, record)


def _nothing_of(arrival: Arrival) -> Carried:
    """What went through of a connection that was refused."""
    is_tls = arrival.early[:1] == TLS_RECORD
    return Carried(sent=len(arrival.early), ended_by="proxy", how="refused", tls=is_tls)
