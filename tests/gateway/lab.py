"""A gateway on free ports in a thread of its own, and the raw client that the tests talk to it with."""

from __future__ import annotations

import asyncio
import socket
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import requests
import uvloop

from tests.support import until
from windtunnel.core.identity import Identity
from windtunnel.core.sockets import Address, address_of, bind
from windtunnel.gateway.server import Gateway
from windtunnel.history.events import Exchange
from windtunnel.history.reader import read_file
from windtunnel.history.writer import history_file
from windtunnel.links.catalog import LINKS
from windtunnel.links.topology import Topology, default_topology
from windtunnel.settings.settings import Settings
from windtunnel.state.state import State

FREE = Address("127.0.0.1", 0)


class Lab:
    """One gateway whose upstreams are the given addresses; ``begin`` arms an attempt on its lane."""

    def __init__(self, folder: Path, topology: Topology) -> None:
        self.folder = folder
        self.topology = topology
        self.runs = 0
        self.run_id = ""
        self.settings = Settings(seed=1, error_prob=0)

    def address(self, link: str) -> Address:
        return self.topology.gateways[link]

    def url(self, link: str, path: str = "/") -> str:
        return self.address(link).url + path

    def control(self, method: str, path: str, body: Any = None) -> requests.Response:
        return requests.request(method, self.topology.control.url + path, json=body, timeout=5)

    def new_run(self, **settings: Any) -> dict[str, Any]:
        """A run in state.db with these settings; the body that a PUT for its first attempt takes."""
        self.runs += 1
        self.run_id = f"run-{self.runs}"
        self.settings = Settings(**{"seed": 1, "error_prob": 0, **settings})
        with State(self.folder / "state.db") as state:
            dumped, hashed = self.settings.dump(), self.settings.hash
            state.insert_run(self.run_id, "lab", 0, dumped, hashed, self.settings.seed, 1.0)
        return {"run_id": self.run_id, "episode": "e1", "attempt": 1, "settings_hash": hashed}

    def begin(self, **settings: Any) -> None:
        """A new run and its first attempt: episode e1, attempt 1."""
        assert self.control("PUT", "/lanes/0", self.new_run(**settings)).status_code == 200

    def settle(self, bound_s: float = 2, episode: str = "e1", attempt: int = 1) -> dict[str, Any]:
        body = {"episode": episode, "attempt": attempt, "bound_s": bound_s}
        return self.control("POST", "/lanes/0/settle", body).json()

    def identity(self, **changes: Any) -> dict[str, str]:
        """The headers of a try in this run's first attempt."""
        fields = {"run": self.run_id, "episode": "e1", "attempt": 1, "call": 1, "try_": 1, **changes}
        return Identity(**fields).headers("search")

    def recorded(self) -> list[Any]:
        """The run's history so far."""
        return list(read_file(history_file(self.folder / "logs", self.run_id, "gateway", 0)))

    def exchanges(self, count: int = 1) -> list[Exchange]:
        """The run's history, once it has at least that many events."""
        return until(lambda: len(found := self.recorded()) >= count and found, f"{count} exchanges")

    def exchange(self) -> Exchange:
        return self.exchanges()[-1]


def _told(context: dict[str, Any]) -> str:
    error = context.get("exception")
    return "".join(traceback.format_exception(error)) if error else str(context)


@contextmanager
def gateway(
    folder: Path, *, model: Address | None = None, head_timeout: float = 10, **upstreams: Address
) -> Iterator[Lab]:
    """A running gateway; a link whose upstream is not given has one that refuses connections."""
    sockets = {name: bind(FREE) for name in [*(f"gateway_{link.name}" for link in LINKS), "control"]}
    closed = bind(FREE)
    nobody = address_of(closed)
    closed.close()
    base = default_topology("lab")
    services = dict.fromkeys(base.services, nobody) | upstreams | ({"model": model} if model else {})
    topology = Topology(
        lab_id="lab",
        lane=0,
        services=services,
        proxies=base.proxies,
        gateways={link.name: address_of(sockets[f"gateway_{link.name}"]) for link in LINKS},
        manager=base.manager,
        control=address_of(sockets["control"]),
        toxiproxy=base.toxiproxy,
    )
    for listener in sockets.values():
        listener.setblocking(False)
    ready: list[Callable[[], None]] = []
    failures: list[str] = []  # what the loop would only log

    async def serve() -> None:
        server = Gateway(
            topology,
            folder / "state.db",
            folder / "logs",
            listen=lambda name, _: sockets[name],
            head_timeout=head_timeout,
        )
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: failures.append(_told(context)))
        ready.append(lambda: loop.call_soon_threadsafe(server.stop))
        await server.serve()

    thread = threading.Thread(target=uvloop.run, args=(serve(),))
    thread.start()
    lab = Lab(folder, topology)
    until(lambda: ready, "the gateway")
    try:
        yield lab
    finally:
        ready[0]()
        thread.join(10)
        assert not thread.is_alive()
        assert not failures, failures[0]


class Upstream:
    """An upstream that answers each connection with a function of its socket, in a thread each."""

    def __init__(self, handle: Callable[[socket.socket], None]) -> None:
        self._listener = bind(FREE)
        self.address = address_of(self._listener)
        self.accepted = 0
        self._handle = handle
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            self._open.append(connection)
            self._threads.append(threading.Thread(target=self._serve, args=(connection,), daemon=True))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):  # the other side left, which some tests want
            self._handle(connection)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            with suppress(OSError):  # closed already
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)


def read_head(connection: socket.socket, start: bytes = b"") -> tuple[bytes, bytes]:
    """A header block, its empty line included, and what came with it of the rest."""
    while b"\r\n\r\n" not in start:
        data = connection.recv(65536)
        if not data:
            raise OSError("closed in the header block")
        start += data
    head, _, rest = start.partition(b"\r\n\r\n")
    return head + b"\r\n\r\n", rest


def read_all(connection: socket.socket, size: int | None = None, *, exactly: bool = False) -> bytes:
    """Everything up to the end of the connection, or until that many bytes have come.

    ``exactly``: an end before that is an ``OSError``.
    """
    data = bytearray()
    while size is None or len(data) < size:
        part = connection.recv(1 << 20 if size is None else size - len(data))
        if not part:
            if exactly:
                raise OSError("closed too early")
            break
        data += part
    return bytes(data)


def dial(address: Address) -> socket.socket:
    return socket.create_connection((address.host, address.port), timeout=5)


def ask(address: Address, request: bytes) -> bytes:
    """Sends the bytes, and returns all that comes until the other side closes."""
    with dial(address) as connection:
        connection.sendall(request)
        return read_all(connection)
