"""Experiments on functions of this process, run in a real lab."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from wirefault import Experiment

pytestmark = pytest.mark.slow


@dataclass
class Shop:
    """A server that takes orders."""

    orders: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""


@pytest.fixture
def shop() -> Iterator[Shop]:
    shop = Shop()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            shop.orders.append(json.loads(body))
            self.answer(201)

        def do_GET(self) -> None:
            self.answer(200)

        def answer(self, status: int) -> None:
            body = json.dumps({"orders": len(shop.orders)}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    shop.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield shop
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def quiet(_: str) -> None:
    pass


def wired(shop: Shop) -> dict[str, Any]:
    return {"links": {"shop": {"upstream": shop.url, "writes": ["POST /orders"]}}}


def test_function_that_orders_once_is_held(shop: Shop) -> None:
    with httpx.Client() as client:  # made before the run

        def agent(prompt: str) -> str:
            try:
                client.post(f"{shop.url}/orders", json={"item": prompt})
            except httpx.HTTPError:
                return "I could not confirm the order."
            return "Ordered."

        report = Experiment(
            subject=agent,
            wiring=wired(shop),
            prompts=["Order one apple"],
            faults=["lost-replies"],
            checks=["no duplicate"],
            seed=1,
        ).run(say=quiet)
    assert report.verdict == "held", str(report)
    assert len(shop.orders) == 3  # before, under faults, and after


def test_function_that_orders_again_is_deviated(shop: Shop) -> None:
    def agent(prompt: str) -> str:
        for _ in range(2):
            try:
                httpx.post(f"{shop.url}/orders", json={"item": prompt})
            except httpx.HTTPError:
                continue
            return "Ordered."
        return "I could not confirm the order."

    report = Experiment(
        subject=agent,
        wiring=wired(shop),
        prompts=["Order one apple"],
        faults=["lost-replies"],
        checks=["no duplicate"],
        seed=1,
    ).run(say=quiet)
    assert report.verdict == "deviated", str(report)
    assert len(shop.orders) == 4


def test_function_without_calls_is_unknown() -> None:
    report = Experiment(
        subject=lambda prompt: "Ordered.",
        prompts=["Order one apple"],
        faults=["lost-replies"],
        checks=["no duplicate"],
    ).run(say=quiet)
    assert report.verdict == "unknown"
    assert "no fault reached it" in report.because
