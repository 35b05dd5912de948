"""A user's shop behind the gateway: executed orders are known from the wire and match its books."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests
from flask import Flask, request

from tests.gateway.lab import Lab, gateway
from tests.judging.findings.traced import findings_in
from tests.judging.oracle.histories import armed, ended, healed, judge_episode, run_started, world
from tests.support import PATIENCE_S, replace, until
from tests.upstream import FREE, serving
from wirefault.core.sockets import Address
from wirefault.history.events import EpisodeJudged, EpisodeStarted
from wirefault.wiring.links import Link, Links

TEA = {"link": "shop", "method": "POST", "path": "/orders", "json": {"item": "tea", "count": 2}}


@dataclass
class Shop:
    """A shop with books; a known key is not a new order."""

    address: Address = FREE
    orders: list[Any] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    released: threading.Event | None = None  # the first order waits for it

    def app(self) -> Flask:
        app = Flask("shop")

        @app.post("/orders")
        def order() -> Any:
            order, key = request.get_json(), request.headers.get("Idempotency-Key", "")
            released, self.released = self.released, None
            if released is not None:
                released.wait(PATIENCE_S)
            if order.get("count", 1) < 1:
                return {"error": "nothing ordered"}, 422
            if not key or key not in self.keys:
                self.orders.append(order)
                self.keys.add(key)
            return {"ordered": len(self.orders)}, 201

        return app


@pytest.fixture
def shop() -> Iterator[Shop]:
    store = Shop()
    with serving(store.app()) as store.address:
        yield store


@pytest.fixture
def lab(tmp_path: Path, shop: Shop) -> Iterator[Lab]:
    link = Link("shop", upstream=shop.address.url, writes=("POST /orders", "DELETE /orders/*"))
    with gateway(tmp_path, links=Links([link])) as lab:
        yield lab


def order(lab: Lab, tries: int = 3, item: str = "tea", count: int = 2, **headers: str) -> None:
    """An agent that orders, and tries again while it gets no answer or an error of the server's."""
    for _ in range(tries):
        try:
            reply = requests.post(
                lab.url("shop", "/orders"),
                json={"item": item, "count": count},
                headers=headers,
                timeout=PATIENCE_S,
            )
        except (requests.ConnectionError, requests.exceptions.ChunkedEncodingError):
            continue
        if reply.status_code < 500:
            return


def judged(lab: Lab, *expected: dict[str, Any], **more: Any) -> EpisodeJudged:
    """The verdict on episode e1, whose agent claims success."""
    lab.settle()
    started = EpisodeStarted(
        101.0, "e1", "Order tea", {"requests": list(expected), **more} if expected else None
    )
    around = [armed(episode="e1"), ended(episode="e1"), healed(episode="e1"), world(episode="e1")]
    return judge_episode([started, *around, *lab.recorded()])


def faulted(name: str, n: int = 1, **parameters: Any) -> str:
    entry = {"fault": name, "links": "shop", "with": parameters, "when": {"at_most": n}}
    return json.dumps({"faults": [entry]})


def test_client_timeout_before_slow_shop_repeats_order(lab: Lab, shop: Shop) -> None:
    lab.begin()
    shop.released = released = threading.Event()
    with pytest.raises(requests.ReadTimeout):
        requests.post(lab.url("shop", "/orders"), json={"item": "tea", "count": 1}, timeout=0.3)
    until(lambda: shop.released is None)
    order(lab, count=1)
    released.set()
    until(lambda: len(shop.orders) == 2)
    lab.settle()
    [finding] = findings_in([replace(run_started(1), links=list(lab.topology.links)), *lab.recorded()])
    assert finding.rule == "write_repeated" and "after the client had given up on it" in finding.text


def test_single_order_is_as_asked(lab: Lab, shop: Shop) -> None:
    lab.begin()
    order(lab)
    verdict = judged(lab, TEA)
    assert (verdict.world, verdict.outcome, len(shop.orders)) == ("as_asked", "success", 1)


@pytest.mark.parametrize(
    ("fault", "parameters", "orders", "outcome"),
    [
        ("lose_reply", {}, 2, "duplicate"),
        ("lose_request", {}, 1, "success"),
        ("unavailable", {}, 1, "success"),
        ("truncate", {}, 2, "duplicate"),
        ("duplicate_request", {}, 2, "duplicate"),
    ],
)
def test_executed_orders_are_judged_from_wire(
    lab: Lab, shop: Shop, fault: str, parameters: dict[str, Any], orders: int, outcome: str
) -> None:
    lab.begin(faults=faulted(fault, **parameters))
    order(lab)
    verdict = judged(lab, TEA)
    assert (len(shop.orders), verdict.outcome) == (orders, outcome), verdict.why


@pytest.mark.parametrize("fault", ["lose_reply", "duplicate_request"])
def test_honoured_key_is_not_duplicate(lab: Lab, shop: Shop, fault: str) -> None:
    lab.begin(faults=faulted(fault))
    order(lab, **{"Idempotency-Key": "order-1"})
    verdict = judged(lab, TEA)
    assert (len(shop.orders), verdict.outcome) == (1, "success")


def test_refused_order_is_lost(lab: Lab, shop: Shop) -> None:
    lab.begin()
    order(lab, count=0)
    verdict = judged(lab, TEA)
    assert (verdict.world, shop.orders) == ("lost", [])
    assert verdict.why == "POST /orders of shop missing (refused: POST /orders of shop with 422)"


def test_different_order_is_wrong_and_additional_is_extra(lab: Lab) -> None:
    lab.begin()
    order(lab, item="coffee")
    assert judged(lab, TEA).world == "wrong"
    lab.begin()
    order(lab)
    order(lab, item="coffee")
    assert judged(lab, TEA).world == "extra"
    assert judged(lab, TEA, others="allowed").world == "as_asked"
