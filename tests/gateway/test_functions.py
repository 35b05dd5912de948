"""Functions of a process as tools: real calls through a real gateway, in this process's own threads."""

from __future__ import annotations

import asyncio
import contextvars
import http.client
import json
import multiprocessing
import sqlite3
import threading
import traceback
import urllib.error
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests

from tests.gateway.lab import Lab, ask, gateway
from tests.support import PATIENCE_S, until
from wirefault import tool
from wirefault.core.sockets import Address
from wirefault.subjects.functions.connections import VARIABLE, close_idle
from wirefault.wiring.links import PYTHON, Link, Links

LINKS = Links([Link("functions", PYTHON)])


@pytest.fixture(scope="module")
def module_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with gateway(tmp_path_factory.mktemp("functions"), links=LINKS, intercepts=False) as lab:
        yield lab


@pytest.fixture
def lab(module_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    address = module_lab.topology.gateways["functions"]
    monkeypatch.setenv(VARIABLE, f"{address} {address}")
    yield module_lab
    module_lab.settle(0)


class Shop:
    """Tools with a record of their own."""

    def __init__(self) -> None:
        self.orders: list[dict[str, Any]] = []
        self.threads: list[int] = []

    @tool(writes=True)
    def place_order(self, item: str, count: int = 1) -> dict[str, Any]:
        self.threads.append(threading.get_ident())
        self.orders.append({"item": item, "count": count})
        return {"order": len(self.orders), "item": item}

    @tool
    def greeting(self, name: str) -> str:
        return f"Hello, {name}"


def arm(lab: Lab, fault: str, **parameters: Any) -> None:
    entry = {"fault": fault, "links": "functions", **({"with": parameters} if parameters else {})}
    lab.begin(faults={"faults": [entry]})


def test_unfaulted_call_keeps_its_objects(lab: Lab) -> None:
    lab.begin()
    value = object()

    @tool
    def same(argument: object) -> object:
        return argument

    assert same(value) is value
    assert (lab.exchange().method, lab.exchange().target) == ("POST", "/same")
    assert not lab.exchange().unavailable


def test_marked_write_is_a_declared_write_of_its_link(lab: Lab) -> None:
    lab.begin()
    shop = Shop()
    assert shop.place_order("apple", count=2) == {"order": 1, "item": "apple"}
    record = lab.exchange()
    assert json.loads(record.request_body or "") == {"item": "apple", "count": 2}
    assert record.write


def test_lost_reply_follows_the_side_effect(lab: Lab) -> None:
    arm(lab, "lose_reply")
    shop = Shop()
    with pytest.raises(httpx.RemoteProtocolError):
        shop.place_order("apple")
    assert shop.orders == [{"item": "apple", "count": 1}]
    assert lab.exchange().upstream_status == 200


def test_lost_request_precedes_the_side_effect(lab: Lab) -> None:
    arm(lab, "lose_request")
    shop = Shop()
    with pytest.raises(httpx.RemoteProtocolError):
        shop.place_order("apple")
    assert not shop.orders


def test_duplicate_runs_twice_in_the_caller(lab: Lab) -> None:
    arm(lab, "duplicate_request")
    shop = Shop()
    assert shop.place_order("apple")["order"] == 2
    assert shop.threads == [threading.get_ident()] * 2


def test_changed_value_is_returned(lab: Lab) -> None:
    arm(lab, "wrong_value", field="order")
    answer = Shop().place_order("apple")
    assert answer["order"] != 1
    assert answer["item"] == "apple"


def test_function_gets_changed_arguments(lab: Lab) -> None:
    arm(lab, "changed_arguments", argument="count")
    shop = Shop()
    shop.place_order("apple", count=2)
    assert [order["item"] for order in shop.orders] == ["apple"]
    assert shop.orders[0]["count"] != 2


def test_text_stays_text(lab: Lab) -> None:
    arm(lab, "empty")
    assert Shop().greeting("Ada") == ""


def test_error_is_that_of_the_functions_own_client(lab: Lab) -> None:
    arm(lab, "unavailable")
    with pytest.raises(httpx.HTTPStatusError) as of_httpx:
        Shop().greeting("Ada")
    assert of_httpx.value.response.status_code == 503
    with pytest.raises(requests.HTTPError) as of_requests:
        _price_in_module(requests=requests)("apple")
    assert of_requests.value.response.status_code == 503
    with pytest.raises(urllib.error.HTTPError) as of_stdlib:
        _price_in_module()("apple")
    assert of_stdlib.value.code == 503
    of_stdlib.value.close()


def _price_in_module(**imported: object) -> Callable[[str], float]:
    """A tool of a module that has imported these."""
    namespace: dict[str, Any] = {"tool": tool, **imported}
    exec("@tool\ndef price(item): return 1", namespace)
    return namespace["price"]


def test_hang_ends_with_the_gateways_limit(lab: Lab) -> None:
    arm(lab, "hang", limit=0.2)
    shop = Shop()
    with pytest.raises(httpx.RemoteProtocolError):
        shop.place_order("apple")
    assert len(shop.orders) == 1


def test_exception_reaches_the_caller_unchanged(lab: Lab) -> None:
    lab.begin()
    error = KeyError("unknown item")

    @tool
    def price(item: str) -> float:
        raise error

    with pytest.raises(KeyError) as raised:
        price("pear")
    assert raised.value is error
    record = lab.exchange()
    assert (record.status, record.unavailable) == (500, False)


def test_control_flow_of_a_framework_is_no_failure(lab: Lab) -> None:
    lab.begin()

    class ModelRetry(Exception):
        pass

    @tool
    def price(item: str) -> float:
        raise ModelRetry("name the item")

    with pytest.raises(ModelRetry):
        price("pear")
    assert lab.exchange().status == 409


def test_coroutine_runs_in_its_own_task_and_context(lab: Lab) -> None:
    lab.begin()
    context: contextvars.ContextVar[str] = contextvars.ContextVar("context")

    @tool
    async def whose() -> tuple[object, str]:
        await asyncio.sleep(0)
        before = context.get()
        context.set("changed")
        return asyncio.current_task(), before

    async def main() -> None:
        context.set("original")
        task, value = await whose()
        assert task is asyncio.current_task()
        assert (value, context.get()) == ("original", "changed")

    asyncio.run(main())


def test_concurrent_coroutines_keep_apart(lab: Lab) -> None:
    lab.begin()

    @tool
    async def double(number: int) -> int:
        await asyncio.sleep(0.001 * (number % 3))
        return 2 * number

    async def main() -> list[int]:
        return list(await asyncio.gather(*map(double, range(50))))

    assert asyncio.run(main()) == [2 * number for number in range(50)]
    assert len(lab.exchanges(50)) == 50


def test_call_says_when_it_began(lab: Lab) -> None:
    """The second call of two at once begins before the first ends, also if its connection is opened later."""

    @tool
    async def slow(number: int) -> int:
        await asyncio.sleep(0.05)
        return number

    async def both() -> None:
        await slow(0)  # it leaves a connection for one of the two
        await asyncio.gather(slow(1), slow(1))

    lab.begin()
    asyncio.run(both())
    _, first, second = sorted(lab.exchanges(3), key=lambda exchange: exchange.start)
    assert second.start - second.opened_ms / 1000 < first.start + first.ms / 1000


def test_cancelled_coroutine_leaves(lab: Lab) -> None:
    arm(lab, "hang", forwarded=False)

    @tool
    async def never() -> None:
        raise AssertionError("the request is lost")

    async def main() -> None:
        await asyncio.wait_for(never(), 0.2)

    with pytest.raises(TimeoutError):
        asyncio.run(main())
    assert lab.exchange().client_left


def test_threads_keep_their_connections_to_sqlite(lab: Lab, tmp_path: Path) -> None:
    lab.begin()
    local = threading.local()

    @tool
    def count() -> int:
        if not hasattr(local, "database"):
            local.database = sqlite3.connect(tmp_path / "orders.db")
            local.database.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER)")
        return int(local.database.execute("SELECT count(*) FROM orders").fetchone()[0])

    def close(_: int) -> None:
        if hasattr(local, "database"):
            local.database.close()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: count(), range(20))) == [0] * 20
        list(pool.map(close, range(50)))


