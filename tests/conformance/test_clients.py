"""Third-party clients"""

import shutil
import subprocess
import sys

import pytest

from tests.support import PATIENCE_S, required


@pytest.fixture
def cli(server_url):
    """Run the official command line client and return its output."""
    path = shutil.which("toxiproxy-cli")
    if path is None:
        reason = "no official client: toxiproxy-cli is not on PATH"
        (pytest.fail if required("toxiproxy-cli") else pytest.skip)(reason)

    def run(*arguments):
        command = [path, "--host", server_url, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_official_command_line_client(cli, name, upstream):
    """The official command line client (`toxiproxy-cli`), if on `PATH`"""
    cli("create", "--listen", "127.0.0.1:0", "--upstream", str(upstream.address), name)
    assert name in cli("list")
    cli("toxic", "add", "--type", "latency", "--toxicName", "slow", "--attribute", "latency=20", name)
    cli("toxic", "update", "--toxicName", "slow", "--toxicity", "0.5", "-a", "jitter=3", name)
    inspected = cli("inspect", name)
    assert "slow" in inspected
    assert "latency=20" in inspected
    assert "jitter=3" in inspected
    cli("toxic", "remove", "--toxicName", "slow", name)
    assert "slow" not in cli("inspect", name)
    cli("toggle", name)
    assert "disabled" in cli("list")
    cli("delete", name)
    assert name not in cli("list")


SCRIPT = """
import sys, toxiproxy
from toxiproxy.api import APIConsumer
APIConsumer.host, port = sys.argv[1].removeprefix("http://").split(":")
APIConsumer.port = int(port)
server, name, upstream = toxiproxy.Toxiproxy(), *sys.argv[2:]
proxy = server.create(name=name, upstream=upstream, listen="127.0.0.1:0", enabled=True)
proxy.add_toxic(type="latency", name="slow", attributes={"latency": 20})
assert server.get_proxy(name).get_toxic("slow").attributes["latency"] == 20
proxy.destroy_toxic("slow")
assert server.get_proxy(name).toxics() == {}
proxy.disable()
assert server.get_proxy(name).enabled is False
assert server.version()
proxy.destroy()
assert server.get_proxy(name) is None
"""


def test_python_client(server_url, name, upstream):
    """The Python client (`toxiproxy-python`)"""
    command = [sys.executable, "-c", SCRIPT, server_url, name, str(upstream.address)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
