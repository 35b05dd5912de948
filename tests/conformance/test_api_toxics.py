"""The HTTP API: toxics"""

import pytest

from tests.conformance.answers import BAD_BODY, MALFORMED, NO_TOXIC, refusal
from tests.conformance.kinds import COMPARED
from wirefault.toxiproxy.toxics import SERVER_TOXICS


@pytest.mark.parametrize("kind", [compared.kind for compared in COMPARED])
def test_toxic_defaults(api, name, proxy, kind):
    toxic = {
        "attributes": {attribute.name: 0 for attribute in SERVER_TOXICS[kind].attributes},
        "name": f"{kind}_downstream",
        "type": kind,
        "stream": "downstream",
        "toxicity": 1,
    }
    assert api("POST", f"/proxies/{name}/toxics", {"type": kind}) == (200, toxic)
    assert api("GET", f"/proxies/{name}/toxics") == (200, [toxic])
    assert api("GET", f"/proxies/{name}/toxics/{kind}_downstream") == (200, toxic)
    assert api("GET", f"/proxies/{name}")[1]["toxics"] == [toxic]


def test_toxic_with_all_fields(api, name, proxy):
    body = {
        "type": "latency",
        "name": "a b",
        "stream": "UPSTREAM",
        "attributes": {"Latency": 5, "unknown": 1},
        "toxicity": 2,
    }
    status, toxic = api("POST", f"/proxies/{name}/toxics", body)
    assert (status, toxic["attributes"], toxic["stream"]) == (200, {"latency": 5, "jitter": 0}, "UPSTREAM")
    assert api("GET", f"/proxies/{name}/toxics/a%20b") == (200, toxic)


def test_toxics_are_listed_upstream_first(api, name, proxy):
    for stream in ("downstream", "upstream"):
        for kind in ("timeout", "latency"):
            api("POST", f"/proxies/{name}/toxics", {"type": kind, "stream": stream})
    listed = [toxic["name"] for toxic in api("GET", f"/proxies/{name}/toxics")[1]]
    assert listed == ["timeout_upstream", "latency_upstream", "timeout_downstream", "latency_downstream"]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        *((body, BAD_BODY) for body in MALFORMED),
        ({}, "invalid toxic type"),
        ({"type": "bogus"}, "invalid toxic type"),
        ({"type": "latency", "stream": "x"}, "stream was invalid, can be either upstream or downstream"),
        ({"type": "bogus", "stream": "x"}, "stream was invalid, can be either upstream or downstream"),
        ({"type": "latency", "attributes": {"latency": 1.5}}, BAD_BODY),
        ({"type": "timeout", "attributes": {"timeout": "1"}}, BAD_BODY),
        ({"type": "latency", "attributes": 5}, BAD_BODY),
        ({"type": "latency", "toxicity": "x"}, BAD_BODY),
    ],
)
def test_invalid_toxic_is_refused(api, name, proxy, body, error):
    assert refusal(api("POST", f"/proxies/{name}/toxics", body)) == (400, error)
    assert api("GET", f"/proxies/{name}/toxics") == (200, [])


def test_toxic_name_is_unique_across_streams(api, name, proxy):
    for stream, status in (("upstream", 200), ("downstream", 409)):
        answer = api("POST", f"/proxies/{name}/toxics", {"type": "latency", "name": "t", "stream": stream})
        assert answer[0] == status
    assert answer[1] == {"error": "toxic already exists", "status": 409}


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_toxic_update_changes_only_named_fields(api, name, proxy, method):
    body = {"type": "latency", "attributes": {"latency": 5, "jitter": 1}}
    _, toxic = api("POST", f"/proxies/{name}/toxics", body)
    update = {"attributes": {"latency": 7}, "stream": "upstream", "name": "other", "type": "timeout"}
    changed = toxic | {"attributes": {"latency": 7, "jitter": 1}}
    assert api(method, f"/proxies/{name}/toxics/latency_downstream", update) == (200, changed)
    assert api(method, f"/proxies/{name}/toxics/latency_downstream", {}) == (200, changed)


@pytest.mark.parametrize(
    "body",
    [
        *MALFORMED,
        {"attributes": 5},
        {"toxicity": "x"},
        {"attributes": {"delay": 7, "average_size": True}},
    ],
)
def test_malformed_toxic_update_is_refused(api, name, proxy, body):
    api("POST", f"/proxies/{name}/toxics", {"type": "slicer", "name": "t"})
    assert refusal(api("PATCH", f"/proxies/{name}/toxics/t", body)) == (400, BAD_BODY)


def test_toxic_update_that_fails_halfway_keeps_earlier_attributes(api, name, proxy):
    api("POST", f"/proxies/{name}/toxics", {"type": "latency", "name": "t"})
    half = '{"attributes": {"latency": 7, "jitter": "x"}, "toxicity": 0.5}'
    assert api("PATCH", f"/proxies/{name}/toxics/t", half)[0] == 400
    toxic = api("GET", f"/proxies/{name}/toxics/t")[1]
    assert (toxic["attributes"], toxic["toxicity"]) == ({"latency": 7, "jitter": 0}, 1)


@pytest.mark.parametrize(
    ("requested", "stored"),
    [("0.3", 0.3), ("0.1234567890123", 0.12345679), ("1e21", 1e21), ("1e-9", 1e-9), ("-0", 0), ("-3", -3)],
)
def test_toxicity_has_single_precision(api, name, proxy, requested, stored):
    body = f'{{"type": "noop", "name": "t", "toxicity": {requested}}}'
    assert api("POST", f"/proxies/{name}/toxics", body)[1]["toxicity"] == stored


def test_removed_toxic_is_gone(api, name, proxy):
    api("POST", f"/proxies/{name}/toxics", {"type": "latency"})
    assert api("DELETE", f"/proxies/{name}/toxics/latency_downstream") == (204, "")
    for method in ("GET", "PATCH", "DELETE"):
        assert api(method, f"/proxies/{name}/toxics/latency_downstream", "{}") == NO_TOXIC
