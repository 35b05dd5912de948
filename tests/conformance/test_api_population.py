"""The HTTP API: reset and populate"""

import pytest

from tests.conformance.answers import BAD_BODY, refusal


def test_reset_enables_all_and_removes_all_toxics(api, name, proxy):
    api("POST", f"/proxies/{name}/toxics", {"type": "latency"})
    api("PATCH", f"/proxies/{name}", {"enabled": False})
    assert api("POST", "/reset") == (204, "")
    assert api("GET", f"/proxies/{name}") == (200, proxy)


def test_populate_creates_keeps_and_replaces(api, name):
    row = {"name": name, "upstream": "127.0.0.1:9", "listen": "127.0.0.1:0"}
    status, body = api("POST", "/populate", [row])
    created = body["proxies"][0]
    assert (status, created["enabled"]) == (201, True)
    api("POST", f"/proxies/{name}/toxics", {"type": "latency"})
    same = row | {"listen": created["listen"]}
    assert api("POST", "/populate", [same])[1]["proxies"][0]["toxics"] != []
    moved = api("POST", "/populate", [same | {"upstream": "127.0.0.1:10"}])[1]["proxies"][0]
    assert (moved["upstream"], moved["toxics"]) == ("127.0.0.1:10", [])


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ([{"name": "p"}], "missing required field: upstream at proxy 1"),
        ([{"name": "p", "upstream": "x"}, {"upstream": "x"}], "missing required field: name at proxy 2"),
    ],
)
def test_invalid_population_creates_nothing(api, body, error):
    assert api("POST", "/populate", body) == (400, {"error": error, "status": 400, "proxies": None})


def test_empty_population_is_accepted_and_object_refused(api):
    assert api("POST", "/populate", []) == (201, {"proxies": None})
    status, body = api("POST", "/populate", {})
    assert (status, body["status"], body["proxies"]) == (400, 400, None)
    assert refusal((status, body)) == (400, BAD_BODY)


def test_population_that_fails_halfway_keeps_earlier_proxies(api, name):
    good = {"name": name, "upstream": "x", "listen": "127.0.0.1:0"}
    status, body = api("POST", "/populate", [good, good | {"name": "other", "listen": "bad"}])
    assert (status, [proxy["name"] for proxy in body["proxies"]]) == (500, [name])
    assert body["error"] == "listen tcp: address bad: missing port in address"
