"""The lab's live state on the server of ``wirefault ui``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest
import requests

from tests.report.page.recorded import HOSTILE, doubled_order, synthetic
from wirefault.core.api_server import api_in_thread
from wirefault.core.sockets import LOOPBACK, Address, bind, bound_address
from wirefault.report.ui.app import ui_app
from wirefault.report.ui.lab import MAX_REQUESTS, LabWatch, lab_finder, last_requests

PATIENCE_S = 30
TIMEOUT = {"link": "shop", "kind": "timeout", "stream": "upstream", "attributes": {"timeout": 400}}


@dataclass
class Manager:
    """A manager's ``/status``, and the headers of the requests for it."""

    address: Address
    status: dict[str, Any] = field(default_factory=lambda: {"proxies": {"shop": "127.0.0.1:6000"}})
    authorization: set[str] = field(default_factory=set)


class Silent(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def manager() -> Iterator[Manager]:
    def answer(environ: dict[str, Any], start: Any) -> list[bytes]:
        manager.authorization.add(environ.get("HTTP_AUTHORIZATION", ""))
        start("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(manager.status).encode()]

    with make_server(LOOPBACK, 0, answer, handler_class=Silent) as server:
        manager = Manager(Address(LOOPBACK, server.server_port))
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield manager
        server.shutdown()
        thread.join()


@pytest.fixture
def url(tmp_path: Path, manager: Manager) -> Iterator[str]:
    listener = bind(Address(LOOPBACK, 0))
    watch = LabWatch(tmp_path, lambda: manager.address)
    with api_in_thread(ui_app(tmp_path, {}, watch), listener):
        yield f"http://{LOOPBACK}:{bound_address(listener).port}"


def get(url: str, **more: Any) -> requests.Response:
    return requests.get(url, timeout=PATIENCE_S, **more)


def test_links_toxics_and_last_requests_are_shown_escaped(url: str, tmp_path: Path, manager: Manager) -> None:
    doubled_order(tmp_path, HOSTILE)
    manager.status |= {"observed": [TIMEOUT], "run": HOSTILE, "proxies": {"shop": "a:1", HOSTILE: "b:2"}}
    page = get(f"{url}/lab").text
    assert "timeout upstream, timeout 400" in page
    assert "<img" not in page and "alert(1)</script>" not in page and "\x1b" not in page
    del manager.status["run"]
    assert "connect-src &#39;self&#39;" in page and manager.authorization == {""}


def test_requests_are_the_newest_with_their_faults(tmp_path: Path) -> None:
    synthetic(tmp_path, 24)
    doubled_order(tmp_path)
    lost = last_requests(tmp_path, ["run-b"])
    assert [(row.link, row.faults, row.failed) for row in lost] == [
        ("shop", "", False),
        ("shop", "tea", True),
    ]
    assert len(last_requests(tmp_path, ["run-a"])) == MAX_REQUESTS
    assert last_requests(tmp_path, ["../runs/run-b", "missing", ""]) == []


def test_unreadable_lines_are_left_out(tmp_path: Path) -> None:
    doubled_order(tmp_path)
    [history] = (tmp_path / "runs" / "run-b").glob("gateway*.jsonl")
    with history.open("a", encoding="utf-8") as file:
        file.write('{"type": "exchange"}\nnot JSON\n{"cut')
    assert len(last_requests(tmp_path, ["run-b"])) == 2


def test_change_of_the_lab_is_sent(url: str, manager: Manager) -> None:
    with get(f"{url}/lab/changes", stream=True) as stream:
        updates = (line for line in stream.iter_lines() if line.startswith(b"data: "))
        assert b"timeout" not in next(updates)
        manager.status["observed"] = [TIMEOUT]
        html = json.loads(next(updates).removeprefix(b"data: "))
    assert "timeout upstream, timeout 400" in html


def test_status_of_the_manager_is_passed_on(url: str, manager: Manager) -> None:
    assert get(f"{url}/status").json() == manager.status
    assert get(f"{url}/health").status_code == 200
    assert "The lab, live</a>: No run is in progress." in get(url).text


def test_without_a_lab_the_page_names_the_command(tmp_path: Path) -> None:
    watch = LabWatch(tmp_path, lab_finder({}, tmp_path / "state"))
    assert "wirefault lab up" in watch.state().doing and watch.status() is None
    gone = LabWatch(tmp_path, lambda: Address(LOOPBACK, 1))
    assert gone.state().doing == "The lab's manager at 127.0.0.1:1 does not answer."


def test_manager_of_compose_is_the_named_one(tmp_path: Path) -> None:
    assert lab_finder({"MANAGER_HOST": "manager-status"}, tmp_path)() == Address("manager-status", 8000)
