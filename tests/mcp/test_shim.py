"""``wirefault mcp`` against a real lab: the way through, both ends, and that nothing outlives anything."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conformance.servers import real_server_path
from tests.mcp.shim_lab import SERVER, Client, shim_lab
from tests.subjects.wired import alive
from tests.support import required, until
from wirefault.lab.launcher import Lab
from wirefault.lab.toxiproxy import Choice
from wirefault.subjects.stdio_shim.lab_connection import NoLabError, find_lane
from wirefault.toxiproxy.client import ToxiproxyClient

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with shim_lab(tmp_path_factory.mktemp("lab"), command=SERVER) as lab:
        yield lab


@pytest.fixture
def client(lab: Lab) -> Iterator[Client]:
    client = Client("--lab", str(lab.topology_path))
    yield client
    client.kill()


def test_client_and_server_talk_and_end(client: Client):
    assert client.call("echo", a=1) == '{"a": 1}'
    assert client.end() == (0, b"", "bye\n")


def test_request_before_half_close_is_answered(client: Client):
    client.send("slow", seconds=0.1)
    code, out, _ = client.end()
    assert code == 0 and json.loads(out)["id"] == 1


def test_lab_is_found_by_id_or_alone(lab: Lab):
    private = os.environ["XDG_STATE_HOME"]
    for words in (["--lab", lab.topology.lab_id], []):
        client = Client(*words, XDG_STATE_HOME=private)
        assert client.call("echo") == "{}"
        client.end()


def test_shim_defaults_to_wiring_command(lab: Lab):
    client = Client("--lab", str(lab.topology_path), command=())
    assert client.call("echo") == "{}"
    assert client.end()[0] == 0


def test_eight_parallel_servers_stay_separate(lab: Lab):
    def mark(number: int) -> str:
        client = Client("--lab", str(lab.topology_path), MARK=str(number))
        text = client.call("env", name="MARK")
        client.end()
        return text

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(mark, range(8))) == [str(number) for number in range(8)]


def test_shim_exit_code_is_servers(lab: Lab):
    client = Client("--lab", str(lab.topology_path), command=["sh", "-c", "echo last; exit 7"])
    assert client.end()[:2] == (7, b"last\n")


def test_unstartable_server_is_reported(lab: Lab):
    client = Client("--lab", str(lab.topology_path), command=["no-such-server"])
    code, _, error = client.end()
    assert code == 126 and "no-such-server" in error


def test_killed_server_ends_shim_with_one_line(client: Client):
    os.kill(int(client.call("pid")), signal.SIGKILL)
    assert client.end() == (137, b"", "wirefault mcp: files: the server was killed by signal 9\n")


def test_killed_shim_leaves_no_server(client: Client):
    server = int(client.call("pid"))
    client.process.kill()
    until(lambda: not alive(server))


def test_killed_reaper_leaves_no_process(client: Client):
    server = int(client.call("pid"))
    reaper = int(Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(reaper, signal.SIGKILL)
    assert client.end()[0] == 137
    until(lambda: not alive(server))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_goes_to_server(lab: Lab, number: signal.Signals):
    words = ["sh", "-c", f"trap 'exit 9' {number.name[3:]}; echo up; while :; do sleep 0.01; done"]
    client = Client("--lab", str(lab.topology_path), command=words)
    assert client.stdout.readline() == b"up\n"
    client.process.send_signal(number)
    assert client.end()[0] == 9


def test_missing_lab_is_one_line(tmp_path: Path):
    client = Client(XDG_STATE_HOME=str(tmp_path))
    code, _, error = client.end()
    assert code == 70 and error.startswith("Error: no lab with a link 'files'") and error.count("\n") == 1


def test_unknown_link_is_named(lab: Lab):
    with pytest.raises(NoLabError, match=r"no link 'shop'.*those are: files"):
        find_lane(str(lab.topology_path), "shop")


def test_link_down_starts_no_server(lab: Lab, client: Client):
    with ToxiproxyClient(lab.topology.toxiproxy) as toxiproxy:
        toxiproxy.set_enabled("files_proxy", False)
        try:
            code, out, error = Client("--lab", str(lab.topology_path)).end()
        finally:
            toxiproxy.set_enabled("files_proxy", True)
    assert (code, out) == (70, b"") and "the link 'files' is down" in error
    assert client.end()[0] != 0, "its connection was cut"


OWNER = """
import sys
from tests.mcp.shim_lab import Client
print(Client("--lab", sys.argv[1]).call("pid"), flush=True)
sys.stdin.read()
"""


def test_killed_client_leaves_no_process(lab: Lab):
    words = [sys.executable, "-c", OWNER, str(lab.topology_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        server = int(owner.stdout.readline())
        owner.kill()
    until(lambda: not alive(server))


def test_lab_exit_ends_server_with_one_line(tmp_path: Path):
    with shim_lab(tmp_path) as lab:
        client = Client("--lab", str(lab.topology_path))
        server = int(client.call("pid"))
    _, out, error = client.end()
    assert out == b"" and "the connection through the lab has ended" in error
    until(lambda: not alive(server))


CUT = """
import socket, sys, threading
from wirefault.subjects.stdio_shim.relay import Relay
from wirefault.subjects.stdio_shim.relay import ServerProcess
from wirefault.subjects.stdio_shim.lab_connection import LabConnection

(client_side, client_end), (server_side, server_end) = socket.socketpair(), socket.socketpair()
server = ServerProcess(["sh", "-c", "cat; echo bye >&2"], "")

def cut():
    server_end.shutdown(socket.SHUT_WR)
    server_end.recv(1)  # the server has ended
    client_end.close()

threading.Thread(target=cut).start()
sys.exit(Relay(LabConnection(client_side, server_side, None, "files", ""), server).run())
"""


def test_server_side_closes_first():
    with subprocess.Popen([sys.executable, "-c", CUT], stdin=subprocess.PIPE, stderr=subprocess.PIPE) as shim:
        assert shim.stderr is not None
        assert shim.stderr.read().decode().splitlines() == [
            "bye",
            "wirefault mcp: files: the connection through the lab has ended: ending the server",
        ]
    assert shim.returncode == 0


@pytest.fixture(scope="module")
def real_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    path = real_server_path()
    if path is None:
        reason = "no real Toxiproxy: neither TOXIPROXY_SERVER nor toxiproxy-server on PATH"
        pytest.fail(reason) if required("toxiproxy") else pytest.skip(reason)
    with shim_lab(tmp_path_factory.mktemp("real"), Choice("executable", executable=path)) as lab:
        yield lab


def test_real_toxiproxy_carries_lines(real_lab: Lab):
    client = Client("--lab", str(real_lab.topology_path))
    assert client.call("echo", a=1) == '{"a": 1}'
    client.send("slow", seconds=0.1)
    code, out, _ = client.end()
    assert code == 0 and json.loads(out)["id"] == 1


def test_real_toxiproxy_toxic_on_stream(real_lab: Lab):
    with ToxiproxyClient(real_lab.topology.toxiproxy) as toxiproxy:
        toxiproxy.add_toxic("files_proxy", "cut", "limit_data", "downstream", {"bytes": 5})
        try:
            client = Client("--lab", str(real_lab.topology_path))
            client.send("echo")
            assert client.stdout.read() == b'{"jso'
        finally:
            toxiproxy.remove_toxic("files_proxy", "cut")
    _, _, error = client.end()
    assert "the connection through the lab has ended" in error
