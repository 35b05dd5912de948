"""A gateway on free ports in its own thread, and a raw client."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import threading
import traceback
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast
from unittest.mock import patch

import requests
import uvloop

from tests.gateway.secure_socket import SecureSocket
from tests.support import PATIENCE_S, until
from tests.upstream import FREE, read_all
from wirefault.core.control_access import bearer
from wirefault.core.identity import Identity
from wirefault.core.run_key import derive_run_key
from wirefault.core.sockets import Address, bind, bound_address
from wirefault.gateway.server import Gateway
from wirefault.history.events import ConnectionUnanswered, Exchange
from wirefault.history.reader import read_file
from wirefault.history.writer import history_file
from wirefault.settings.settings import Settings
from wirefault.state.state import State
from wirefault.wiring.links import Links, lab_links
from wirefault.wiring.topology import Topology, default_topology

TOKEN = "token-of-the-test"

TRANSPORT: ContextVar[Literal["plain", "tls"]] = ContextVar("transport", default="plain")


@dataclass(frozen=True)
class SecureAddress(Address):
    """A link dialled over TLS that trusts that authority only."""

    pem: str = ""

    @property
    def url(self) -> str:
        return f"https://{self}"


class Lab:
    """One gateway whose upstreams are the given addresses; ``begin`` arms an attempt on its lane."""

    def __init__(self, folder: Path, topology: Topology) -> None:
        self.folder = folder
        self.topology = topology
        self.runs = 0
        self.run_id = ""
        self.pem = ""
        self.settings = Settings(seed=1, error_prob=0)

    def address(self, link: str) -> Address:
        """The address of that link: for TLS if the gateway intercepts."""
        plain = self.topology.gateways[link]
        return SecureAddress(plain.host, plain.port, self.pem) if self.pem else plain

    def url(self, link: str, path: str = "/") -> str:
        return self.address(link).url + path

    def control(self, method: str, path: str, body: Any = None) -> requests.Response:
        url = self.topology.control.url + path
        return requests.request(method, url, json=body, headers=bearer(TOKEN), timeout=PATIENCE_S)

    def new_run(self, **settings: Any) -> dict[str, Any]:
        """Insert a run with these settings; return the body of the PUT for its first attempt."""
        self.runs += 1
        self.run_id = f"run-{self.runs}"
        values = {"seed": 1, "error_prob": 0, **settings}
        self.settings = Settings.model_validate(values, context={"links": self.topology.links})
        with State(self.folder / "state.db") as state:
            dumped, hashed = self.settings.dump(), self.settings.hash
            state.insert_run(self.run_id, "lab", 0, dumped, hashed, self.settings.seed, 1.0)
        return {"run_id": self.run_id, "episode": "e1", "attempt": 1, "settings_hash": hashed}

    def begin(self, **settings: Any) -> None:
        """Begin a new run and its first attempt: episode e1, attempt 1."""
        assert self.control("PUT", "/lanes/0", self.new_run(**settings)).status_code == 200

    def settle(self, bound_s: float = 2, episode: str = "e1", attempt: int = 1) -> dict[str, Any]:
        body = {"episode": episode, "attempt": attempt, "bound_s": bound_s}
        return self.control("POST", "/lanes/0/settle", body).json()

    def identity(self, link: str = "search", *, signed: bool = True, **changes: Any) -> dict[str, str]:
        """The headers of a try in this run's first attempt; signed as by the lab's own agent."""
        fields = {"run": self.run_id, "episode": "e1", "attempt": 1, "call": 1, "try_": 1, **changes}
        return Identity(**fields).headers(link, key=self.key if signed else b"")

    @property
    def key(self) -> bytes:
        """The run's key."""
        return derive_run_key(TOKEN, self.run_id)

    def recorded(self) -> list[Any]:
        """The run's history so far."""
        return list(read_file(history_file(self.folder / "logs", self.run_id, "gateway", 0)))

    def exchanges(self, count: int = 1) -> list[Exchange]:
        """The run's history without connections that ended unanswered, once it has that many events."""

        def of_requests() -> list[Exchange]:
            return [event for event in self.recorded() if not isinstance(event, ConnectionUnanswered)]

        return until(lambda: len(records := of_requests()) >= count and records, f"{count} exchanges")

    def exchange(self, count: int = 1) -> Exchange:
        """The request that began last of at least ``count``: they are recorded in the order of their ends."""
        return max(self.exchanges(count), key=lambda event: getattr(event, "start", 0.0))


