"""Faults set, listed and cleared on a running lab, over the manager's HTTP API."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from requests import Response

from proxy_manager.loop import Loop
from tests.proxy_manager.rig import TOKEN, ApiClient, Plane, api_of, looping
from tests.support import until
from wirefault.faults.sets.presets import preset
from wirefault.history.events import FaultsSet
from wirefault.history.reader import read_file
from wirefault.history.writer import history_file

HEADERS = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
SET = {"faults": [{"fault": "truncate", "links": ["search"]}]}


@pytest.fixture
def loop(plane: Plane) -> Iterator[Loop]:
    with looping(plane) as running:
        plane.clock.now = time.time()
        until(lambda: running.error is None)
        yield running


@pytest.fixture
def client(plane: Plane, loop: Loop) -> Iterator[ApiClient]:
    with api_of(plane, loop) as api:
        yield api


def put(client: ApiClient, faults: Any = SET, **headers: str | None) -> Response:
    all_headers = {**HEADERS, **{name.replace("_", "-"): value for name, value in headers.items()}}
    present = {name: value for name, value in all_headers.items() if value is not None}
    return client.send("PUT", "/faults", json={"faults": faults}, headers=present)


def error(answer: Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def faults_set(plane: Plane) -> list[FaultsSet]:
    path = history_file(plane.folder / "logs", "run-1", "gateway", 0)
    events = list(read_file(path)) if path.exists() else []
    return [event for event in events if isinstance(event, FaultsSet)]


def armed(plane: Plane, attempt: int = 1) -> int:
    attempt_id = plane.request([], attempt=attempt)
    until(lambda: plane.attempt(attempt_id).state == "armed")
    return attempt_id


def test_faults_apply_without_run(client: ApiClient, plane: Plane) -> None:
    assert client.json("/faults") == {
        "number": 0,
        "faults": None,
        "source": "",
        "from": None,
        "note": "",
        "live": None,
    }
    answer = put(client).json()
    assert (answer["number"], answer["source"]) == (1, "a set")
    assert answer["from"] == "from now on"
    assert "these faults now apply to all traffic" in answer["note"]
    assert answer["live"] == {"run": "live-lab", "requests": {}, "faults": []}
    assert answer["faults"]["faults"][0]["fault"] == "truncate"
    assert client.json("/faults") == answer
    assert client.json("/status")["configuration"] == 1


def test_faults_set_in_attempt_apply_at_once_and_are_recorded(client: ApiClient, plane: Plane) -> None:
    armed(plane)
    answer = put(client, "light").json()
    assert (answer["from"], answer["note"]) == ("from run run-1, prompt 001, attempt 1 on", "")
    [event] = faults_set(plane)
    assert (event.number, event.episode, event.attempt) == (1, "001", 1)
    assert event.faults == preset("light").dump()


def test_cleared_faults_do_not_apply(client: ApiClient, plane: Plane) -> None:
    armed(plane)
    put(client)
    answer = client.send("DELETE", "/faults", json={}, headers=HEADERS).json()
    assert (answer["number"], answer["faults"]) == (2, None)
    assert [(event.number, event.faults) for event in faults_set(plane)][1:] == [(2, "")]


def test_faults_between_attempts_apply_from_next_on(client: ApiClient, plane: Plane) -> None:
    first = armed(plane)
    plane.state.move_attempt(first, "armed", "finished", plane.clock())
    until(lambda: plane.attempt(first).state == "healed")
    assert put(client).json()["from"] == "from the next attempt on"
    assert faults_set(plane) == []
    armed(plane, attempt=2)
    assert [(event.number, event.attempt) for event in faults_set(plane)] == [(1, 2)]
    # the attempt is armed before the status names it
    until(lambda: client.json("/faults")["from"].startswith("from run run-1, prompt 001, attempt 2"))


def test_earlier_faults_do_not_apply_to_later_run(client: ApiClient, plane: Plane) -> None:
    put(client)
    plane.clock.now += 1
    armed(plane)
    assert faults_set(plane) == []


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Authorization": None}, (401, "token")),
        ({"Authorization": "Bearer wrong"}, (401, "token")),
        ({"Authorization": TOKEN}, (401, "token")),
        ({"Host": "lab.example"}, (403, "foreign_host")),
        ({"Host": "["}, (403, "foreign_host")),
        ({"Origin": "http://lab.example"}, (403, "foreign_origin")),
        ({"Origin": "null"}, (403, "foreign_origin")),
        ({"Origin": "http://["}, (403, "foreign_origin")),
        ({"Content_Type": "text/plain"}, (415, "not_json")),
    ],
)
def test_unauthorized_request_is_refused(
    client: ApiClient, headers: dict[str, Any], expected: tuple[int, str]
) -> None:
    assert error(put(client, **headers)) == expected
    assert client.json("/faults")["number"] == 0


@pytest.mark.parametrize("host", ["localhost:8000", "127.0.0.1", "[::1]:8000"])
def test_loopback_names_and_own_pages_are_allowed(client: ApiClient, host: str) -> None:
    assert put(client, Host=host, Origin=f"http://{host}").status_code == 200


def test_chaos_level_is_shown(client: ApiClient) -> None:
    answer = client.send("PUT", "/faults", json={"faults": "light", "chaos_level": 0.5}, headers=HEADERS)
    assert answer.json()["source"] == "light at chaos level 0.5"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"faults": "ligth"}, "did you mean 'light'"),
        (
            {"faults": {"faults": [{"fault": "truncat"}]}},
            "faults[1]: unknown fault 'truncat'; did you mean",
        ),
        ({"faults": [1]}, "must be a mapping"),
        ({"faults": {}}, "DELETE /faults"),
        ({"faults": "light", "chaos_level": 3}, "0 .. 2"),
        ({"faults": "light", "more": 1}, "send"),
        ([], "send"),
    ],
)
def test_bad_set_is_refused(client: ApiClient, body: Any, message: str) -> None:
    answer = client.send("PUT", "/faults", json=body, headers=HEADERS)
    assert answer.status_code == 400 and message in answer.json()["error"]["message"]


def test_set_refused_by_gateway_keeps_previous_set(
    client: ApiClient, plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    armed(plane)
    put(client)
    monkeypatch.setattr("wirefault.gateway.control.REGISTRY", {})
    assert error(put(client, "light")) == (409, "faults_refused")
    assert client.json("/faults")["number"] == 1
    assert [event.number for event in faults_set(plane)] == [1]


def test_unready_manager_refuses_faults(plane: Plane) -> None:
    with looping(plane) as loop:
        until(lambda: loop.error is None)
    loop._error = "no Toxiproxy"
    with api_of(plane, loop) as api:
        assert error(put(api)) == (503, "not_ready")


def test_oversized_body_is_refused(client: ApiClient) -> None:
    answer = client.send("PUT", "/faults", data=b" " * (2 << 20), headers=HEADERS)
    assert error(answer) == (413, "too_large")
    assert client.json("/faults")["number"] == 0


def test_set_ends_with_its_manager(client: ApiClient, plane: Plane, loop: Loop) -> None:
    """Nothing will put it in force any more."""
    loop.stop.set()
    assert error(put(client)) == (503, "not_in_force")
