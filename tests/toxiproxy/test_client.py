"""The client against a real (embedded) server, and against other servers."""

import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from toxiproxy import Toxiproxy

from tests.conformance.servers import embedded_server
from wirefault.toxiproxy.answers import (
    Exists,
    ProxyState,
    Rejected,
    ToxicState,
    ToxiproxyError,
    ToxiproxyNotFound,
    ToxiproxyServerError,
    Unreachable,
    same_listen,
)
from wirefault.toxiproxy.client import ToxiproxyClient

UPSTREAM = "127.0.0.1:9"


@pytest.fixture(scope="module")
def url():
    with embedded_server() as url:
        yield url


@pytest.fixture
def client(url):
    with ToxiproxyClient(url, timeout_s=5) as client:
        yield client
        for name in client.proxies():
            client.delete_proxy(name)


@pytest.fixture
def proxy(client):
    return client.ensure_proxy("p", "127.0.0.1:0", UPSTREAM)


@pytest.fixture
def taken():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def stand_in():
    """A server that answers everything with the status and body set on it."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(server.status)
            self.send_header("Content-Length", str(len(server.body)))
            self.end_headers()
            self.wfile.write(server.body)

        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        do_DELETE = do_GET

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_ensure_proxy_creates_once(client, proxy):
    assert proxy == ProxyState("p", proxy.listen, UPSTREAM, enabled=True)
    assert not proxy.listen.endswith(":0")
    for listen in (proxy.listen, "127.0.0.1:0", proxy.listen.replace("127.0.0.1", "localhost")):
        assert client.ensure_proxy("p", listen, UPSTREAM) == proxy
    assert client.proxies() == {"p": proxy}
    assert client.proxy("p") == proxy


def test_ensure_enables_and_keeps_toxics(client, proxy):
    client.add_toxic("p", "t", "timeout", "upstream", {"timeout": 1})
    client.set_enabled("p", False)
    again = client.ensure_proxy("p", proxy.listen, UPSTREAM)
    assert (again.enabled, len(again.toxics)) == (True, 1)


def test_ensure_recreates_changed_proxy(client, proxy):
    client.add_toxic("p", "t", "timeout", "upstream", {"timeout": 1})
    assert client.ensure_proxy("p", proxy.listen, "127.0.0.1:10") == ProxyState(
        "p", proxy.listen, "127.0.0.1:10", enabled=True
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    assert client.ensure_proxy("p", listen, "127.0.0.1:10").listen == listen


def test_taken_port_is_error_unless_replaceable(client, taken):
    with pytest.raises(ToxiproxyServerError, match=r"address already in use.*free that port"):
        client.ensure_proxy("p", taken, UPSTREAM)
    replaced = client.ensure_proxy("p", taken, UPSTREAM, replace_taken=True)
    assert replaced.listen != taken
    assert client.ensure_proxy("p", taken, UPSTREAM, replace_taken=True) == replaced


def test_add_toxic_returns_what_server_stored(client, proxy):
    stored = client.add_toxic("p", "t", "latency", "upstream", {"latency": 5})
    assert stored == ToxicState("t", "latency", "upstream", 1.0, {"latency": 5, "jitter": 0})
    assert client.proxies()["p"].toxics == (stored,)


def test_toxic_attributes_are_updated_in_place(client, proxy):
    client.add_toxic("p", "t", "latency", "upstream", {"latency": 5})
    client.update_toxic("p", "t", {"latency": 7, "jitter": 1})
    assert client.proxy("p").toxics == (
        ToxicState("t", "latency", "upstream", 1.0, {"latency": 7, "jitter": 1}),
    )
    with pytest.raises(ToxiproxyNotFound):
        client.update_toxic("p", "gone", {"latency": 7})


def test_remove_and_delete_are_idempotent(client, proxy):
    client.add_toxic("p", "t", "latency", "upstream", {})
    for _ in range(2):
        client.remove_toxic("p", "t")
    assert client.proxy("p").toxics == ()
    for _ in range(2):
        client.delete_proxy("p")
    client.remove_toxic("p", "t")
    assert client.proxies() == {}


def test_errors_have_type_and_advice(client, proxy):
    client.add_toxic("p", "t", "latency", "upstream", {})
    with pytest.raises(Exists, match=r"toxic already exists.*remove it first"):
        client.add_toxic("p", "t", "latency", "upstream", {})
    with pytest.raises(Rejected, match="invalid toxic type"):
        client.add_toxic("p", "u", "bogus", "upstream", {})
    for call in (client.proxy, lambda name: client.set_enabled(name, True)):
        with pytest.raises(ToxiproxyNotFound, match="proxy not found"):
            call("none")


@pytest.mark.parametrize("name", ["", "a/b", "a b", "../p", ".", "a?b", "a#b", "a%2Fb", "é", "a\n"])
def test_names_invalid_in_path_are_rejected(client, proxy, name):
    with pytest.raises(Rejected, match="cannot name"):
        client.ensure_proxy(name, "127.0.0.1:0", UPSTREAM)
    with pytest.raises(Rejected):
        client.add_toxic("p", name, "latency", "upstream", {})
    with pytest.raises(Rejected):
        client.remove_toxic("p", name)
    with pytest.raises(Rejected):
        client.delete_proxy(name)


def test_missing_server_is_unreachable():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with ToxiproxyClient(f"http://127.0.0.1:{port}") as client, pytest.raises(Unreachable, match="start it"):
        client.ensure_proxy("p", "127.0.0.1:0", UPSTREAM)


def test_unresponsive_server_is_unreachable(taken):
    with ToxiproxyClient(f"http://{taken}", timeout_s=0.05) as client:
        for call in (client.version, client.proxies, lambda: client.remove_toxic("p", "t")):
            with pytest.raises(Unreachable, match="in time"):
                call()


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (500, b'{"error": "broken", "status": 500}', "broken .HTTP 500"),
        (503, b"<html>", "<html> .HTTP 503"),
        (200, b"<html>", "not Toxiproxy"),
        (200, b"[]", "not Toxiproxy"),
        (200, b"{}", "not Toxiproxy"),
        (302, b"", "HTTP 302"),
    ],
)
def test_foreign_server_is_server_error(stand_in, status, body, error):
    stand_in.status, stand_in.body = status, body
    with ToxiproxyClient(f"http://127.0.0.1:{stand_in.server_port}") as client:
        for call in (
            client.version,
            lambda: client.proxy("p"),
            lambda: client.ensure_proxy("p", "127.0.0.1:0", UPSTREAM),
            lambda: client.add_toxic("p", "t", "latency", "upstream", {}),
            lambda: client.set_enabled("p", True),
        ):
            with pytest.raises(ToxiproxyServerError, match=error):
                call()


@pytest.mark.slow
def test_restarted_server_is_reached_again():
    with embedded_server() as url:
        client = ToxiproxyClient(url)
        client.ensure_proxy("p", "127.0.0.1:0", UPSTREAM)
    with client:
        with pytest.raises(Unreachable):
            client.proxies()
        with embedded_server(port=int(url.rpartition(":")[2])):
            assert client.proxies() == {}


@pytest.mark.slow
def test_two_in_process_servers_are_separate(client, proxy):
    with embedded_server() as url, ToxiproxyClient(url) as other:
        other.ensure_proxy("q", "127.0.0.1:0", UPSTREAM)
        client.add_toxic("p", "t", "latency", "upstream", {})
        assert (list(client.proxies()), list(other.proxies())) == (["p"], ["q"])


def test_threads_share_client(client):
    def work(number):
        client.ensure_proxy(f"p{number}", "127.0.0.1:0", UPSTREAM)
        client.add_toxic(f"p{number}", "t", "latency", "upstream", {"latency": number})

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    latencies = {name: state.toxics[0].attributes["latency"] for name, state in client.proxies().items()}
    assert latencies == {f"p{number}": number for number in range(8)}


def test_environment_proxy_is_ignored(client, monkeypatch, taken):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://{taken}")
    assert client.version() == "2.12.0"


def test_library_cannot_bypass_client():
    with pytest.raises(LookupError):
        Toxiproxy().proxies()


@pytest.mark.parametrize("url", ["127.0.0.1:8474", "https://a:1", "http://", "http://a:1/path", "ftp://a"])
def test_bad_url_is_refused(url):
    with pytest.raises(ValueError, match="TOXIPROXY_URL"):
        ToxiproxyClient(url)


@pytest.mark.parametrize(
    ("requested", "actual", "same"),
    [
        ("127.0.0.1:1", "127.0.0.1:1", True),
        ("127.0.0.1:1", "127.0.0.1:2", False),
        ("127.0.0.1:1", "127.0.0.2:1", False),
        ("0.0.0.0:1", "[::]:1", True),
        (":1", "[::]:1", True),
        ("0.0.0.0:1", "127.0.0.1:1", False),
        ("toxiproxy:1", "172.18.0.2:1", True),
        ("toxiproxy:1", "172.18.0.2:2", False),
    ],
)
def test_listen_addresses_are_compared_in_server_form(requested, actual, same):
    assert same_listen(requested, actual) is same


@pytest.mark.parametrize("error", [Unreachable, ToxiproxyServerError, ToxiproxyNotFound, Exists, Rejected])
def test_all_errors_are_toxiproxy_errors(error):
    assert issubclass(error, ToxiproxyError)
