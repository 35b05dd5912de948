"""The HTTP API: routes, defaults, errors and status codes."""

import socket

import pytest

NO_PROXY = (404, {"error": "proxy not found", "status": 404})
NO_TOXIC = (404, {"error": "toxic not found", "status": 404})
UNSUITABLE = [
    ("", "bad request body: EOF"),
    ("x", "bad request body: invalid character 'x' looking for beginning of value"),
]


@pytest.fixture
def proxy(api, name):
    status, proxy = api(
        "POST", "/proxies", {"name": name, "upstream": "127.0.0.1:9", "listen": "localhost:0"}
    )
    assert status == 201
    return proxy


def test_version(api):
    status, body = api("GET", "/version")
    assert status == 200
    assert list(body) == ["version"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/proxies/", 404),
        ("PUT", "/proxies", 405),
        ("DELETE", "/proxies", 405),
        ("GET", "/reset", 405),
        ("GET", "/populate", 405),
        ("PUT", "/proxies/none", 405),
        ("POST", "/version", 405),
        ("HEAD", "/proxies", 405),
    ],
)
def test_unknown_routes_and_methods(api, method, path, status):
    assert api(method, path)[0] == status


def test_browsers_are_turned_away(api):
    assert api("GET", "/proxies", **{"User-Agent": "Mozilla/5.0"}) == (403, "User agent not allowed\n")


def test_a_new_proxy_is_enabled_with_its_real_port_and_no_toxics(api, name, proxy):
    host, _, port = proxy["listen"].rpartition(":")
    assert (host, int(port) > 0) == ("127.0.0.1", True)
    assert (proxy["name"], proxy["upstream"], proxy["enabled"]) == (name, "127.0.0.1:9", True)
    assert proxy["toxics"] == []
    assert api("GET", f"/proxies/{name}") == (200, proxy)
    assert api("GET", "/proxies")[1][name] == proxy


def test_field_names_match_in_any_case_and_null_is_absent(api, name):
    body = {"Name": name, "UPSTREAM": "127.0.0.1:9", "listen": "127.0.0.1:0", "enabled": None, "other": 1}
    status, proxy = api("POST", "/proxies", body)
    assert (status, proxy["enabled"]) == (201, True)


@pytest.mark.parametrize("listen", ["0.0.0.0:0", ":0", "[::]:0"])
def test_a_wildcard_is_shown_as_ipv6(api, name, listen):
    _, proxy = api("POST", "/proxies", {"name": name, "upstream": "127.0.0.1:9", "listen": listen})
    assert proxy["listen"].startswith("[::]:")


def test_a_disabled_proxy_does_not_listen_and_keeps_its_address_unread(api, name):
    body = {"name": name, "upstream": "x", "listen": "bad", "enabled": False}
    status, proxy = api("POST", "/proxies", body)
    assert (status, proxy["listen"], proxy["enabled"]) == (201, "bad", False)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        *UNSUITABLE,
        ({}, "missing required field: name"),
        ({"name": "a"}, "missing required field: upstream"),
        ({"name": "", "upstream": "a"}, "missing required field: name"),
        (
            {"name": 1},
            "bad request body: json: cannot unmarshal number into Go struct field Proxy.name of type string",
        ),
        (
            {"enabled": "x"},
            "bad request body: json: cannot unmarshal string into Go struct field Proxy.enabled of type bool",
        ),
        ("null", "missing required field: name"),
    ],
)
def test_a_bad_proxy_is_refused(api, body, error):
    assert api("POST", "/proxies", body) == (400, {"error": error, "status": 400})


def test_a_name_is_taken_once(api, name, proxy):
    again = api("POST", "/proxies", {"name": name, "upstream": "x", "listen": "127.0.0.1:0"})
    assert again == (409, {"error": "proxy already exists", "status": 409})


