"""Generated requests, same replies byte for byte; for malformed bodies the same status"""

import os
import re
import socket

import pytest
import urllib3
from hypothesis import HealthCheck, given, settings

from tests.conformance.bodies import PROXIES, TOXICS, VALUES, arrays, damaged, words
from tests.conformance.conftest import URL_VARIABLE, real_or_skip
from tests.conformance.servers import Line, embedded_server, real_server
from tests.support import PATIENCE_S, until
from wirefault.toxiproxy.client import ToxiproxyClient

HEADERS = ("content-type", "location", "x-content-type-options", "content-length")
generated = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


class Two:
    """The embedded server and the reference."""

    def __init__(self, embedded, other):
        self._urls = (embedded, other)
        self._pool = urllib3.PoolManager()
        self.name = f"differential_{os.getpid()}"

    def alike(self, method, path, body=None):
        """Send the request to both; fail unless status, body and headers are the same."""
        mine, theirs = (self._answer(url, method, path, body) for url in self._urls)
        assert mine == theirs, f"{method} {path} {body!r}"
        return mine[0]

    def anew(self):
        """Recreate the proxy without toxics."""
        for method, path, body in (
            ("DELETE", f"/proxies/{self.name}", None),
            ("POST", "/proxies", f'{{"name":"{self.name}","upstream":"u","listen":"127.0.0.1:0"}}'),
        ):
            for url in self._urls:
                self._answer(url, method, path, body)

    def _answer(self, url, method, path, body):
        answer = self._pool.request(method, url + path, body=body, redirect=False)
        text = answer.data.decode()
        # ports and the name of the DNS server differ
        text = re.sub(r'("listen":"[^"]*:)[0-9]+"', r'\1PORT"', text)
        text = re.sub(r"lookup (\S+).*: (no such host|server misbehaving|i/o timeout)", r"lookup \1", text)
        # each server has its own words for an invalid body
        text = re.sub(r'("error":"bad request body): .*"(,"status":400)', r'\1"\2', text)
        headers = {name: answer.headers.get(name) for name in HEADERS}
        if "PORT" in text or "lookup" in text or "bad request body" in text:
            del headers["content-length"]
        return answer.status, text, headers

    def close(self):
        for url in self._urls:
            self._pool.request("DELETE", f"{url}/proxies/{self.name}")
        self._pool.clear()


@pytest.fixture(scope="module")
def two():
    given_url = os.environ.get(URL_VARIABLE)
    with embedded_server() as embedded:
        if given_url:
            two = Two(embedded, given_url.rstrip("/"))
            yield two
            two.close()
            return
        with real_server(real_or_skip()) as real:
            two = Two(embedded, real)
            yield two
            two.close()


def renamed(body, name):
    """Give created proxies the one name that is deleted afterwards."""
    return re.sub(rb'"(name|NAME)": ?"[^"]+"', b'"name":"' + name.encode() + b'"', body)


@generated
@given(body=damaged(PROXIES | VALUES))
def test_create_proxy(two, body):
    two.anew()
    two.alike("DELETE", f"/proxies/{two.name}")
    two.alike("POST", "/proxies", renamed(body, two.name))
    two.alike("GET", f"/proxies/{two.name}")


@generated
@given(body=damaged(PROXIES | VALUES))
def test_update_proxy(two, body):
    two.anew()
    two.alike("PATCH", f"/proxies/{two.name}", body)
    two.alike("GET", f"/proxies/{two.name}")


@generated
@given(body=damaged(arrays(PROXIES) | VALUES))
def test_populate(two, body):
    two.anew()
    two.alike("POST", "/populate", renamed(body, two.name))
    two.alike("GET", f"/proxies/{two.name}")


@generated
@given(body=damaged(TOXICS | VALUES))
def test_create_toxic(two, body):
    two.anew()
    two.alike("POST", f"/proxies/{two.name}/toxics", body)
    two.alike("GET", f"/proxies/{two.name}/toxics")


@generated
@given(first=TOXICS, body=damaged(TOXICS | VALUES))
def test_update_toxic(two, first, body):
    two.anew()
    first = re.sub(r'"name":("[^"]*"|[^,}]*)', '"name":"t"', first)
    two.alike("POST", f"/proxies/{two.name}/toxics", first)
    two.alike("PATCH", f"/proxies/{two.name}/toxics/t", body)
    two.alike("GET", f"/proxies/{two.name}/toxics")


PATHS = words(
    "/ /nothing /version /version/ /metrics /reset /reset/ /populate /proxies/ //proxies /proxies/../version"
    " /proxies//a /./version?x=1 /a/../.. /proxies/none /proxies/a%20b /proxies/none/other"
    " /proxies/none/toxics /proxies/none/toxics/ /proxies/none/toxics/t /proxies/none/toxics/t/u"
    " /proxies/a%2Ftoxics /proxies/%3Ca%3E//"
)


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", PATHS)
def test_routes_and_methods(two, method, path):
    two.alike(method, path)


@pytest.mark.skipif(URL_VARIABLE in os.environ, reason="cannot change the flags of a running server")
def test_metrics_with_flag(two):
    """The text of `/metrics` of a server started with its flag for proxy metrics"""
    # A byte each way opens each of the two connections; the requests follow. Each direction of a
    # connection is counted when it has ended; only then can the counters be compared.
    sizes = (10, 1_234_567)
    opening = len(sizes)
    passed = {"upstream": opening + sum(sizes), "downstream": opening}
    final = {(counted, stream): passed[stream] for counted in ("received", "sent") for stream in passed}
    texts = []
    for server in (embedded_server(0, "--proxy-metrics"), real_server(real_or_skip(), "-proxy-metrics")):
        with (
            server as url,
            ToxiproxyClient(url, PATIENCE_S) as client,
            socket.create_server(("127.0.0.1", 0)) as end,
        ):
            address = f"127.0.0.1:{end.getsockname()[1]}"
            line = Line(client, client.ensure_proxy("metered", "127.0.0.1:0", address), listener=end)
            for size in sizes:
                sender, receiver = line.flow("upstream")
                sender.sendall(bytes(size))
                assert receiver.read(size) == bytes(size)
                sender.close()
                assert receiver.ending() == "closed"
            line.close()
            until(lambda url=url: counters(metrics_of(url)) == final, "the counters of all connections")
            texts.append(re.sub(r"127.0.0.1:\d+", "HOST:PORT", metrics_of(url)))
    assert texts[0] == texts[1]


def metrics_of(url):
    with urllib3.PoolManager() as pool:
        return pool.request("GET", f"{url}/metrics").data.decode()


def counters(text):
    """Bytes by counter and direction."""
    lines = re.findall(r'toxiproxy_proxy_(\w+)_bytes_total{direction="(\w+)".*} (\S+)', text)
    return {(counted, direction): float(size) for counted, direction, size in lines}
