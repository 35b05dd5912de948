"""Repeated calls of real clients through a real gateway: repeated writes are recognised."""

from __future__ import annotations

import json
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import formatdate
from typing import Any

import pytest
import requests
from flask import Flask, redirect, request

from tests.gateway.lab import Lab, gateway
from tests.judging.findings.traced import findings_in
from tests.judging.oracle.histories import run_started
from tests.support import PATIENCE_S, replace, until
from tests.upstream import serving
from wirefault.history.events import EpisodeStarted, WorldProbed
from wirefault.judging.trace import traces
from wirefault.judging.writes import WriteCount, write_counts
from wirefault.wiring.links import Link, Links

JSON = {"Content-Type": "application/json"}


@dataclass
class Shop:
    """A server of many calls, with the orders that it carried out."""

    orders: list[Any] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    released: threading.Event | None = None  # the next call waits for it
    breaks: bool = False  # the next call is answered with 500
    pages: int = 0

    def app(self) -> Flask:
        app = Flask("shop")

        @app.route("/<path:path>", methods=["GET", "POST", "PUT", "PATCH", "DELETE"])
        def call(path: str) -> Any:
            released, self.released = self.released, None
            if released is not None:
                released.wait(PATIENCE_S)
            breaks, self.breaks = self.breaks, False
            if breaks:
                self.orders.append(request.get_json(silent=True))
                return {"error": "unknown whether it was carried out"}, 500
            if path == "moved":
                return redirect("/orders", 308)
            if path == "carts":
                return {"carts": [str(uuid.UUID(int=number << 90, version=4)) for number in (5, 6)]}
            if path == "once" and self.orders:
                return {"error": "already exists"}, 409
            if path == "pages":
                self.pages += 1
                return {
                    "items": ["x" * 70_000],
                    "cursor": str(uuid.UUID(int=0xA1234 << 96 | self.pages, version=4)),
                }
            if request.method != "GET":
                key = request.headers.get("Idempotency-Key", "")
                if not key or key not in self.keys:
                    self.orders.append(request.get_json(silent=True))
                self.keys.add(key)
            return {"ok": len(self.orders)}, 200 if request.method == "GET" else 201

        return app


@dataclass
class Caller:
    """A client of the shop."""

    lab: Lab
    link: str = "shop"

    def send(self, method: str, path: str, body: Any = None, **more: Any) -> bool:
        """Whether the call had a good reply."""
        if body is not None:
            more |= {"data": json.dumps(body), "headers": JSON | more.pop("headers", {})}
        url = self.lab.url(more.pop("link", self.link), path)
        try:
            return requests.request(method, url, **{"timeout": PATIENCE_S} | more).ok
        except requests.RequestException:
            return False

    def until_good(self, *call: Any, **more: Any) -> None:
        """Send it until it has a good reply, at most three times."""
        any(self.send(*call, **more) for _ in range(3))


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[Shop, str]]:
    store = Shop()
    with serving(store.app(), threads=4) as address:
        yield store, address.url


WRITES = ("POST /orders*", "PATCH /*", "PUT /*", "DELETE /*", "POST /once", "POST /moved", "POST /form")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, server: tuple[Shop, str]) -> Iterator[Lab]:
    url = server[1]
    links = [
        Link("shop", url, writes=WRITES),
        Link("second", url, writes=WRITES),
        Link("named", url, writes=WRITES, key="order_id"),
        Link("open", url),
    ]
    with gateway(tmp_path_factory.mktemp("gateway"), links=Links(links)) as lab:
        yield lab


@pytest.fixture
def shop(server: tuple[Shop, str]) -> Shop:
    """The shop without orders."""
    store = server[0]
    store.orders.clear()
    store.keys.clear()
    return store


LOST: dict[str, Any] = {"fault": "lose_reply", "when": {"at_most": 1}}
REFUSED_READ: dict[str, Any] = {"fault": "server_error", "only": {"method": "GET"}, "when": {"at_most": 1}}
REFUSED: dict[str, Any] = {"fault": "unavailable", "when": {"nth": 2}}


