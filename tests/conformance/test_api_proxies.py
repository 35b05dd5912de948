"""The HTTP API: proxies"""

import socket

import pytest

from tests.conformance.answers import NO_PROXY, UNSUITABLE


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
