"""The control plane of one lane on a shared Toxiproxy, and the run that it serves."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import requests

from proxy_manager.api import create_manager_api
from proxy_manager.gateway_control import GatewayControl
from proxy_manager.loop import Loop
from proxy_manager.proxies import LaneProxies
from proxy_manager.reconcile import Reconciler
from tests.gateway.lab import TOKEN
from tests.gateway.lab import gateway as running_gateway
from tests.support import PATIENCE_S, free_port, replace
from wirefault.core.api_server import api_in_thread
from wirefault.core.sockets import Address
from wirefault.history.events import ToxicsChanged
from wirefault.history.reader import read_file
from wirefault.history.writer import history_file
from wirefault.settings.settings import Settings
from wirefault.state.handoffs import FILE_NAME
from wirefault.state.state import AttemptRow, State
from wirefault.toxiproxy.client import ToxiproxyClient
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.wiring.topology import Topology, default_topology

LATENCY = PlannedToxic("search", "latency", "upstream", {"latency": 300, "jitter": 0})
TIMEOUT = PlannedToxic("movie", "timeout", "downstream", {"timeout": 400})
DOWN = PlannedToxic("weather", "down", "", {})
PLAN = (LATENCY, TIMEOUT, DOWN)
SETTINGS = Settings(seed=1, settle_bound=0.3)


_numbers = itertools.count()


class Clock:
    """Seconds since the epoch, set by the test."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Plane:
    """A reconciler with its proxies, gateway and state; the runner's side is played by the test."""

    def __init__(self, folder: Path, topology: Topology, client: ToxiproxyClient, state: State) -> None:
        self.folder = folder
        self.topology = topology
        self.client = client
        self.state = state
        self.clock = Clock()
        self.proxies = LaneProxies(client, topology)
        self.gateway = GatewayControl(topology.control, TOKEN)
        self.reconciler = self.make(state)

    def make(self, state: State) -> Reconciler:
        logs = self.folder / "logs"
        return Reconciler(state, self.proxies, self.gateway, logs, "lab", 0, self.clock, self.clock)

    def run(self, run_id: str = "run-1", lab_id: str = "lab") -> str:
        self.state.insert_run(run_id, lab_id, 0, SETTINGS.dump(), SETTINGS.hash, 1, self.clock())
        return run_id

    def request(self, plan: Sequence[PlannedToxic] = PLAN, run_id: str = "run-1", attempt: int = 1) -> int:
        run = self.state.run(run_id) or self.state.run(self.run(run_id))
        assert run is not None
        return self.state.request_attempt(run, "001", attempt, plan, self.clock())

    def arm(self, plan: Sequence[PlannedToxic] = PLAN, attempt: int = 1) -> int:
        attempt_id = self.request(plan, attempt=attempt)
        self.reconciler.step()
        assert self.attempt(attempt_id).state == "armed"
        return attempt_id

    def finish(self, attempt_id: int) -> AttemptRow:
        assert self.state.move_attempt(attempt_id, "armed", "finished", self.clock())
        self.reconciler.step()
        return self.attempt(attempt_id)

    def attempt(self, attempt_id: int) -> AttemptRow:
        return self.state.attempt(attempt_id)

    def name(self, link: str) -> str:
        return self.topology.proxy_name(link)

    def toxics(self) -> list[tuple[str, str]]:
        """Disturb the lane: (link, kind)."""
        return sorted(disturbances(self.client, self.topology))

    def history(self, run_id: str = "run-1") -> list[ToxicsChanged]:
        events = list(read_file(history_file(self.folder / "logs", run_id, "manager", 0)))
        assert all(isinstance(event, ToxicsChanged) for event in events)
        return events  # type: ignore[return-value]


def disturbances(client: ToxiproxyClient, topology: Topology) -> Iterator[tuple[str, str]]:
    proxies = client.proxies()
    for link in topology.services:
        proxy = proxies[topology.proxy_name(link)]
        if not proxy.enabled:
            yield link, "down"
        yield from ((link, toxic.kind) for toxic in proxy.toxics)


ARMED = [("movie", "timeout"), ("search", "latency"), ("weather", "down")]


@contextmanager
def a_plane(folder: Path, toxiproxy: str, *, gateway: bool = True) -> Iterator[Plane]:
    """Its proxies have unique names; the gateway runs or is absent.

    Their ports are from a range that clients never get: a proxy that is down releases its port and needs it
    again.
    """
    with ExitStack() as stack:
        base = default_topology("lab")
        if gateway:
            base = stack.enter_context(running_gateway(folder)).topology
        topology = replace(
            base,
            proxies={link: Address("127.0.0.1", free_port()) for link in base.proxies},
            toxiproxy=toxiproxy,
            proxy_prefix=f"t{next(_numbers)}_",
        )
        client = stack.enter_context(ToxiproxyClient(toxiproxy))
        state = stack.enter_context(State(folder / "state.db"))
        plane = Plane(folder, topology, client, state)
        stack.callback(lambda: plane.gateway.close())
        stack.callback(lambda: plane.reconciler.close())
        yield plane


class ApiClient:
    """Requests to the manager's API at that address."""

    def __init__(self, url: str) -> None:
        self.url = url

    def send(self, method: str, path: str, **options: Any) -> requests.Response:
        return requests.request(method, self.url + path, timeout=PATIENCE_S, **options)

    def get(self, path: str) -> requests.Response:
        return self.send("GET", path)

    def json(self, path: str) -> Any:
        return self.get(path).json()


@contextmanager
def api_of(plane: Plane, loop: Loop) -> Iterator[ApiClient]:
    """The manager's API on a free port."""
    logs = plane.folder / "logs"
    app = create_manager_api(
        loop, plane.topology, lambda: State(plane.state.path), TOKEN, logs, logs / FILE_NAME
    )
    with socket.create_server(("127.0.0.1", 0)) as listener, api_in_thread(app, listener):
        yield ApiClient(f"http://127.0.0.1:{listener.getsockname()[1]}")


@contextmanager
def looping(plane: Plane, *, busy_timeout_ms: int = 5000) -> Iterator[Loop]:
    """The manager's loop in a thread, with the real clock."""
    path = plane.state.path

    def open_state() -> State:
        state = State(path)
        state._database.execute(f"PRAGMA busy_timeout={busy_timeout_ms}")
        return state

    loop = Loop(open_state, path, plane.proxies, plane.make, "lab", 0)
    thread = threading.Thread(target=loop.run)
    thread.start()
    try:
        yield loop
    finally:
        loop.stop.set()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def taken() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))
