"""Every test here runs against the embedded server and, where there is one, the real Toxiproxy."""

import itertools
import json

import pytest
import urllib3

from proxy_manager.client import ToxiproxyClient
from tests.conformance.servers import Rig, Upstream, embedded_server, real_server, real_server_path

_numbers = itertools.count()


@pytest.fixture(scope="session", params=["embedded", "real"])
def server_url(request):
    if request.param == "embedded":
        with embedded_server() as url:
            yield url
        return
    path = real_server_path()
    if path is None:
        pytest.skip("no real Toxiproxy: neither TOXIPROXY_SERVER nor toxiproxy-server on PATH")
    with real_server(path) as url:
        yield url


@pytest.fixture(scope="session")
def client(server_url):
    with ToxiproxyClient(server_url) as client:
        yield client


@pytest.fixture
def name(client):
    """A proxy name that no other test uses; what has it is deleted afterwards."""
    name = f"proxy_{next(_numbers)}"
    yield name
    client.delete_proxy(name)


@pytest.fixture
def api(server_url):
    """One raw request: (status, body parsed as JSON, or as text where it is none)."""
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
def upstream():
    upstream = Upstream()
    yield upstream
    upstream.close()


@pytest.fixture
def rig(client, name, upstream):
    state = client.ensure_proxy(name, "127.0.0.1:0", upstream.address)
    rig = Rig(client, state, upstream)
    yield rig
    for connection in rig.dialled:
        connection.close()
