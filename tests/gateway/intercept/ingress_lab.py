"""A lab that intercepts, as it ships: ingress, gateway, embedded Toxiproxy and manager, each a process."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests

from tests.gateway.lab import dial
from tests.shared_imports import shared_imports
from tests.support import PATIENCE_S
from tests.upstream import read_head
from wirefault.core.sockets import Address
from wirefault.history.events import ConnectionEnded, Event, Exchange
from wirefault.history.reader import read_file
from wirefault.history.writer import history_file
from wirefault.lab.launcher import Lab
from wirefault.lab.toxiproxy import Choice
from wirefault.runner.manager_client import ManagerClient
from wirefault.settings.configuration import load_configuration
from wirefault.settings.settings import Settings
from wirefault.state.state import State
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.wiring.spec_file import SpecFile
from wirefault.wiring.wiring import build_wiring


class IngressLab:
    """``run`` begins a run and its first attempt, in which a subject may call whatever it likes."""

    def __init__(self, lab: Lab, state: Path, logs: Path) -> None:
        self.lab = lab
        self.logs = logs
        self._client = ManagerClient(lambda: State(state), time.time, time.sleep)
        self._state = state
        self._attempt = 0
        self.run_id = ""

    @property
    def ingress(self) -> Address:
        assert self.lab.topology.ingress is not None
        return self.lab.topology.ingress

    @property
    def proxies(self) -> dict[str, str]:
        """As ``requests`` takes them."""
        return {"http": self.ingress.url, "https": self.ingress.url}

    def authority(self) -> str:
        """The certificate of the authority, in PEM."""
        reply = requests.get(self.lab.topology.control.url + "/authority", timeout=PATIENCE_S)
        return str(reply.json()["pem"])

    def begin(self, run_id: str, plan: Sequence[PlannedToxic] = (), **settings: Any) -> None:
        self.run_id = run_id
        self.settings = Settings.model_validate(
            {"seed": 1, "toxic_prob": 0, "error_prob": 0, **settings},
            context={"links": self.lab.topology.links},
        )
        self._client = ManagerClient(lambda: State(self._state), time.time, time.sleep)
        self._client.lease(run_id, self.lab.topology.lab_id, 0, self.settings, lambda _: None)
        armed = self._client.arm("e1", 1, plan, 30)
        assert armed.arming_ms is not None, armed.why_not
        self._attempt = armed.attempt_id

    def end_attempt(self) -> None:
        """End the attempt like the runner: once it is healed and settled, its events are on disk."""
        if self._attempt:
            self._client.finish(self._attempt, self.settings)
            self._attempt = 0

    def end(self) -> None:
        self.end_attempt()
        self._client.release()
        self._client.close()

    def ended(self) -> list[ConnectionEnded]:
        """End the attempt and return the ingress's events of it."""
        self.end_attempt()
        return [event for event in self.of_ingress() if isinstance(event, ConnectionEnded)]

    def of_ingress(self) -> list[Event]:
        """The ingress's records so far."""
        path = history_file(self.logs, self.run_id, "ingress", 0)
        return list(read_file(path)) if path.exists() else []

    def exchanges(self) -> list[Exchange]:
        events = read_file(history_file(self.logs, self.run_id, "gateway", 0))
        return [event for event in events if isinstance(event, Exchange)]


@contextmanager
def ingress_lab(
    folder: Path,
    intercept: Mapping[str, Any] | None = None,
    links: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Iterator[IngressLab]:
    places = {
        "STATE_DB": str(folder / "state" / "state.db"),
        "EFFECTS_DB": str(folder / "state" / "effects.db"),
        "LOGS_DIR": str(folder / "logs"),
    }
    data = {"intercept": dict(intercept or {}), "links": dict(links or {})}
    wiring = build_wiring(SpecFile("test", data), folder)
    configuration = load_configuration({**os.environ, **places, **(environ or {})}, wiring=wiring)
    with shared_imports(), Lab(configuration, Choice("embedded")) as lab:
        yield IngressLab(lab, folder / "state" / "state.db", folder / "logs")


def tunnel(lab: IngressLab, host: str, port: int) -> socket.socket:
    """A connection to that target, opened like a proxy client."""
    client = dial(lab.ingress)
    client.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    head, rest = read_head(client)
    assert head.startswith(b"HTTP/1.1 200 ") and not rest
    return client


def one_way(lab: IngressLab, host: str, port: int) -> socket.socket:
    """The same, opened like the Node preload: without a reply."""
    client = dial(lab.ingress)
    client.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nX-Tap: oneway\r\n\r\n".encode())
    return client
