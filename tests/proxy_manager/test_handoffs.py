"""The manager's ``/handoffs``: a list, decisions, and a page, all behind the lab's token."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.applications import Starlette

from proxy_manager.handoffs import PAGE, handoff_routes
from tests.gateway.lab import TOKEN
from tests.proxy_manager.rig import ApiClient
from wirefault.core.api_server import api_app, api_in_thread
from wirefault.core.control_access import ControlAccess, bearer, guarded
from wirefault.core.sockets import Address
from wirefault.lab.live import HandoffsClient, LiveFaultsError
from wirefault.state.handoffs import HandoffQueue

KEY = {**bearer(TOKEN), "Content-Type": "application/json"}


@pytest.fixture
def queue(tmp_path: Path) -> HandoffQueue:
    return HandoffQueue(tmp_path / "handoffs.db")


@pytest.fixture
def api(queue: HandoffQueue) -> Iterator[ApiClient]:
    app: Starlette = api_app(handoff_routes(queue))
    access = ControlAccess(TOKEN, (), (PAGE,))
    with socket.create_server(("127.0.0.1", 0)) as listener, api_in_thread(guarded(app, access), listener):
        yield ApiClient(f"http://127.0.0.1:{listener.getsockname()[1]}")


def put(queue: HandoffQueue, seconds: float = 60) -> int:
    now = time.time()
    where = ("run-1", "order", 1)
    return queue.put(
        where, "send_message", {"to": "Bob"}, "unknown_effect", "read_timeout", now, now + seconds
    )


def test_waiting_calls_come_first_and_are_decided_once(api: ApiClient, queue: HandoffQueue) -> None:
    assert api.send("GET", "/handoffs", headers=KEY).json() == {"handoffs": []}
    first, second = put(queue), put(queue)
    decided = api.send("POST", f"/handoffs/{second}/deny", headers=KEY).json()
    assert (decided["state"], decided["decided_by"]) == ("denied", "a person")
    cases = api.send("GET", "/handoffs", headers=KEY).json()["handoffs"]
    assert [(case["id"], case["state"]) for case in cases] == [(first, "waiting"), (second, "denied")]
    assert cases[0]["arguments"] == {"to": "Bob"} and 0 < cases[0]["seconds_left"] <= 60
    again = api.send("POST", f"/handoffs/{second}/approve", headers=KEY)
    assert again.status_code == 409 and "is denied; nothing was changed" in again.text


def test_answer_after_the_wait_is_too_late(api: ApiClient, queue: HandoffQueue) -> None:
    late = api.send("POST", f"/handoffs/{put(queue, -1)}/approve", headers=KEY)
    assert late.status_code == 409 and "is over" in late.text


@pytest.mark.parametrize("path", ["/handoffs/7/approve", "/handoffs/x/approve", "/handoffs/1/perhaps"])
def test_unknown_call_or_decision(api: ApiClient, queue: HandoffQueue, path: str) -> None:
    put(queue)
    assert api.send("POST", path, headers=KEY).status_code == 404


def test_nothing_is_shown_or_decided_without_token(api: ApiClient, queue: HandoffQueue) -> None:
    id = put(queue)
    for method, path in (("GET", "/handoffs"), ("POST", f"/handoffs/{id}/approve")):
        assert api.send(method, path, headers={"Content-Type": "application/json"}).status_code == 401
        foreign = api.send(method, path, headers={**KEY, "Origin": "http://example.com"})
        assert foreign.status_code == 403
    page = api.get(PAGE)
    assert page.status_code == 200 and "Bob" not in page.text
    case = queue.get(id)
    assert case is not None and case.decision is None


def test_client_lists_and_decides(api: ApiClient, queue: HandoffQueue, tmp_path: Path) -> None:
    address = Address.parse(api.url.removeprefix("http://"))
    client, id = HandoffsClient(address, tmp_path, TOKEN), put(queue)
    assert [case["state"] for case in client.cases()] == ["waiting"]
    assert client.decide(id, "approve")["state"] == "approved"
    with pytest.raises(LiveFaultsError, match="is approved; nothing was changed"):
        client.decide(id, "deny")
    assert client.page == f"{address.url}{PAGE}#{TOKEN}"
    with pytest.raises(LiveFaultsError, match="does not know this folder's token"):
        HandoffsClient(address, tmp_path, "another").cases()