def begin(lab: Lab, fault: dict[str, Any]) -> None:
    lab.begin(faults=json.dumps({"faults": [fault]}), bodies="on")


def judged(lab: Lab, *around: Any) -> tuple[list[WriteCount], list[str]]:
    """The writes of the episode, and its findings about repeated ones."""
    lab.settle()
    started = replace(run_started(1), links=list(lab.topology.links))
    events = [started, EpisodeStarted(101.0, "e1", "Order tea", None), *around, *lab.recorded()]
    [trace] = traces(events)
    findings = [f.text for f in findings_in(events) if f.rule == "write_repeated" and f.severity != "note"]
    return list(write_counts(trace)), findings


TEA = {"item": "tea", "count": 2}
Agent = Callable[[Caller], None]


def again(method: str, path: str, body: Any = None, **more: Any) -> Agent:
    """Sends that until it has a good reply."""
    return lambda caller: caller.until_good(method, path, body, **more)


def again_with(body: Callable[[], Any], path: str = "/orders", **more: Any) -> Agent:
    """Sends a new body each time, until a reply is good."""
    return lambda caller: any(caller.send("POST", path, body(), **more) for _ in range(3)) and None


def step_again(*calls: tuple[Any, ...]) -> Agent:
    """Makes all the calls again if one fails."""
    return lambda caller: any(all(caller.send(*call) for call in calls) for _ in range(3)) and None


def in_turn(*calls: tuple[Any, ...]) -> Agent:
    """Makes each call once; a retry may follow each call."""
    return lambda caller: [caller.until_good(*call) for call in calls] and None


def many(number: int, *call: Any, **more: Callable[[], Any]) -> Agent:
    """Sends it so often, with what ``more`` gives each time, or until it has a good reply."""
    return lambda caller: (
        any(caller.send(*call, **{name: value() for name, value in more.items()}) for _ in range(number))
        and None
    )


def with_second_link(caller: Caller) -> None:
    caller.send("POST", "/orders", TEA) or caller.send("POST", "/orders", TEA, link="second")


def with_fresh_query(caller: Caller) -> None:
    any(caller.send("POST", f"/orders?request_id={uuid.uuid4()}", TEA) for _ in range(2))


def paged(caller: Caller) -> None:
    for _ in range(3):
        caller.send("GET", "/price")
        page = requests.post(caller.lab.url("shop", "/pages"), timeout=PATIENCE_S).json()
        caller.send("POST", "/orders/of-page", {"page": page["cursor"]})


def carts(caller: Caller) -> None:
    first, second = requests.get(caller.lab.url("second", "/carts"), timeout=PATIENCE_S).json()["carts"]
    caller.send("POST", f"/orders/{first}/tea")
    caller.send("GET", "/price")
    caller.send("POST", f"/orders/{second}/tea")


def polled(caller: Caller) -> None:
    for _ in range(4):
        caller.send("POST", "/wait", {"job": 7}, link="open")


