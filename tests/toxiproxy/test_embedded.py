"""The process of the embedded server: start, output and end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3

from tests.conformance.servers import ROOT, Line, running, until
from tests.support import PATIENCE_S
from wirefault.toxiproxy.client import ToxiproxyClient

pytestmark = pytest.mark.slow

EMBEDDED = [sys.executable, "-m", "wirefault.toxiproxy.embedded"]
COMMANDS = [EMBEDDED, [sys.executable, "-m", "wirefault", "toxiproxy"]]
both_commands = pytest.mark.parametrize("command", COMMANDS, ids=["module", "command"])


def refused(command: list[str], *arguments: str) -> str:
    """The one-line error of a server that does not start."""
    ended = subprocess.run(
        [*command, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (ended.returncode, ended.stdout) in ((64, ""), (70, ""))
    assert ended.stderr.count("\n") == 1
    return ended.stderr


@both_commands
def test_taken_port_ends_server_with_reason(command: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        message = refused(command, "--port", port)
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use; choose another --port" in message


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, ": No such file or directory"),
        ("[{]", ":1:3: invalid JSON: Expecting property name"),
        ("{}", "must be an array of proxies, not {}"),
        ("[1]", "proxy 1: must be an object, not 1"),
        ('[{"name": "a"}]', "proxy 1: missing upstream"),
        ('[{"name": "a", "upstream": 5}]', "proxy 1: upstream must be a string, not 5"),
        ('[{"name": "a", "upstream": "b", "enabled": 1}]', "proxy 1: enabled must be true or false, not 1"),
        ('[{"name": "a", "upstrem": "b"}]', "proxy 1: unknown key 'upstrem'; did you mean 'upstream'?"),
        (
            '[{"name": "a", "upstream": "b"}, {"name": "a", "upstream": "b"}]',
            "proxy 2: duplicate name 'a'",
        ),
        (
            '[{"name": "a", "upstream": "b", "listen": "x"}]',
            "proxy 1 (a): listen tcp: address x: missing port",
        ),
    ],
)
def test_invalid_file_ends_server_with_reason(tmp_path: Path, text: str | None, reason: str) -> None:
    path = tmp_path / "proxies.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    message = refused(EMBEDDED, "--port", "0", "--config", str(path))
    assert str(path) in message
    assert reason in message


def url_of(server: subprocess.Popen[bytes]) -> str:
    assert server.stdout
    line = server.stdout.readline().decode()
    assert line.startswith("embedded Toxiproxy 2.12.0 listens on http://127.0.0.1:")
    return line.split()[-1]


@contextlib.contextmanager
def started(command: list[str], *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [*command, "--port", "0", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:
        try:
            yield server
        finally:
            server.kill()


@both_commands
def test_prints_url_serves_file_and_ends_on_ctrl_c(tmp_path: Path, command: list[str]) -> None:
    path = tmp_path / "proxies.json"
    rows = [{"name": "db", "upstream": "127.0.0.1:9", "listen": "127.0.0.1:0"}]
    path.write_text(json.dumps([*rows, {"name": "off", "upstream": "x", "enabled": False}]))
    with started(command, "--config", str(path)) as server, urllib3.PoolManager() as pool:
        proxies = pool.request("GET", f"{url_of(server)}/proxies").json()
        assert {name: proxy["enabled"] for name, proxy in proxies.items()} == {"db": True, "off": False}
        server.send_signal(signal.SIGINT)
        assert server.communicate(timeout=PATIENCE_S) == (b"", b"interrupted\n")
        assert server.returncode == 130


def test_metrics_count_bytes_of_connections_that_have_ended() -> None:
    with started(EMBEDDED, "--proxy-metrics") as server, urllib3.PoolManager() as pool:
        url = url_of(server)
        with socket.create_server(("127.0.0.1", 0)) as upstream:
            row = {
                "name": 'a"b',
                "upstream": f"127.0.0.1:{upstream.getsockname()[1]}",
                "listen": "127.0.0.1:0",
            }
            listen = pool.request("POST", f"{url}/proxies", json=row).json()["listen"]
            with socket.create_connection(("127.0.0.1", int(listen.rpartition(":")[2]))) as client:
                accepted = upstream.accept()[0]
                client.sendall(b"hello")
            with accepted:
                assert accepted.recv(9) == b"hello"
                assert accepted.recv(9) == b""

        def text() -> str:
            return pool.request("GET", f"{url}/metrics").data.decode()

        labels = f'direction="upstream",listener="{listen}",proxy="a\\"b",upstream="{row["upstream"]}"'
        until(lambda: f"toxiproxy_proxy_received_bytes_total{{{labels}}} 5\n" in text())
        until(lambda: f"toxiproxy_proxy_sent_bytes_total{{{labels}}} 5\n" in text())


def test_metrics_are_off_by_default() -> None:
    with started(EMBEDDED) as server, urllib3.PoolManager() as pool:
        assert pool.request("GET", f"{url_of(server)}/metrics").status == 404


def test_change_skips_blocked_peer_and_drops_nothing() -> None:
    with started(EMBEDDED) as server, socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with ToxiproxyClient(url_of(server)) as client:
            line = Line(client, client.ensure_proxy("p", "127.0.0.1:0", address), listener=listener)
            sender, receiver = line.flow("upstream")
            line.add("latency", "upstream", latency=10)
            written = fill(sender)
            line.update(latency=20)
            line.add("slicer", "upstream", "second", average_size=1000)
            line.remove()
            line.remove("second")
            sender.close()
            assert len(receiver.read(written + 1)) == written
            line.close()


def fill(sender: socket.socket) -> int:
    """Send until the buffers are full; return the number of bytes."""
    sender.settimeout(0.3)
    written = 0
    with contextlib.suppress(TimeoutError):
        while True:
            written += sender.send(bytes(2**20))
    return written


@contextlib.contextmanager
def process(environ: dict[str, str], *descriptors: int) -> Iterator[subprocess.Popen[bytes]]:
    """A server process that answers; its standard error can be read."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port, number = listener.getsockname()[1], listener.fileno()
        environ = os.environ | environ | {"WIREFAULT_SOCKETS": json.dumps({"toxiproxy": number})}
        with running(
            EMBEDDED,
            f"http://127.0.0.1:{port}",
            env=environ,
            pass_fds=[number, *descriptors],
            stderr=subprocess.PIPE,
        ) as server:
            assert server.stderr
            with server.stderr:
                yield server


def test_server_ends_with_launcher() -> None:
    reading, writing = os.pipe()
    with process({"WIREFAULT_LIFELINE": str(reading)}, reading) as server:
        os.close(reading)
        os.close(writing)
        assert server.wait(PATIENCE_S) == 0
        assert server.stderr
        assert server.stderr.read() == b""


def test_sigterm_ends_server_quietly() -> None:
    with process({}) as server:
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE_S) == 0
        assert server.stderr
        assert server.stderr.read() == b""
