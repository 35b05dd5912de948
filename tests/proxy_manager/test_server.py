"""The manager's HTTP API."""

from __future__ import annotations

from tests.proxy_manager.rig import LATENCY, Plane, app_of, looping
from tests.support import until
from wirefault.wiring.links import lab_links


def test_health_readiness_and_status(plane: Plane) -> None:
    with looping(plane) as loop:
        client = app_of(plane, loop).test_client()
        assert client.get("/health").json == {"status": "OK"}
        until(lambda: client.get("/ready").status_code == 200)
        plane.request([LATENCY])
        until(lambda: plane.attempt(1).state == "armed")
        until(lambda: (client.get("/status").json or {}).get("observed"))
        status = client.get("/status").json
        assert (status["lab_id"], status["lane"], status["ready"]) == ("lab", 0, True)
        assert (status["run"], status["episode"], status["attempt"]) == ("run-1", "001", 1)
        assert status["desired"] == status["observed"]
        assert [row["kind"] for row in status["observed"]] == ["latency"]
        assert status["proxies"].keys() == {link.name for link in lab_links()}


def test_not_ready_says_why_and_is_alive_all_same(plane: Plane) -> None:
    with looping(plane) as loop:
        until(lambda: loop.error is None)
    loop._error = "no Toxiproxy"
    client = app_of(plane, loop).test_client()
    answer = client.get("/ready")
    assert (answer.status_code, answer.json) == (503, {"ready": False, "error": "no Toxiproxy"})
    assert client.get("/health").status_code == 200
    assert client.get("/status").json["error"] == "no Toxiproxy"