PRICE, ORDER = ("GET", "/price"), ("POST", "/orders", TEA)
FRESH: Mapping[str, Callable[[], Any]] = {
    "uuid": lambda: {**TEA, "order_id": str(uuid.uuid4())},
    "hex": lambda: {**TEA, "id": uuid.uuid4().hex},
    "number": lambda: {**TEA, "orderId": random.randrange(10**7, 10**8)},
    "prefix": lambda: {**TEA, "order_ref": f"ord-{int(time.time() * 1e6)}"},
    "epoch": lambda: {**TEA, "at": time.time()},
    "epoch as text": lambda: {**TEA, "sent": str(int(time.time() * 1000))},
    "ISO time": lambda: {**TEA, "when": datetime.now().astimezone().isoformat()},
    "time of Python": lambda: {**TEA, "when": str(datetime.now())},
    "date of HTTP": lambda: {**TEA, "when": formatdate(usegmt=True)},
    "nonce": lambda: {**TEA, "nonce": random.random()},
    "CSRF token": lambda: {**TEA, "csrf_token": random.randbytes(8).hex()},
    "JSON-RPC id": lambda: {"jsonrpc": "2.0", "id": random.random(), "method": "order", "params": TEA},
    "number of the attempt": lambda: {**TEA, "attempt": time.time_ns()},
}
HITS: Mapping[str, tuple[dict[str, Any], Agent]] = {
    "reply lost": (LOST, again(*ORDER)),
    "step made again after a later failure": (REFUSED_READ, step_again(ORDER, PRICE)),
    **{f"fresh {name}": (LOST, again_with(body)) for name, body in FRESH.items()},
    "query": (LOST, again("POST", "/orders?source=web", TEA)),
    "fresh id in the query": (LOST, with_fresh_query),
    "batch": (LOST, again("POST", "/orders/batch", [TEA, TEA])),
    "PATCH": (LOST, again("PATCH", "/orders/1", {"add": 1})),
    "form": (LOST, again("POST", "/form", data={"item": "tea"})),
    "multipart with a random boundary": (LOST, again("POST", "/form", files={"photo": ("a.txt", "tea")})),
    "fresh key": (LOST, many(2, *ORDER, headers=lambda: {"Idempotency-Key": str(uuid.uuid4())})),
    "second link to the same server": ({**LOST, "links": ["shop"]}, with_second_link),
}
QUERY = {"query": "query Orders { orders { id } }"}
READ = {"jsonrpc": "2.0", "id": 1, "method": "orders.list"}
READING_PATHS = (
    *("/search", "/orders/_search", "/v1/databases/7/query", "/shop.Orders/GetOrder", "/jobs/status"),
)
LOOK_ALIKES: Mapping[str, tuple[dict[str, Any], Agent]] = {
    "another order after a failure": (REFUSED_READ, in_turn(ORDER, PRICE, ("POST", "/orders", "coffee"))),
    "two wordings of one order": (
        REFUSED_READ,
        in_turn(("POST", "/orders", {"text": "two teas"}), PRICE, ("POST", "/orders", {"text": "tea x2"})),
    ),
    "two orders, the second with a retry": (REFUSED, in_turn(ORDER, ORDER)),
    "two orders before the failure": (REFUSED_READ, in_turn(ORDER, ORDER, PRICE)),
    "PUT": (LOST, again("PUT", "/orders/1", TEA)),
    "DELETE": (LOST, again("DELETE", "/orders/1")),
    "308": (REFUSED_READ, again("POST", "/moved", TEA)),
    "key": (LOST, again(*ORDER, headers={"Idempotency-Key": "k"})),
    "key in another header": (LOST, again(*ORDER, headers={"X-Idempotency-Key": "k"})),
    "key in a field of that name": (LOST, again("POST", "/orders", {**TEA, "idempotency_key": "k"})),
    "key in the field of the wiring": (LOST, again("POST", "/orders", {"order_id": "k-1"}, link="named")),
    "key of an undeclared write": (
        LOST,
        again("POST", "/notes", TEA, link="open", headers={"Idempotency-Key": "k"}),
    ),
    "retry answered 409": (LOST, again("POST", "/once", TEA)),
    "request lost": ({**LOST, "fault": "lose_request"}, again(*ORDER)),
    "refused at first": ({**LOST, "fault": "unavailable"}, again(*ORDER)),
    "GraphQL query": (LOST, again("POST", "/graphql", QUERY, link="open")),
    "GraphQL batch of queries": (LOST, again("POST", "/graphql", [QUERY, QUERY], link="open")),
    "GraphQL query as text": (LOST, again("POST", "/graphql", data="{ orders { id } }", link="open")),
    **{f"POST {path}": (LOST, again("POST", path, {"text": "tea"}, link="open")) for path in READING_PATHS},
    "JSON-RPC read": (LOST, again("POST", "/rpc", READ, link="open")),
    "JSON-RPC batch of reads": (LOST, again("POST", "/rpc", [READ, READ], link="open")),
    "embeddings": (LOST, again("POST", "/v1/embeddings", {"model": "m", "input": "tea"}, link="open")),
    "pages by a cursor beyond the body that is kept": (REFUSED_READ, paged),
    "two appointments": (
        REFUSED_READ,
        in_turn(*(("POST", "/orders", {"at": f"2031-05-0{day}T10:00"}) for day in (1, 2))),
    ),
    "the same in two carts": ({**REFUSED_READ, "links": ["shop"]}, carts),
    "poll": (REFUSED, polled),
}