@pytest.mark.parametrize(
    ("listen", "error"),
    [
        ("bad", "listen tcp: address bad: missing port in address"),
        ("127.0.0.1:99999", "listen tcp: address 99999: invalid port"),
        ("127.0.0.1:abc", "listen tcp: lookup tcp/abc: unknown port"),
        ("1.2.3.4:0", "listen tcp 1.2.3.4:0: bind: cannot assign requested address"),
        ("1:2:3", "listen tcp: address 1:2:3: too many colons in address"),
    ],
)
def test_where_it_cannot_listen_nothing_is_created(api, name, listen, error):
    answer = api("POST", "/proxies", {"name": name, "upstream": "x", "listen": listen})
    assert answer == (500, {"error": error, "status": 500})
    assert api("GET", f"/proxies/{name}") == NO_PROXY


def test_a_taken_port_is_named(api, name):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        answer = api("POST", "/proxies", {"name": name, "upstream": "x", "listen": listen})
    assert answer == (500, {"error": f"listen tcp {listen}: bind: address already in use", "status": 500})


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_an_update_changes_only_what_it_names(api, name, proxy, method):
    status, changed = api(method, f"/proxies/{name}", {"upstream": "127.0.0.1:10", "name": "other"})
    assert (status, changed) == (200, proxy | {"upstream": "127.0.0.1:10"})
    assert api(method, f"/proxies/{name}", {"enabled": False})[1]["enabled"] is False
    assert api(method, f"/proxies/{name}", {}) == (200, changed | {"enabled": False})
    assert api(method, f"/proxies/{name}", {"enabled": True})[1] == changed


def test_a_move_to_a_taken_port_leaves_the_proxy_stopped(api, name, proxy):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        assert api("PATCH", f"/proxies/{name}", {"listen": listen})[0] == 500
    assert api("GET", f"/proxies/{name}")[1] == proxy | {"listen": listen, "enabled": False}


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ({"listen": "bad"}, 500, "address bad: missing port in address"),
        (
            {"enabled": 1},
            400,
            "bad request body: json: cannot unmarshal number into Go struct field Proxy.enabled of type bool",
        ),
        *((body, 400, error) for body, error in UNSUITABLE),
    ],
)
def test_a_bad_update_changes_nothing(api, name, proxy, body, status, error):
    assert api("PATCH", f"/proxies/{name}", body) == (status, {"error": error, "status": status})
    assert api("GET", f"/proxies/{name}") == (200, proxy)


def test_a_deleted_proxy_is_gone(api, name, proxy):
    assert api("DELETE", f"/proxies/{name}") == (204, "")
    assert api("DELETE", f"/proxies/{name}") == NO_PROXY


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("PATCH", ""),
        ("GET", "/toxics"),
        ("POST", "/toxics"),
        ("GET", "/toxics/none"),
        ("PATCH", "/toxics/none"),
        ("DELETE", "/toxics/none"),
    ],
)
def test_an_unknown_proxy_is_named_first(api, method, path):
    assert api(method, f"/proxies/none{path}", "x") == NO_PROXY


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [("latency", {"latency": 0, "jitter": 0}), ("timeout", {"timeout": 0}), ("reset_peer", {"timeout": 0})],
)
def test_the_defaults_of_a_toxic(api, name, proxy, kind, attributes):
    toxic = {
        "attributes": attributes,
        "name": f"{kind}_downstream",
        "type": kind,
        "stream": "downstream",
        "toxicity": 1,
    }
    assert api("POST", f"/proxies/{name}/toxics", {"type": kind}) == (200, toxic)
    assert api("GET", f"/proxies/{name}/toxics") == (200, [toxic])
    assert api("GET", f"/proxies/{name}/toxics/{kind}_downstream") == (200, toxic)
    assert api("GET", f"/proxies/{name}")[1]["toxics"] == [toxic]


