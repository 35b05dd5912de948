"""A probability over 10,000 requests, a third of them outside CI: its share is met, by the same requests in
any order of sending.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator
from statistics import NormalDist

import pytest
import uvloop

from tests.gateway.lab import Lab, gateway
from tests.support import examples
from tests.upstream import FREE
from wirefault.core.identity import fingerprint
from wirefault.core.sockets import Address, bind, bound_address
from wirefault.dialects.http import Request
from wirefault.faults.matching.matcher import FaultMatcher, IncomingTry
from wirefault.faults.registry import REGISTRY
from wirefault.faults.sets.fault_set import build_set
from wirefault.wiring.links import lab_links

pytestmark = pytest.mark.slow  # it makes thousands of requests

REQUESTS = examples(10_000)
PROBABILITY = 0.3
SEED = 7
TARGET = "/serp?q=chaos"
FAULT = {"fault": "status", "links": "search", "with": {"status": 418}, "when": {"probability": PROBABILITY}}
FAULTS = {"faults": [FAULT]}
BOUND_S = 300  # also for a busy machine
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Answers(asyncio.Protocol):
    """The upstream."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(OK)


class Client(asyncio.Protocol):
    """Requests the next number after each reply; on one connection, or one for each."""

    def __init__(self, crowd: Crowd) -> None:
        self.crowd = crowd
        self.got = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.ask()

    def ask(self) -> None:
        self.number = next(self.crowd.numbers, None)
        if self.number is None:
            self.transport.close()
        else:
            self.transport.write(self.crowd.request(self.number))

    def data_received(self, data: bytes) -> None:
        self.got += data
        head, end, body = self.got.partition(b"\r\n\r\n")
        if end and len(body) == int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]):
            self.crowd.statuses[self.number] = int(head[9:12])
            self.got = b""
            if self.crowd.keep_alive:
                self.ask()

    def connection_lost(self, error: Exception | None) -> None:
        self.crowd.left(self)


class Crowd:
    """``clients`` that share the numbers from 1; ``statuses``: the status that each number got."""

    def __init__(self, address: Address, request: Callable[[int], bytes], keep_alive: bool) -> None:
        self.address, self.request, self.keep_alive = address, request, keep_alive
        self.numbers = iter(range(1, REQUESTS + 1))
        self.statuses: dict[int, int] = {}
        self._loop = asyncio.get_running_loop()
        self._over = self._loop.create_future()
        self._dialing: set[asyncio.Task[object]] = set()
        self._here = 0

    async def run(self, clients: int) -> dict[int, int]:
        for _ in range(clients):
            self.enter()
        await asyncio.wait_for(self._over, BOUND_S)
        return self.statuses

    def enter(self) -> None:
        self._here += 1
        dial = self._loop.create_connection(lambda: Client(self), self.address.host, self.address.port)
        task = self._loop.create_task(dial)
        self._dialing.add(task)
        task.add_done_callback(self._dialing.discard)

    def left(self, client: Client) -> None:
        self._here -= 1
        if client.number is not None:
            self.enter()
        elif not self._here and not self._over.done():
            self._over.set_result(None)


RequestsMet = Callable[[int, bool, bool], set[int]]


@pytest.fixture(scope="module")
def requests_met(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RequestsMet]:
    """Send ``REQUESTS`` requests through a gateway; return the ones that met the fault."""
    listener = bind(FREE)
    loop = uvloop.new_event_loop()
    server = loop.run_until_complete(loop.create_server(Answers, sock=listener))
    with gateway(tmp_path_factory.mktemp("probability"), search=bound_address(listener)) as lab:

        async def statuses(clients: int, keep_alive: bool, named: bool) -> dict[int, int]:
            request = requests_of(lab, keep_alive, named)
            return await Crowd(lab.address("search"), request, keep_alive).run(clients)

        def requests_met(clients: int, keep_alive: bool, named: bool) -> set[int]:
            lab.begin(faults=FAULTS, seed=SEED)
            got = loop.run_until_complete(statuses(clients, keep_alive, named))
            assert len(got) == REQUESTS and set(got.values()) == {200, 418}
            return {number for number, status in got.items() if status == 418}

        yield requests_met
    server.close()
    loop.run_until_complete(server.wait_closed())
    loop.close()


def requests_of(lab: Lab, keep_alive: bool, named: bool) -> Callable[[int], bytes]:
    """The same for all but its call number, if it names itself."""
    connection = "keep-alive" if keep_alive else "close"
    lines = [f"GET {TARGET} HTTP/1.1", "Host: tool", f"Connection: {connection}"]
    if not named:
        return lambda number: "\r\n".join([*lines, "", ""]).encode()

    def request(number: int) -> bytes:
        identity = [f"{name}: {value}" for name, value in lab.identity(call=number).items()]
        return "\r\n".join([*lines, *identity, "", ""]).encode()

    return request


@pytest.fixture(scope="module")
def planned() -> set[int]:
    """The calls that the plan lets meet the fault: 99 % of all plans are within the bounds here."""
    matcher = FaultMatcher(SEED, build_set(FAULTS, "f", REGISTRY, lab_links()).faults)
    request = Request(target=TARGET)
    key = ("search", "GET", TARGET, lambda: request, fingerprint("GET", TARGET), "e1", 1)
    planned = {call for call in range(1, REQUESTS + 1) if matcher.match(IncomingTry(*key, call, 1, 0.0)).met}
    spread = NormalDist().inv_cdf(0.995) * math.sqrt(REQUESTS * PROBABILITY * (1 - PROBABILITY))
    assert abs(len(planned) - REQUESTS * PROBABILITY) <= spread
    return planned


# each number of clients and each kind of connection once
@pytest.mark.parametrize(("clients", "keep_alive"), [(1, True), (32, False)])
def test_same_requests_meet_fault(
    requests_met: RequestsMet, planned: set[int], clients: int, keep_alive: bool
) -> None:
    assert requests_met(clients, keep_alive, True) == planned


def test_as_many_unnamed_requests_meet_fault(requests_met: RequestsMet, planned: set[int]) -> None:
    assert len(requests_met(32, True, False)) == len(planned)
