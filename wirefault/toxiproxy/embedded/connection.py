"""One accepted connection: the client's end, the upstream's end, and a link in each direction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import cast

from wirefault.toxiproxy.embedded.listening import split_host_port
from wirefault.toxiproxy.embedded.toxic_collection import ToxicCollection
from wirefault.toxiproxy.embedded.toxic_link import ToxicLink


class ConnectionEnd(asyncio.Protocol):
    """One end of a connection: feeds the link that starts here, and paces the one that ends here."""

    def __init__(self, on_made: Callable[[], None], on_lost: Callable[[], None]) -> None:
        self._on_made = on_made
        self._on_lost = on_lost
        self._early: bytes = b""
        self._ended = False
        self._outgoing: ToxicLink | None = None
        self._incoming: ToxicLink | None = None
        self.transport: asyncio.Transport
        self.lost = False
        self._made = self._aborted = False

    def join(self, outgoing: ToxicLink, incoming: ToxicLink) -> None:
        """Starts both links; the data that came in before goes first."""
        self._outgoing, self._incoming = outgoing, incoming
        if self._early:
            outgoing.receive(self._early)
            self._early = b""
        if self._ended:
            outgoing.end()
        elif not self.transport.is_closing():
            self.transport.resume_reading()

    def abort(self) -> None:
        """Closes this end at once; where the event loop has yet to make its transport, as soon as it has."""
        self._aborted = True
        if self._made:
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._made = True
        if self._aborted:
            self.transport.abort()
        else:
            self._on_made()

    def data_received(self, data: bytes) -> None:
        if self._outgoing is not None:
            self._outgoing.receive(data)
        else:
            self._early += data
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        self._ended = True
        if self._outgoing is not None:
            self._outgoing.end()
        return True  # keeps the transport open: the link closes it once all is delivered

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = self._ended = True
        if self._incoming is not None:
            self._incoming.kill()
        if self._outgoing is not None:
            self._outgoing.end()
        self._on_lost()

    def pause_writing(self) -> None:
        if self._incoming is not None:
            self._incoming.block()

    def resume_writing(self) -> None:
        if self._incoming is not None:
            self._incoming.unblock()


class ProxyConnection:
    """Dials the upstream for an accepted client, and joins the two under the proxy's toxics."""

    def __init__(
        self,
        upstream: str,
        toxics: ToxicCollection,
        count: Callable[[str, str, int], None],
        on_end: Callable[[ProxyConnection], None],
    ) -> None:
        self.client = ConnectionEnd(self._accepted, self._end_lost)
        self._upstream: ConnectionEnd | None = None
        self._address = upstream
        self._toxics = toxics
        self._count = count
        self._on_end = on_end
        self._links: tuple[tuple[str, ToxicLink], ...] = ()
        self._dialling: asyncio.Task[None] | None = None

    def abort(self) -> None:
        """Closes both ends at once."""
        for end in (self.client, self._upstream):
            if end is not None:
                end.abort()

    def _accepted(self) -> None:
        self._dialling = asyncio.get_running_loop().create_task(self._open())

    async def _open(self) -> None:
        """Dials the upstream. If it does not answer, the client's end is closed."""
        loop = asyncio.get_running_loop()
        try:
            host, port = split_host_port(self._address)
            dialled = await loop.create_connection(
                lambda: ConnectionEnd(lambda: None, self._end_lost), host, port
            )
        except (OSError, ValueError):
            self.client.transport.close()
            return
        self._upstream = dialled[1]
        if self.client.transport.is_closing():
            self.abort()
        else:
            self._join(loop, self.client, self._upstream)

    def _join(self, loop: asyncio.AbstractEventLoop, client: ConnectionEnd, upstream: ConnectionEnd) -> None:
        near, far = client.transport, upstream.transport
        for toxic in self._toxics:
            toxic.definition.on_accept((near.get_extra_info("socket"), far.get_extra_info("socket")))

        def link(stream: str, source: asyncio.Transport, destination: asyncio.Transport) -> ToxicLink:
            count = partial(self._count, stream)
            return ToxicLink(loop, source, destination, self._toxics.chain(stream), count)

        up, down = link("upstream", near, far), link("downstream", far, near)
        self._links = (("upstream", up), ("downstream", down))
        for stream, opened in self._links:
            self._toxics.open(stream, opened)
        client.join(outgoing=up, incoming=down)
        upstream.join(outgoing=down, incoming=up)

    def _end_lost(self) -> None:
        """Ends the links and the connection once both ends are gone."""
        if self.client.lost and (self._upstream is None or self._upstream.lost):
            for stream, link in self._links:
                self._toxics.close(stream, link)
                link.kill()
            self._on_end(self)