def test_forked_process_opens_its_own_connections(lab: Lab) -> None:
    lab.begin()
    greet = Shop().greeting
    assert greet("parent") == "Hello, parent"
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(greet, ["one", "two"]) == ["Hello, one", "Hello, two"]
    assert greet("again") == "Hello, again"
    assert len(lab.exchanges(4)) == 4


def test_generator_is_broken_at_its_call_only(lab: Lab) -> None:
    lab.begin()

    @tool
    def pages() -> Iterator[int]:
        yield from range(3)

    assert list(pages()) == [0, 1, 2]
    assert lab.exchange().reply_body == "generator"


@dataclass
class Price:
    """A result whose class is unknown to Wirefault."""

    item: str
    euros: float


def test_changed_result_keeps_its_class(lab: Lab) -> None:
    arm(lab, "wrong_value")

    @tool
    def price() -> Price:
        return Price("apple", 3.5)

    changed = price()
    assert isinstance(changed, Price)
    assert changed != Price("apple", 3.5)


def test_later_attempt_takes_new_connections(lab: Lab) -> None:
    greet = Shop().greeting
    for _ in range(3):
        lab.begin()
        assert greet("Ada") == "Hello, Ada"
        assert until(lambda: [each.target for each in lab.recorded()], "the call") == ["/greeting"]
        lab.settle()


