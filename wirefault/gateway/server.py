"""The gateway as a whole: a listener for each link and the control API, in one event loop."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from wirefault.core.api_server import ApiServer
from wirefault.core.control_access import ControlAccess
from wirefault.core.redaction import Redaction
from wirefault.core.run_key import run_secret
from wirefault.core.sockets import LOOPBACK_ADDRESSES, LOOPBACK_HOSTS, Address, bound_address, listen
from wirefault.gateway.closed_networks import closed_networks
from wirefault.gateway.control import PUBLIC, Runs, create_app
from wirefault.gateway.endpoint import (
    LAB_BASE_PATH,
    Endpoint,
    lab_endpoint,
    model_endpoint,
    trusting_context,
    url_endpoint,
)
from wirefault.gateway.exchange.connection import ClientConnection
from wirefault.gateway.functions import FunctionArrival, FunctionCallers
from wirefault.gateway.intercept.egress import Egress, dial_policy
from wirefault.gateway.intercept.first_bytes import FirstBytes
from wirefault.gateway.kills import SubjectKills
from wirefault.gateway.lane import Lane, LinkListener, StateNotes
from wirefault.gateway.lines.connection import StdioArrival, StdioServers
from wirefault.history.logs import Logs
from wirefault.state.tables import HeldCall
from wirefault.wiring.links import SCRIPTED, Link
from wirefault.wiring.topology import Topology, own_addresses

if TYPE_CHECKING:
    from wirefault.gateway.intercept.first_bytes import InterceptedLinks

Listen = Callable[[str, Address], socket.socket]


class Gateway:
    """Serves one lane of one lab until ``stop``. ``head_timeout`` is in seconds.

    Keys in ``environ`` are removed from records. ``token``: what users of its control must show.
    """

    def __init__(
        self,
        topology: Topology,
        state_db: Path,
        logs: Path,
        *,
        token: str,
        listen: Listen = listen,
        head_timeout: float = 10,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._environ = environ or {}
        self._redaction = Redaction(self._environ, salt=token.encode())
        self._topology = topology
        self._listen = listen
        self._head_timeout = head_timeout
        self._stopping = asyncio.Event()
        self._tls: ssl.SSLContext | None = None
        self._closed = closed_networks(topology.control.host).with_servers(own_addresses(topology))
        self._state_notes = notes = StateNotes(state_db, self._release)
        self._kills = SubjectKills(state_db)
        self.lane = Lane(
            topology.lane,
            topology.links,
            hold=notes.add_call,
            kill=self._kills.start,
            on_model=partial(notes.add_model, topology.lab_id, topology.lane),
        )
        self._stdio_servers = StdioServers(topology.lab_id)
        self._callers: list[FunctionCallers] = []
        self._new_links: dict[str, tuple[Address, asyncio.Server]] = {}
        self._logs = logs
        self._logged: set[tuple[str, str]] = set()
        self._intercepted = self._new_authority() if topology.ingress is not None else None
        secret = run_secret(self._environ, token)
        runs = Runs(state_db, logs, lambda settings: model_endpoint(settings, self._context), secret)
        pem = self._intercepted.pem if self._intercepted is not None else ""
        access = ControlAccess(token, {topology.control.host}, PUBLIC)
        self._app = create_app({self.lane.number: self.lane}, runs, self.open_link, pem, access)

    def _context(self) -> ssl.SSLContext:
        """Return the context for upstreams; made on first use."""
        if self._tls is None:
            self._tls = trusting_context()
        return self._tls

    def stop(self) -> None:
        """End ``serve`` gracefully. Call it in the loop."""
        self._stopping.set()

    async def serve(self) -> None:
        """Serve until stopped. Raises ``OSError`` if an address is taken."""
        with self._sockets() as sockets:
            loop = asyncio.get_running_loop()
            servers = [
                await loop.create_server(self._protocols(link), sock=sockets[f"gateway_{link.name}"])
                for link in self._topology.links
            ]
            tunnels = self._serve_egress(sockets.get("egress"))
            api = ApiServer(self._app, self._stopping)
            serving = asyncio.ensure_future(api.serve([sockets["control"]]))
            await self._stopping.wait()
            for server in (*servers, *(server for _, server in self._new_links.values())):
                server.close()
            if tunnels is not None:
                tunnels.cancel()
            self.lane.close("the gateway was stopped")
            self._stdio_servers.close()
            for callers in self._callers:
                callers.close()
            self._kills.stop()
            self._state_notes.close()
            await serving

    def _release(self, call: HeldCall, failure: str) -> None:
        """Release a call that the manager cannot learn of. Its toxics are wrong: the lane is unfit."""
        run, attempt = self.lane.run, self.lane.attempt
        if run is not None and attempt is not None and run.run_id == call.run_id:
            run.failure = run.failure or failure
            if attempt.is_(call.episode, call.attempt):
                attempt.call_holds.release(call.link, call.call)

    def _serve_egress(self, listener: socket.socket | None) -> asyncio.Task[None] | None:
        """Serve the egress of the ingress, if there is one."""
        if listener is None:
            return None
        egress = Egress(dial_policy(self._topology), self._closed)
        return asyncio.ensure_future(egress.serve(listener))

    async def open_link(self, link: Link) -> Address:
        """Listen for a link that was found; return the address. Idempotent. Raises ``OSError``.

        Raises ``ValueError`` for a bad address, and if an armed fault is not allowed on its server.
        """
        if link.name not in self._new_links:
            protocols = self._protocols(link)
            # on the control's host, which the proxies can dial wherever the gateway runs
            host = self._topology.control.host
            listener = listen(f"gateway_{link.name}", Address(host, 0), self._environ)
            try:
                self.lane.add_link(link)
                server = await asyncio.get_running_loop().create_server(protocols, sock=listener)
            except BaseException:
                listener.close()
                raise
            self._new_links[link.name] = (Address(host, bound_address(listener).port), server)
        return self._new_links[link.name][0]

    @contextmanager
    def _sockets(self) -> Iterator[dict[str, socket.socket]]:
        addresses = {f"gateway_{name}": address for name, address in self._topology.gateways.items()}
        addresses["control"] = self._topology.control
        if self._topology.egress is not None:
            addresses["egress"] = self._topology.egress
        with ExitStack() as stack:
            listeners = {
                name: stack.enter_context(self._listen(name, address)) for name, address in addresses.items()
            }
            yield listeners

    def _protocols(self, link: Link) -> Callable[[], asyncio.Protocol]:
        """Return the factory of protocols for connections to that link."""
        listener = LinkListener(
            link, self.lane, self._endpoint(link), self._head_timeout, redaction=self._redaction
        )
        if link.is_stdio:
            return partial(StdioArrival, listener, self._stdio_servers)
        if link.is_in_process:
            callers = FunctionCallers()
            self._callers.append(callers)
            listener = replace(listener, endpoint=replace(listener.endpoint, opener=callers.open))
            return partial(FunctionArrival, listener, callers)
        if self._intercepted is not None:
            return self._intercepted.protocols(listener)
        if link.is_of_lab and not link.takes_model:
            return partial(ClientConnection, listener)
        return partial(FirstBytes, listener, None, self._log_once)

    def _new_authority(self) -> InterceptedLinks:
        # cryptography is slow to import, and most gateways intercept nothing
        from wirefault.gateway.intercept.certificate_authority import Authority
        from wirefault.gateway.intercept.first_bytes import InterceptedLinks

        return InterceptedLinks(Authority(lambda: datetime.now(UTC)), self._log_once)

    def _log_once(self, message: str) -> None:
        """Write a line into info.log, once in a run."""
        run_id = self.lane.run.run_id if self.lane.run is not None else ""
        if (run_id, message) in self._logged:
            return
        self._logged.add((run_id, message))
        with suppress(OSError):  # a failing log must not end a connection; the run reports it
            logs = Logs(self._logs, run_id)
            logs.line("warning", message)
            logs.close()

    def _endpoint(self, link: Link) -> Endpoint:
        if link.is_stdio:
            return Endpoint("", 0, b"stdio", is_lab=False)  # each message gets its own endpoint
        if link.is_in_process:
            return Endpoint("", 0, b"the process", is_lab=False)
        if not link.is_of_lab:
            # the subject's address includes the upstream's path: paths are not rewritten
            endpoint = replace(url_endpoint(link.upstream, self._context), base_path=None)
            if link.found and endpoint.host in LOOPBACK_HOSTS:  # its clients use all of them
                others = tuple(host for host in LOOPBACK_ADDRESSES if host != endpoint.host)
                endpoint = replace(endpoint, other_hosts=others, keeps_host=True)
            return replace(endpoint, closed=self._closed) if link.found else endpoint
        if link.upstream == SCRIPTED:
            return lab_endpoint(self._topology.scripted, LAB_BASE_PATH)
        return lab_endpoint(self._topology.services[link.name])