@pytest.mark.parametrize("case", HITS)
def test_repeated_write(lab: Lab, shop: Shop, case: str) -> None:
    fault, agent = HITS[case]
    begin(lab, fault)
    agent(Caller(lab))
    counts, findings = judged(lab)
    assert ([count.executed for count in counts], len(shop.orders)) == ([2], 2), counts
    assert len(findings) == 1 and "both were executed" in findings[0], findings


@pytest.mark.parametrize("case", LOOK_ALIKES)
def test_no_repeated_write(lab: Lab, shop: Shop, case: str) -> None:
    fault, agent = LOOK_ALIKES[case]
    begin(lab, fault)
    agent(Caller(lab))
    assert judged(lab)[1] == []


def test_order_over_two_links_is_one_write(lab: Lab, shop: Shop) -> None:
    begin(lab, {**LOST, "links": ["shop"]})
    with_second_link(Caller(lab))
    [count] = judged(lab)[0]
    assert count.executed == len(shop.orders) == 2


def test_client_timeout_on_slow_server(lab: Lab, shop: Shop) -> None:
    begin(lab, {**LOST, "links": ["second"]})
    shop.released = released = threading.Event()
    Caller(lab).send(*ORDER, timeout=0.3)
    Caller(lab).send(*ORDER)
    released.set()
    until(lambda: len(shop.orders) == 2)
    assert "both were executed" in judged(lab)[1][0]


def probed(before: Any, after: Any) -> list[WorldProbed]:
    return [WorldProbed(101.5, "e1", "before", before), WorldProbed(9e9, "e1", "after", after)]


ROW = {"id": 7, **TEA}


@pytest.mark.parametrize(
    ("after", "executed", "is_finding"),
    [
        ({"orders": [ROW]}, 1, False),
        ({"orders": [ROW, {**ROW, "id": 8}]}, 2, True),
        ({"orders": [{**ROW, "count": 4}]}, 2, True),  # it shows no order of two
        ({"orders": [{"item": "tea", "quantity": 4}]}, 2, True),  # it may be the sum of both
        ({"messages": []}, 2, True),
    ],
)
def test_probed_world_shows_number_of_executions(
    lab: Lab, shop: Shop, after: Any, executed: int, is_finding: bool
) -> None:
    begin(lab, LOST)
    again(*ORDER)(Caller(lab))
    counts, findings = judged(lab, *probed({"orders": []}, after))
    assert ([count.executed for count in counts], len(findings)) == ([executed], is_finding)


@pytest.mark.parametrize(
    ("rows", "executed", "maybe", "text"),
    [
        ([ROW], 1, 0, None),
        ([ROW, ROW], 2, 0, "both were executed"),
        ([], 1, 1, "it may have been executed twice"),
    ],
)
def test_probed_world_shows_unanswered_write(
    lab: Lab, shop: Shop, rows: list[Any], executed: int, maybe: int, text: str | None
) -> None:
    begin(lab, LOST)
    shop.breaks = True
    again(*ORDER)(Caller(lab))
    counts, findings = judged(lab, *probed({"orders": []}, {"orders": rows}))
    assert [(count.executed, count.maybe) for count in counts] == [(executed, maybe)]
    assert [text in finding for finding in findings] == ([] if text is None else [True])
