"""The upstream of one connection, opened, throttled and dropped against a real listener."""

from __future__ import annotations

import asyncio

from tests.gateway.exchange.sockets import eventually
from tests.support import PATIENCE_S
from tests.upstream import FREE
from wirefault.core.sockets import bind, bound_address
from wirefault.gateway.endpoint import lab_endpoint
from wirefault.gateway.exchange.upstream import UpstreamLink


class Events:
    """Keeps the upstream's events."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def on_connected(self) -> None:
        self.told.append("connected")

    def on_unreachable(self, reason: str) -> None:
        self.told.append("unreachable")

    def on_reply(self, data: bytes) -> None:
        self.told.append(data)

    def on_upstream_end(self, reason: str | None) -> None:
        self.told.append("ended")

    def on_full(self, full: bool) -> None:
        if full:
            self.told.append("full")


def test_early_bytes_arrive_and_reply_waits_for_slow_client() -> None:
    async def drive() -> None:
        behind = True
        events = Events()
        link = UpstreamLink(events, 5, lambda: behind)
        with bind(FREE) as listener:
            link.open(lab_endpoint(bound_address(listener))).send(b"request")
            assert link.connecting
            await eventually(lambda: events.told)
            upstream, _ = listener.accept()
            upstream.settimeout(PATIENCE_S)
            with upstream:
                assert upstream.recv(100) == b"request"
                upstream.sendall(b"reply")
                assert events.told == ["connected"]
                behind = False
                link.throttle()
                await eventually(lambda: events.told == ["connected", b"reply"])
                link.drop()
                assert link.connection is None
                upstream.setblocking(False)
                assert await asyncio.get_running_loop().sock_recv(upstream, 100) == b""

    asyncio.run(drive())


def test_new_endpoint_opens_new_connection() -> None:
    async def drive() -> None:
        link = UpstreamLink(Events(), 5, lambda: False)
        with bind(FREE) as listener:
            address = bound_address(listener)
            first, second = lab_endpoint(address), lab_endpoint(address)
            connection = link.open(first)
            assert link.open(first) is connection
            assert link.open(second) is not connection
            link.drop()

    asyncio.run(drive())


def test_refused_connection_is_reported() -> None:
    async def drive() -> None:
        events = Events()
        with bind(FREE) as listener:
            closed = lab_endpoint(bound_address(listener))
        UpstreamLink(events, 5, lambda: False).open(closed)
        await eventually(lambda: events.told == ["unreachable"])

    asyncio.run(drive())
