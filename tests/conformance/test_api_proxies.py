"""The HTTP API: proxies"""

import socket

import pytest

from tests.conformance.answers import BAD_BODY, MALFORMED, NO_PROXY, refusal


def test_version_is_reported(api):
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
def test_unknown_routes_and_methods_are_refused(api, method, path, status):
    assert api(method, path)[0] == status


def test_browsers_are_refused(api):
    assert api("GET", "/proxies", **{"User-Agent": "Mozilla/5.0"}) == (403, "User agent not allowed\n")


def test_new_proxy_is_enabled_with_real_port_and_no_toxics(api, name, proxy):
    host, _, port = proxy["listen"].rpartition(":")
    assert (host, int(port) > 0) == ("127.0.0.1", True)
    assert (proxy["name"], proxy["upstream"], proxy["enabled"]) == (name, "127.0.0.1:9", True)
    assert proxy["toxics"] == []
    assert api("GET", f"/proxies/{name}") == (200, proxy)
    assert api("GET", "/proxies")[1][name] == proxy


def test_field_names_ignore_case_and_null_is_absent(api, name):
    body = {"Name": name, "UPSTREAM": "127.0.0.1:9", "listen": "127.0.0.1:0", "enabled": None, "other": 1}
    status, proxy = api("POST", "/proxies", body)
    assert (status, proxy["enabled"]) == (201, True)


@pytest.mark.parametrize("listen", ["0.0.0.0:0", ":0", "[::]:0"])
def test_wildcard_is_listed_as_ipv6(api, name, listen):
    _, proxy = api("POST", "/proxies", {"name": name, "upstream": "127.0.0.1:9", "listen": listen})
    assert proxy["listen"].startswith("[::]:")


def test_disabled_proxy_does_not_listen_and_keeps_invalid_address(api, name):
    body = {"name": name, "upstream": "x", "listen": "bad", "enabled": False}
    status, proxy = api("POST", "/proxies", body)
    assert (status, proxy["listen"], proxy["enabled"]) == (201, "bad", False)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        *((body, BAD_BODY) for body in MALFORMED),
        ({}, "missing required field: name"),
        ({"name": "a"}, "missing required field: upstream"),
        ({"name": "", "upstream": "a"}, "missing required field: name"),
        ({"name": 1}, BAD_BODY),
        ({"enabled": "x"}, BAD_BODY),
        ("null", "missing required field: name"),
    ],
)
def test_invalid_proxy_is_refused(api, body, error):
    assert refusal(api("POST", "/proxies", body)) == (400, error)


def test_duplicate_name_is_refused(api, name, proxy):
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
def test_failed_listen_creates_nothing(api, name, listen, error):
    answer = api("POST", "/proxies", {"name": name, "upstream": "x", "listen": listen})
    assert answer == (500, {"error": error, "status": 500})
    assert api("GET", f"/proxies/{name}") == NO_PROXY


def test_port_in_use_is_named(api, name):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        answer = api("POST", "/proxies", {"name": name, "upstream": "x", "listen": listen})
    assert answer == (500, {"error": f"listen tcp {listen}: bind: address already in use", "status": 500})


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_update_changes_only_named_fields(api, name, proxy, method):
    status, changed = api(method, f"/proxies/{name}", {"upstream": "127.0.0.1:10", "name": "other"})
    assert (status, changed) == (200, proxy | {"upstream": "127.0.0.1:10"})
    assert api(method, f"/proxies/{name}", {"enabled": False})[1]["enabled"] is False
    assert api(method, f"/proxies/{name}", {}) == (200, changed | {"enabled": False})
    assert api(method, f"/proxies/{name}", {"enabled": True})[1] == changed


def test_move_to_port_in_use_leaves_proxy_stopped(api, name, proxy):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        assert api("PATCH", f"/proxies/{name}", {"listen": listen})[0] == 500
    assert api("GET", f"/proxies/{name}")[1] == proxy | {"listen": listen, "enabled": False}


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ({"listen": "bad"}, 500, "address bad: missing port in address"),
        ({"enabled": 1}, 400, BAD_BODY),
        *((body, 400, BAD_BODY) for body in MALFORMED),
    ],
)
def test_invalid_update_changes_nothing(api, name, proxy, body, status, error):
    assert refusal(api("PATCH", f"/proxies/{name}", body)) == (status, error)
    assert api("GET", f"/proxies/{name}") == (200, proxy)


def test_deleted_proxy_is_gone(api, name, proxy):
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
def test_unknown_proxy_is_reported_before_other_errors(api, method, path):
    assert api(method, f"/proxies/none{path}", "x") == NO_PROXY
