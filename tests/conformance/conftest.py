"""Every test here runs against the embedded server and, where there is one, the real Toxiproxy.

``TOXIPROXY_CONFORMANCE_URL`` names a server that runs already: then only that one is tested.
"""

import contextlib
import itertools
import json
import os
import socket

import pytest
import urllib3

from tests.conformance.page import Results, page
from tests.conformance.servers import Line, Recorder, Rig, embedded_server, real_server, real_server_path
from tests.support import PATIENCE_S, ROOT, required
from tests.upstream import Upstream
from wirefault.toxiproxy.client import ToxiproxyClient

URL_VARIABLE = "TOXIPROXY_CONFORMANCE_URL"
PAGE = ROOT / "docs" / "conformance.md"
_numbers = itertools.count()
_results = pytest.StashKey[Results]()


def pytest_addoption(parser):
    parser.addoption("--write-conformance", action="store_true", help="renew docs/conformance.md")


def pytest_configure(config):
    config.stash[_results] = Results()


def pytest_generate_tests(metafunc):
    if "server_url" in metafunc.fixturenames and not hasattr(metafunc.module, "server_url"):
        servers = ["given"] if os.environ.get(URL_VARIABLE) else ["embedded", "real"]
        metafunc.parametrize("server_url", servers, indirect=True, scope="session")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    for server in _servers_of(item):
        item.config.stash[_results].note(item.module.__name__, item.originalname, server, report)


def _servers_of(item):
    if "two" in getattr(item, "fixturenames", ()):
        return ["embedded", "given" if os.environ.get(URL_VARIABLE) else "real"]
    server = item.callspec.params.get("server_url") if hasattr(item, "callspec") else None
    return [server] if server else []


def pytest_sessionfinish(session):
    if session.config.getoption("--write-conformance", default=False):
        PAGE.write_text(page(session.config.stash[_results]), encoding="utf-8")


def real_or_skip():
    path = real_server_path()
    if path is not None:
        return path
    reason = "no real Toxiproxy: neither TOXIPROXY_SERVER nor toxiproxy-server on PATH"
    if required("toxiproxy"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def server_url(request):
    with _server(request.param) as url:
        with urllib3.PoolManager() as pool:
            version = pool.request("GET", f"{url}/version").json()["version"]
        request.config.stash[_results].versions[request.param] = version
        yield url


def _server(which):
    if which == "given":
        return contextlib.nullcontext(os.environ[URL_VARIABLE].rstrip("/"))
    return embedded_server() if which == "embedded" else real_server(real_or_skip())


@pytest.fixture(scope="session")
def client(server_url):
    with ToxiproxyClient(server_url, PATIENCE_S) as client:
        yield client


@pytest.fixture
def name(client):
    """A proxy name that no other test uses; the proxy is deleted afterwards."""
    name = f"conformance_{os.getpid()}_{next(_numbers)}"
    yield name
    client.delete_proxy(name)


@pytest.fixture
def api(server_url):
    """One raw request: (status, body as parsed JSON, else as text)."""
    with urllib3.PoolManager() as pool:

        def send(method, path, body=None, **headers):
            data = body if body is None or isinstance(body, str) else json.dumps(body)
            answer = pool.request(method, server_url + path, body=data, headers=headers, redirect=False)
            text = answer.data.decode()
            try:
                return answer.status, json.loads(text)
            except ValueError:
                return answer.status, text

        yield send


@pytest.fixture
def proxy(api, name):
    body = {"name": name, "upstream": "127.0.0.1:9", "listen": "localhost:0"}
    status, proxy = api("POST", "/proxies", body)
    assert status == 201
    return proxy


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def upstream(recorder):
    with Upstream(recorder.serve) as upstream:
        yield upstream


@pytest.fixture
def rig(client, name, upstream, recorder):
    rig = Rig(client, client.ensure_proxy(name, "127.0.0.1:0", str(upstream.address)), upstream=recorder)
    yield rig
    rig.close()


@pytest.fixture
def line(client, name):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        line = Line(client, client.ensure_proxy(name, "127.0.0.1:0", address), listener=listener)
        yield line
        line.close()
