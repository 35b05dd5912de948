"""The manager's HTTP API."""

from __future__ import annotations

import os

import pytest

from tests.gateway.lab import TOKEN
from tests.proxy_manager.rig import LATENCY, Plane, api_of, looping
from tests.support import until
from wirefault.core.control_access import bearer
from wirefault.state.handoffs import FILE_NAME
from wirefault.wiring.links import lab_links


def test_health_readiness_and_status(plane: Plane) -> None:
    with looping(plane) as loop, api_of(plane, loop) as api:
        assert api.json("/health") == {"status": "OK"}
        until(lambda: api.get("/ready").status_code == 200)
        plane.request([LATENCY])
        until(lambda: plane.attempt(1).state == "armed")
        until(lambda: api.json("/status").get("observed"))
        status = api.json("/status")
        assert (status["lab_id"], status["lane"], status["ready"]) == ("lab", 0, True)
        assert (status["run"], status["episode"], status["attempt"]) == ("run-1", "001", 1)
        assert status["desired"] == status["observed"]
        assert [row["kind"] for row in status["observed"]] == ["latency"]
        assert status["proxies"].keys() == {link.name for link in lab_links()}


def test_unready_manager_is_alive_with_reason(plane: Plane) -> None:
    with looping(plane) as loop:
        until(lambda: loop.error is None)
    loop._error = "no Toxiproxy"
    with api_of(plane, loop) as api:
        answer = api.get("/ready")
        assert (answer.status_code, answer.json()) == (503, {"ready": False, "error": "no Toxiproxy"})
        assert api.get("/health").status_code == 200
        assert api.json("/status")["error"] == "no Toxiproxy"


@pytest.mark.parametrize("path", ["/faults", "/handoffs"])
def test_planted_database_is_named(plane: Plane, path: str) -> None:
    with looping(plane) as loop, api_of(plane, loop) as api:
        file = plane.state.path if path == "/faults" else plane.folder / "logs" / FILE_NAME
        file.parent.mkdir(exist_ok=True)
        file.unlink(missing_ok=True)
        os.mkfifo(file)
        answer = api.send("GET", path, headers=bearer(TOKEN))
        file.unlink()
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "not_readable")
        assert f"{file.name} is not a regular file" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [("GET", "/fault", (404, "not_found")), ("POST", "/faults", (405, "method_not_allowed"))],
)
def test_unknown_path_or_method_is_json_error(
    plane: Plane, method: str, path: str, expected: tuple[int, str]
) -> None:
    with looping(plane) as loop, api_of(plane, loop) as api:
        answer = api.send(method, path, json={}, headers=bearer(TOKEN))
        assert (answer.status_code, answer.json()["error"]["code"]) == expected