def test_a_toxic_with_everything_given(api, name, proxy):
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
        *UNSUITABLE,
        ({}, "invalid toxic type"),
        ({"type": "bogus"}, "invalid toxic type"),
        ({"type": "latency", "stream": "x"}, "stream was invalid, can be either upstream or downstream"),
        ({"type": "bogus", "stream": "x"}, "stream was invalid, can be either upstream or downstream"),
        (
            {"type": "latency", "attributes": {"latency": 1.5}},
            "bad request body: json: cannot unmarshal number 1.5 into Go struct field"
            " LatencyToxic.attributes.latency of type int64",
        ),
        (
            {"type": "timeout", "attributes": {"timeout": "1"}},
            "bad request body: json: cannot unmarshal string into Go struct field"
            " TimeoutToxic.attributes.timeout of type int64",
        ),
        (
            {"type": "latency", "attributes": 5},
            "bad request body: json: cannot unmarshal number into Go struct field"
            " ToxicWrapper.attributes of type toxics.NoopToxic",
        ),
        (
            {"type": "latency", "toxicity": "x"},
            "bad request body: json: cannot unmarshal string into Go struct field"
            " ToxicWrapper.toxicity of type float32",
        ),
    ],
)
def test_a_bad_toxic_is_refused(api, name, proxy, body, error):
    assert api("POST", f"/proxies/{name}/toxics", body) == (400, {"error": error, "status": 400})
    assert api("GET", f"/proxies/{name}/toxics") == (200, [])


def test_a_toxic_name_is_taken_once_over_both_streams(api, name, proxy):
    for stream, status in (("upstream", 200), ("downstream", 409)):
        answer = api("POST", f"/proxies/{name}/toxics", {"type": "latency", "name": "t", "stream": stream})
        assert answer[0] == status
    assert answer[1] == {"error": "toxic already exists", "status": 409}


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_a_toxic_update_keeps_what_it_does_not_name(api, name, proxy, method):
    body = {"type": "latency", "attributes": {"latency": 5, "jitter": 1}}
    _, toxic = api("POST", f"/proxies/{name}/toxics", body)
    update = {"attributes": {"latency": 7}, "stream": "upstream", "name": "other", "type": "timeout"}
    changed = toxic | {"attributes": {"latency": 7, "jitter": 1}}
    assert api(method, f"/proxies/{name}/toxics/latency_downstream", update) == (200, changed)
    assert api(method, f"/proxies/{name}/toxics/latency_downstream", {}) == (200, changed)


@pytest.mark.parametrize(("body", "error"), UNSUITABLE)
def test_a_bad_toxic_update_is_refused(api, name, proxy, body, error):
    api("POST", f"/proxies/{name}/toxics", {"type": "latency"})
    answer = api("PATCH", f"/proxies/{name}/toxics/latency_downstream", body)
    assert answer == (400, {"error": error, "status": 400})


def test_a_removed_toxic_is_gone(api, name, proxy):
    api("POST", f"/proxies/{name}/toxics", {"type": "latency"})
    assert api("DELETE", f"/proxies/{name}/toxics/latency_downstream") == (204, "")
    for method in ("GET", "PATCH", "DELETE"):
        assert api(method, f"/proxies/{name}/toxics/latency_downstream", "{}") == NO_TOXIC


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
def test_a_bad_population_creates_nothing(api, body, error):
    assert api("POST", "/populate", body) == (400, {"error": error, "status": 400, "proxies": None})


def test_an_empty_population_and_one_that_is_no_list(api):
    assert api("POST", "/populate", []) == (201, {"proxies": None})
    status, body = api("POST", "/populate", {})
    assert (status, body["status"], body["proxies"]) == (400, 400, None)
    assert body["error"].startswith("bad request body: json: cannot unmarshal")


def test_a_population_that_fails_half_way_keeps_the_first_half(api, name):
    good = {"name": name, "upstream": "x", "listen": "127.0.0.1:0"}
    status, body = api("POST", "/populate", [good, good | {"name": "other", "listen": "bad"}])
    assert (status, [proxy["name"] for proxy in body["proxies"]]) == (500, [name])
    assert body["error"] == "listen tcp: address bad: missing port in address"
