"""The ingress: accepts intercepted connections and joins each to the route that the router finds."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Literal

from wirefault.core.control_access import has_token
from wirefault.core.sockets import plain_host
from wirefault.gateway.http1.heads import BadHead
from wirefault.gateway.intercept.arrival import (
    SETTLED_REPLY,
    Arrival,
    ProxyRequest,
    RequestKind,
    RequestRewriter,
    proxy_refusal,
)
from wirefault.gateway.intercept.egress import read_first_request
from wirefault.gateway.intercept.lane_state import ArmedAttempt, IngressHistory, LaneState
from wirefault.gateway.intercept.pipes import PipeServer, pipe_server_in
from wirefault.gateway.intercept.router import Refused, Route, Router
from wirefault.gateway.intercept.splice import TLS_RECORD, Splice, Transfer, accept_all
from wirefault.gateway.intercept.unresolved import UnresolvedName, UnresolvedNames
from wirefault.history.events import ConnectionEnded, WentPastLab
from wirefault.settings.settings import SettingsError

_LEFT_BOUND_S = 2.0


@dataclass(eq=False)
class OpenConnection:
    """A connection in progress."""

    arrival: Arrival
    route: Route | Refused
    transfer: Transfer
    # in progress when the connection came, if one was
    attempt: ArmedAttempt | None
    # set once its record is being written
    record: asyncio.Future[None] | None = None

    def as_event(self, attempt: ArmedAttempt, ended: float) -> ConnectionEnded:
        """Return its record; ``ended`` is a time of ``time.perf_counter``."""
        arrival, transfer, route = self.arrival, self.transfer, self.route
        began = arrival.first_sent or transfer.first_sent or arrival.began
        first, last = transfer.first_received, transfer.last_received
        return ConnectionEnded(
            t=time.time(),
            link=route.link,
            episode=attempt.episode,
            attempt=attempt.attempt,
            opened=arrival.opened,
            ms=(ended - began) * 1000,
            first_byte_ms=None if first is None else max(first - began, 0.0) * 1000,
            last_byte_ms=None if last is None else max(last - began, 0.0) * 1000,
            sent=transfer.up_bytes,
            received=transfer.down_bytes,
            ended_by=transfer.ended_by,
            how=transfer.how,
            tls=transfer.tls,
            host=arrival.host,
            port=arrival.port,
            tap=arrival.tap,
            tunnelled=isinstance(route, Route) and route.tunnelled,
            why=route.why,
            lab_failed=isinstance(route, Refused) and route.lab_failed,
        )


def _past_lab(ended: ConnectionEnded, *, only_http2: bool) -> WentPastLab:
    """Return the event that counts a tunnelled connection as one past the lab."""
    return WentPastLab(
        t=ended.t,
        episode=ended.episode,
        attempt=ended.attempt,
        host=ended.host,
        port=ended.port,
        protocol="tcp",
        program="the subject",
        count=1,
        only_http2=only_http2,
        sent=ended.sent,
        received=ended.received,
    )


def refused_transfer(arrival: Arrival, refused: Refused) -> Transfer:
    """Return the transfer of a connection that was refused, or never accepted."""
    is_tls = arrival.early[:1] == TLS_RECORD
    ended_by: Literal["client", "proxy"] = "client" if refused.how == "unaccepted" else "proxy"
    return Transfer(up_bytes=len(arrival.early), ended_by=ended_by, how=refused.how, tls=is_tls)


def _unresolved(name: UnresolvedName, attempt: ArmedAttempt, now: float) -> ConnectionEnded:
    """Return the event of a connection that was not made, because its name did not resolve."""
    return ConnectionEnded(
        t=now,
        link=name.link,
        episode=attempt.episode,
        attempt=attempt.attempt,
        opened=now,
        ms=0.0,
        first_byte_ms=None,
        sent=0,
        received=0,
        ended_by="proxy",
        how="unresolved",
        tls=False,
        host=name.host,
        port=name.port,
        tap="namespace",
    )


class Ingress:
    """The ingress of one lane. A connection belongs to the attempt that was in progress when it came.

    The client gets no reply and no refusal before that attempt is known, since either could end the attempt.
    """

    def __init__(
        self,
        router: Router,
        state: LaneState,
        history: IngressHistory,
        token: str,
        unresolved: UnresolvedNames | None = None,
    ) -> None:
        self._token = token
        self._unresolved = unresolved
        self._router = router
        self._state = state
        self._history = history
        self._open: set[OpenConnection] = set()
        # connections whose link's proxy has not accepted yet, and the tasks that carry them
        self._dialling: dict[Arrival, asyncio.Task[object]] = {}

    async def serve_proxy(self, listener: socket.socket) -> None:
        """Serve clients of the proxy tap until cancelled."""
        await accept_all(listener, self._serve_proxy_client)

    async def take(self, client: socket.socket, host: str, port: int) -> None:
        """Serve a connection that the namespace tap redirected on its way to ``host``; no byte of it was
        read.
        """
        client.setblocking(False)
        pipe = pipe_server_in(host)
        if pipe is not None:
            await self._carry_pipe(client, pipe, port)
        else:
            await self._carry(Arrival(client, host, port, "namespace"))

    async def _carry_pipe(self, client: socket.socket, pipe: PipeServer, port: int) -> None:
        """Join the shim of an MCP server to its link; the gateway records its messages."""
        try:
            server = await self._router.dial_pipe(pipe, port)
        except OSError:
            client.close()
            return
        splice = Splice()
        try:
            await splice.attach(client)
        except OSError:  # the shim is gone
            client.close()
            server.close()
            return
        await splice.join(server)

    async def dns_code(self, name: str, *, record: bool) -> int:
        """Return the DNS code with which a query for the name must fail, 0 if it resolves.

        A failure is recorded before the client gets it, which may end its attempt.
        """
        attempt = await self._attempt()
        failing = await self._unresolved.find(name, attempt) if self._unresolved else None
        if failing is None or attempt is None:
            return 0
        if record:
            await self._history.record(attempt, _unresolved(failing, attempt, time.time()))
        return failing.code

    async def _check_name(self, arrival: Arrival, attempt: asyncio.Future[ArmedAttempt | None]) -> None:
        """Raise ``Refused`` if a proxy could not resolve the name that the client sent it."""
        if arrival.tap == "proxy" and self._unresolved:
            failing = await self._unresolved.find(plain_host(arrival.host), await attempt)
            if failing:
                message = f"{arrival.host} cannot be resolved"
                raise Refused(502, message, failing.link, how="unresolved")

    async def settle(self) -> None:
        """Record what connections of finished attempts have carried so far; they continue unrecorded."""
        left = [task for arrival, task in self._dialling.items() if arrival.has_left]
        if left:
            await asyncio.wait(left, timeout=_LEFT_BOUND_S)
        now = await self._attempt()
        for connection in tuple(self._open):
            if connection.attempt not in (None, now):
                await self._recorded(connection)

    async def _serve_proxy_client(self, client: socket.socket) -> None:
        try:
            request, rest = await read_first_request(client)
        except BadHead as error:
            await _send_and_close(client, proxy_refusal(error.status, str(error)))
            return
        except OSError:  # the client disconnected
            client.close()
            return
        if request.kind is RequestKind.REQUEST:
            await self._carry_requests(client, request, rest)
        elif request.kind is RequestKind.SETTLE:
            if has_token(request.head.decode(), self._token):
                await self.settle()
                await _send_and_close(client, SETTLED_REPLY)
            else:
                await _send_and_close(client, proxy_refusal(403, "only the lab's manager may settle"))
        else:
            target = request.target
            arrival = Arrival(client, target.host, target.port, "proxy", request.kind, rest)
            arrival.first_sent = arrival.began if rest else None
            await self._carry(arrival)

    async def _carry(self, arrival: Arrival) -> None:
        attempt = asyncio.ensure_future(self._attempt())
        try:
            with self._noted(arrival):
                await self._check_name(arrival, attempt)
                route = await self._router.route(arrival)
        except Refused as refused:
            transfer = refused_transfer(arrival, refused)
            connection = OpenConnection(arrival, refused, transfer, await attempt)
            self._open.add(connection)  # before the client gets the reply, which may end its attempt
            await arrival.refuse(refused.status, str(refused))
            await self._conclude(connection)
            return
        except OSError:  # the client disconnected before anything was dialled
            arrival.client.close()
            return
        splice = Splice()
        try:
            await arrival.accept()
            await splice.attach(arrival.client)
        except OSError:  # the client disconnected
            arrival.client.close()
            route.server.close()
            return
        await self._join(splice, arrival, route, await attempt, lambda: arrival.early)

    @contextmanager
    def _noted(self, arrival: Arrival) -> Iterator[None]:
        """Note the connection for ``settle`` while it is routed."""
        task = asyncio.current_task()
        assert task is not None
        self._dialling[arrival] = task
        try:
            yield
        finally:
            del self._dialling[arrival]

    async def _carry_requests(self, client: socket.socket, first: ProxyRequest, rest: bytes) -> None:
        """Serve requests in absolute form, to one server after another."""

        rewriter = RequestRewriter(first, rest, lambda: splice.leave_server(), lambda: splice.hold_client())
        splice = Splice(rewriter.feed, rewriter.follow_replies)
        try:
            await splice.attach(client)
        except OSError:  # the client disconnected
            client.close()
            return
        while rewriter.next is not None:
            target = rewriter.next.target
            arrival = Arrival(client, target.host, target.port, "proxy", RequestKind.REQUEST)
            arrival.first_sent = arrival.began
            attempt = asyncio.ensure_future(self._attempt())
            try:
                with self._noted(arrival):
                    await self._check_name(arrival, attempt)
                    route = await self._router.route(arrival)
            except Refused as refused:
                transfer = refused_transfer(arrival, refused)
                connection = OpenConnection(arrival, refused, transfer, await attempt)
                splice.send_down(proxy_refusal(refused.status, str(refused)))
                splice.close()
                await self._conclude(connection)
                return
            transfer = await self._join(splice, arrival, route, await attempt, rewriter.begin)
            if not transfer.switched:
                return
        if rewriter.bad is not None:
            splice.send_down(proxy_refusal(rewriter.bad.status, str(rewriter.bad)))
        splice.close()

    async def _join(
        self,
        splice: Splice,
        arrival: Arrival,
        route: Route,
        attempt: ArmedAttempt | None,
        early: Callable[[], bytes],
    ) -> Transfer:
        """Join the client to the server until either ends, and record it."""
        connection = OpenConnection(arrival, route, Transfer(), attempt)
        self._open.add(connection)
        await splice.join(route.server, early, connection.transfer)
        await self._conclude(connection)
        return connection.transfer

    async def _conclude(self, connection: OpenConnection) -> None:
        """Finish the record; an attempt is settled only when that is on disk."""
        self._open.add(connection)
        await self._recorded(connection)
        self._open.discard(connection)

    def _recorded(self, connection: OpenConnection) -> asyncio.Future[None]:
        """Return a future that is done when the connection, as it is at the first call, is on disk."""
        if connection.record is None:
            connection.record = asyncio.ensure_future(self._record(connection))
        return connection.record

    async def _attempt(self) -> ArmedAttempt | None:
        try:
            return await self._state.attempt()
        except (sqlite3.Error, SettingsError, OSError):  # the manager and the runner report it
            return None

    async def _record(self, connection: OpenConnection) -> None:
        route = connection.route
        if connection.attempt is not None and not (isinstance(route, Route) and route.unrecorded):
            event = connection.as_event(connection.attempt, time.perf_counter())
            await self._history.record(connection.attempt, event)
            if isinstance(route, Route) and (route.unlinked or route.only_http2):
                past = _past_lab(event, only_http2=route.only_http2)
                await self._history.record(connection.attempt, past)


async def _send_and_close(client: socket.socket, reply: bytes) -> None:
    with client, suppress(OSError):  # the client disconnected
        await asyncio.get_running_loop().sock_sendall(client, reply)