def test_outside_a_lab_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert Shop().greeting("Ada") == "Hello, Ada"


def test_lab_that_is_gone_is_reported_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, "127.0.0.1:9 127.0.0.1:9")
    monkeypatch.setattr("wirefault.subjects.functions.connections._warned", False)
    greet = Shop().greeting
    assert [greet("a"), greet("b")] == ["Hello, a", "Hello, b"]
    assert capsys.readouterr().err.count("the lab is gone") == 1


@pytest.mark.parametrize("hello", [b"SERVE short\n", b"SERVE " + b"x" * 200, b"SERVE ../../etc/passwd12\n"])
def test_bad_return_connection_is_closed(lab: Lab, hello: bytes) -> None:
    assert ask(lab.address("functions"), hello) == b""


def test_call_without_its_caller_is_refused(lab: Lab) -> None:
    lab.begin()
    address = lab.address("functions")
    connection = http.client.HTTPConnection(address.host, address.port, timeout=PATIENCE_S)
    connection.request("POST", "/place_order", b"{}", {"Tool-Caller": "nobody-at-all-0123456789"})
    assert connection.getresponse().status == 502
    connection.close()


@pytest.fixture
def found_tools(
    tmp_path: Path, flask_upstream: Address, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Lab, Callable[[], int], Callable[[], None], list[str]]]:
    """A lab that has found functions: one that asks the shop over the wire (not in later calls), one that
    sends nothing; and a record of what ran."""
    links = Links(
        [Link("functions", PYTHON, found=True), Link("shop", f"http://{flask_upstream}")], grows=True
    )
    with gateway(tmp_path, links=links, intercepts=False) as lab:
        address = lab.topology.gateways["functions"]
        monkeypatch.setenv(VARIABLE, f"{address} {address}")
        runs: list[str] = []

        @tool
        def over_the_wire(*, cached: bool = False) -> int:
            runs.append("wire")
            return 200 if cached else requests.get(lab.url("shop", "/echo"), timeout=PATIENCE_S).status_code

        @tool
        def alone() -> None:
            runs.append("alone")

        yield lab, over_the_wire, alone, runs
        close_idle()


@pytest.mark.parametrize(
    ("selectors", "functions", "of_shop"),
    [
        ({"links": "tools"}, ["wire", "alone", "alone"], 1),
        ({"links": "functions"}, ["wire", "wire", "alone", "alone"], 0),
        ({"links": "tools", "only": {"tool": "over_the_wire"}}, ["wire", "wire", "alone"], 0),
    ],
)
def test_fault_acts_on_requests_first_and_on_functions_without_any_or_by_name(
    found_tools: Any, selectors: dict[str, Any], functions: list[str], of_shop: int
) -> None:
    lab, over_the_wire, alone, runs = found_tools
    lab.begin(faults={"faults": [{"fault": "duplicate_request", **selectors}]})
    over_the_wire()
    alone()
    assert runs == functions
    struck = [each for each in lab.recorded() if each.link == "shop" and each.faults]
    assert len(struck) == of_shop


def test_function_that_sent_nothing_is_struck_from_its_next_call_on(found_tools: Any) -> None:
    lab, over_the_wire, _, runs = found_tools
    lab.begin(faults={"faults": [{"fault": "duplicate_request", "when": {"first": 1}}]})
    over_the_wire(cached=True)
    assert runs == ["wire"]
    over_the_wire(cached=True)
    assert runs == ["wire"] * 3


def test_traceback_has_no_frame_of_the_lab(lab: Lab) -> None:
    @tool
    def failing() -> None:
        raise KeyError("own")

    @tool
    async def waiting() -> None:
        """A coroutine."""

    def frames(call: Callable[[], Any]) -> list[tuple[str, str]]:
        with pytest.raises(Exception) as raised:
            call()
        text = "".join(traceback.format_exception(raised.value))
        assert "functions/call.py" not in text
        assert "functions/marking.py" not in text
        return [
            (Path(each.filename).name, each.name) for each in traceback.extract_tb(raised.value.__traceback__)
        ]

    here = Path(__file__).name
    lab.begin()
    assert frames(failing)[1:] == [(here, "failing")] * 2
    arm(lab, "lose_reply")
    assert frames(failing)[1:] == [(here, "failing")]
    assert frames(lambda: asyncio.run(waiting()))[-1] == (here, "waiting")
