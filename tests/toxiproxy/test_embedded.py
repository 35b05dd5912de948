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

from tests.conformance.servers import (
    ROOT,
    Line,
    embedded_server,
    real_server,
    real_server_path,
    running,
    until,
)
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
        ('[{"name": "a", "upstream": "b", "toxic": []}]', "unknown key 'toxic'; did you mean 'toxics'?"),
        ("[" * 100000, ": nested too deeply"),
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


def test_metrics_count_bytes_of_closed_connections() -> None:
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


# each is accepted by the real server, and none has an effect there
TOXICS = {
    "each type": [
        {"type": kind, "stream": "upstream", "toxicity": 0.5, "attributes": dict.fromkeys(attributes, 50)}
        for kind, attributes in {
            "latency": ("latency", "jitter"),
            "bandwidth": ("rate",),
            "slow_close": ("delay",),
            "timeout": ("timeout",),
            "reset_peer": ("timeout",),
            "slicer": ("average_size", "size_variation", "delay"),
            "limit_data": ("bytes",),
        }.items()
    ],
    "wrong attribute": [{"type": "latency", "attributes": {"latncy": "soon"}}],
    "unknown type": [{"type": "nonsense"}],
    "not a list": "latency",
    "an object": {"latency": {"latency": 50}},
}


@pytest.mark.parametrize("server", ["embedded", "real"])
@pytest.mark.parametrize("toxics", TOXICS.values(), ids=TOXICS)
def test_toxics_in_file_are_ignored_like_real_server(tmp_path: Path, server: str, toxics: object) -> None:
    path = tmp_path / "proxies.json"
    row = {"name": "db", "upstream": "127.0.0.1:9", "listen": "127.0.0.1:0", "Logger": {}}
    path.write_text(json.dumps([row | {"toxics": toxics, "comment": "x", "enabled": None}]))
    real = real_server_path()
    if server == "real":
        if real is None:
            pytest.skip("no toxiproxy-server on PATH")
        running_server = real_server(real, "-config", str(path))
    else:
        running_server = embedded_server(0, "--config", str(path))
    with running_server as url, ToxiproxyClient(url) as client:
        assert not client.proxies()["db"].toxics
        assert client.proxies()["db"].enabled


def test_ignored_parts_of_file_are_named(tmp_path: Path) -> None:
    path = tmp_path / "proxies.json"
    row = {"Name": "db", "upstream": "127.0.0.1:9", "listen": "127.0.0.1:0", "toxics": []}
    path.write_text(json.dumps([row, row | {"Name": "web", "comment": 1, "toxics": [{"type": "latency"}]}]))
    with started(COMMANDS[1], f"-config={path}") as server:
        url_of(server)
        server.send_signal(signal.SIGTERM)
        notices = server.communicate(timeout=PATIENCE_S)[1].decode().splitlines()
    assert notices == [
        f"embedded Toxiproxy: {path}: proxy 2 (web): toxics are ignored, as in Toxiproxy:"
        " add them by POST /proxies/web/toxics",
        f"embedded Toxiproxy: {path}: proxy 2 (web): unknown key 'comment' is ignored",
    ]


GO_FLAGS = [
    ["-host=127.0.0.1", "-config={file}", "-proxy-metrics", "-runtime-metrics=true", "-seed=5"],
    ["-host", "127.0.0.1", "-config", "{file}", "--proxy-metrics=1", "--runtime-metrics", "-seed", "-5"],
    ["--host=localhost", "--config", "{file}", "-proxy-metrics=T", "-runtime-metrics", "-version=false"],
]


@pytest.mark.parametrize("flags", GO_FLAGS)
def test_flags_accept_go_spelling(tmp_path: Path, flags: list[str]) -> None:
    path = tmp_path / "proxies.json"
    path.write_text('[{"name": "db", "upstream": "127.0.0.1:9", "enabled": false}]')
    arguments = [flag.format(file=path) for flag in flags]
    with started(COMMANDS[1], "-port=0", *arguments) as server, urllib3.PoolManager() as pool:
        url = url_of(server)
        assert list(pool.request("GET", f"{url}/proxies").json()) == ["db"]
        text = pool.request("GET", f"{url}/metrics").data.decode()
        assert "\nprocess_start_time_seconds 1" in text
        assert "promhttp_metric_handler_errors_total" in text


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["-prt", "3"], "unknown flag '-prt'; did you mean '-port'?"),
        (["--cofig=x.json"], "unknown flag '--cofig=x.json'; did you mean '-config'?"),
        (["---port=1"], "unknown flag '---port=1'"),
        (["-port"], "-port: missing value, such as -port=8474"),
        (["-port=abc"], "'abc' is not a valid integer range"),
        (["-proxy-metrics=maybe"], "-proxy-metrics=maybe: must be true or false"),
        (["proxies.json"], "unexpected argument 'proxies.json'"),
        (["-proxy-metrics=false", "--", "x"], "unexpected argument '--'"),
    ],
)
def test_wrong_flag_is_refused_in_one_line(arguments: list[str], reason: str) -> None:
    assert reason in refused(COMMANDS[1], *arguments)


def test_version_is_printed_as_by_real_server() -> None:
    for flag in ("-version", "--version=true"):
        text = subprocess.run(
            [*COMMANDS[1], flag], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        assert text.startswith("toxiproxy-server version 2.12.0 (embedded in Wirefault ")


def test_seed_repeats_toxicity_of_connections(tmp_path: Path) -> None:
    def refused_connections(seed: int) -> list[bool]:
        with (
            started(COMMANDS[1], f"-seed={seed}") as server,
            urllib3.PoolManager() as pool,
            socket.create_server(("127.0.0.1", 0)) as upstream,
        ):
            url = url_of(server)
            row = {"name": "p", "upstream": f"127.0.0.1:{upstream.getsockname()[1]}", "listen": "127.0.0.1:0"}
            listen = pool.request("POST", f"{url}/proxies", json=row).json()["listen"]
            toxic = {"type": "limit_data", "toxicity": 0.5, "stream": "upstream", "attributes": {"bytes": 0}}
            assert pool.request("POST", f"{url}/proxies/p/toxics", json=toxic).status == 200
            return [is_closed(listen, upstream) for _ in range(24)]

    first = refused_connections(1)
    assert 0 < sum(first) < 24
    assert refused_connections(1) == first
    assert refused_connections(2) != first


def is_closed(listen: str, upstream: socket.socket) -> bool:
    """Whether a new connection through the proxy delivers nothing."""
    host, _, port = listen.rpartition(":")
    with socket.create_connection((host, int(port))) as client, upstream.accept()[0] as accepted:
        client.sendall(b"x")
        return accepted.recv(1) == b""


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