def _message_of(context: dict[str, Any]) -> str:
    error = context.get("exception")
    return "".join(traceback.format_exception(error)) if error else str(context)


@contextmanager
def trusted(lab: Lab) -> Iterator[None]:
    """The clients of this process trust the gateway's authority."""
    lab.pem = lab.control("GET", "/authority").json()["pem"]
    bundle = lab.folder / "authority.pem"
    bundle.write_text(lab.pem, encoding="ascii")
    with patch.dict(os.environ, REQUESTS_CA_BUNDLE=str(bundle)):
        yield


@contextmanager
def gateway(
    folder: Path,
    *,
    model: Address | None = None,
    head_timeout: float = PATIENCE_S,
    links: Links | None = None,
    intercepts: bool | None = None,
    wiring: Mapping[str, Any] | None = None,
    run: Callable[[Coroutine[Any, Any, None]], None] = uvloop.run,
    **upstreams: Address,
) -> Iterator[Lab]:
    """A running gateway; links without an upstream get one that refuses connections.

    ``intercepts``: its links are for TLS; by default the test's ``transport`` decides. ``run`` runs its loop.
    """
    intercepts = TRANSPORT.get() == "tls" if intercepts is None else intercepts
    links = lab_links() if links is None else links
    sockets = {name: bind(FREE) for name in [*(f"gateway_{link.name}" for link in links), "control"]}
    closed = bind(FREE)
    refused = bound_address(closed)
    closed.close()
    base = default_topology("lab")
    services = dict.fromkeys(base.services, refused) | upstreams | ({"model": model} if model else {})
    topology = Topology(
        lab_id="lab",
        lane=0,
        services=services,
        proxies=base.proxies,
        gateways={link.name: bound_address(sockets[f"gateway_{link.name}"]) for link in links},
        links=links,
        manager=base.manager,
        control=bound_address(sockets["control"]),
        toxiproxy=base.toxiproxy,
        ingress=FREE if intercepts else None,
        wiring=wiring or {},
    )
    for listener in sockets.values():
        listener.setblocking(False)
    ready: list[Callable[[], None]] = []
    failures: list[str] = []  # errors that the loop would only log

    async def serve() -> None:
        server = Gateway(
            topology,
            folder / "state.db",
            folder / "logs",
            token=TOKEN,
            listen=lambda name, _: sockets[name],
            head_timeout=head_timeout,
        )
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: failures.append(_message_of(context)))
        ready.append(lambda: loop.call_soon_threadsafe(server.stop))
        await server.serve()

    thread = threading.Thread(target=run, args=(serve(),))
    thread.start()
    lab = Lab(folder, topology)
    until(lambda: ready, "the gateway")
    try:
        with trusted(lab) if intercepts else nullcontext():
            yield lab
    finally:
        ready[0]()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
        assert not failures, failures[0]


def dial(address: Address) -> socket.socket:
    """A client's connection to that address."""
    plain = socket.create_connection((address.host, address.port), timeout=PATIENCE_S)
    return (
        cast(socket.socket, SecureSocket(plain, address.pem)) if isinstance(address, SecureAddress) else plain
    )


def ask(address: Address, request: bytes) -> bytes:
    """Send the bytes; return everything until the other side closes."""
    with dial(address) as connection:
        connection.sendall(request)
        return read_all(connection)


def without_digests(text: str) -> str:
    """Return the text with each redacted secret as ``[secret]``, without its salted digest."""
    return re.sub(r"\[secret:[g-v]{16}\]", "[secret]", text)
