"""Where the embedded server differs by intent, and how its process lives and ends."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys

import pytest

from proxy_manager.client import Rejected, ToxiproxyClient
from tests.conformance.servers import ROOT, embedded_server, running

COMMAND = [sys.executable, "-m", "proxy_manager.embedded"]


@pytest.fixture(scope="module")
def server_url():
    with embedded_server() as url:
        yield url


@pytest.fixture(scope="module")
def client(server_url):
    with ToxiproxyClient(server_url) as client:
        yield client


@pytest.mark.parametrize("kind", ["bandwidth", "slow_close", "slicer", "limit_data"])
def test_a_toxic_that_it_lacks_is_refused_by_name(client, rig, kind):
    with pytest.raises(Rejected, match=f"toxic type {kind} is not in the embedded Toxiproxy"):
        client.add_toxic(rig.name, "t", kind, "upstream", {})
    assert client.proxy(rig.name).toxics == ()


@pytest.mark.parametrize("toxicity", [0, 0.5])
def test_a_toxicity_below_one_is_refused(api, rig, toxicity):
    answer = api("POST", f"/proxies/{rig.name}/toxics", {"type": "latency", "toxicity": toxicity})
    assert answer[0] == 400
    assert "toxicity below 1 is not in the embedded Toxiproxy" in answer[1]["error"]
    rig.add("latency", "upstream")
    assert api("PATCH", f"/proxies/{rig.name}/toxics/toxic", {"toxicity": toxicity})[0] == 400


def test_metrics_count_proxies_and_toxics(api, rig):
    rig.add("latency", "upstream")
    assert api("GET", "/metrics") == (200, "toxiproxy_proxies 1\ntoxiproxy_toxics 1\n")


def test_a_taken_port_ends_it_with_a_reason():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        command = [*COMMAND, "--port", str(taken.getsockname()[1])]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=20, check=False)
    assert ended.returncode == 1
    assert "Address already in use; choose another --port" in ended.stderr
    assert "Traceback" not in ended.stderr


@contextlib.contextmanager
def process(environ, *descriptors):
    """A server process that answers; its standard error can be read."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port, number = listener.getsockname()[1], listener.fileno()
        environ = os.environ | environ | {"WINDTUNNEL_SOCKETS": json.dumps({"toxiproxy": number})}
        options = {"env": environ, "pass_fds": [number, *descriptors], "stderr": subprocess.PIPE}
        with running(COMMAND, f"http://127.0.0.1:{port}", **options) as server, server.stderr:
            yield server


def test_it_ends_with_its_launcher():
    reading, writing = os.pipe()
    with process({"WINDTUNNEL_LIFELINE": str(reading)}, reading) as server:
        os.close(reading)
        os.close(writing)
        assert server.wait(10) == 0
        assert server.stderr.read() == b""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_quietly(number):
    with process({}) as server:
        server.send_signal(number)
        assert server.wait(10) == 0
        assert server.stderr.read() == b""
