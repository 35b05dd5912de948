"""Reactions of real clients to the embedded server's toxics, as in docs/toxics_seen.json.

``FAULTS_SEEN=write`` writes the table; any other run fails if it differs.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.servers import Proxied, embedded_server
from tests.faults.catalogue.clients.seen import Seen
from tests.support import PATIENCE_S, ROOT, share, until
from tests.upstream import Upstream, requests_of
from wirefault.toxiproxy.client import ToxiproxyClient

pytestmark = pytest.mark.slow  # its clients wait for their time limits

SEEN = Seen(ROOT / "docs" / "toxics_seen.json", write=os.environ.get("FAULTS_SEEN") == "write")
HERE = Path(__file__).parent
MESSAGE = {"role": "assistant", "content": "x" * 2000}
CHAT = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
CHAT["choices"] = [{"index": 0, "finish_reason": "stop", "message": MESSAGE}]
BODY = json.dumps(CHAT).encode()
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(BODY)


class Server:
    """Answers every request with ``BODY``, in ten parts if the path asks for it."""

    def __init__(self) -> None:
        self.upstream = Upstream(self._serve)
        self.requests = self.ended = 0

    def _serve(self, connection: socket.socket) -> None:
        try:
            for request in requests_of(connection):
                self.requests += 1
                connection.sendall(HEAD)
                part = len(BODY) // 10 if "slow" in request.target else len(BODY)
                for start in range(0, len(BODY), part):
                    connection.sendall(BODY[start : start + part])
                    if part < len(BODY):
                        time.sleep(0.1)  # the pace of a slow server
        finally:
            self.ended += 1


@pytest.fixture(scope="module")
def toxiproxy() -> Iterator[ToxiproxyClient]:
    with embedded_server() as url, ToxiproxyClient(url) as client:
        yield client


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    with server.upstream:
        yield server


@pytest.fixture
def proxied(toxiproxy, server) -> Iterator[Proxied]:
    yield Proxied(toxiproxy, toxiproxy.ensure_proxy("seen", "127.0.0.1:0", str(server.upstream.address)))
    toxiproxy.delete_proxy("seen")


def python_client(name: str) -> list[str]:
    return [sys.executable, str(HERE / "client.py"), name]


@pytest.fixture(scope="session")
def go_client(tmp_path_factory) -> str:
    go = shutil.which("go")
    if go is None:
        pytest.skip("no Go")
    program = tmp_path_factory.mktemp("go") / "client"
    environ = os.environ | {"GO111MODULE": "off", "GOFLAGS": ""}
    subprocess.run([go, "build", "-o", str(program), str(HERE / "client.go")], env=environ, check=True)
    return str(program)


CLIENTS = ("curl", "Node fetch", "requests", "httpx", "Go net/http", "openai")


@pytest.fixture(params=[name for number, name in enumerate(CLIENTS) if share(number)])
def client(request: pytest.FixtureRequest) -> tuple[str, list[str]]:
    """A client's name and its command, which takes a URL, a limit in s, a limit for connecting, and a count.

    It makes that many calls with one client object, each after a line of standard input, and prints a line
    for each.
    """
    name: str = request.param
    if name == "curl":
        command = shutil.which("curl") and [sys.executable, str(HERE / "client.py"), name]
    elif name == "Node fetch":
        node = shutil.which("node")
        command = node and [node, str(HERE / "client.mjs")]
    elif name == "Go net/http":
        command = [request.getfixturevalue("go_client")]
    else:
        command = python_client(name)
    return (name, command) if command else pytest.skip(f"no {name}")


class Calls:
    """A client process at work."""

    def __init__(
        self, command: list[str], proxied: Proxied, path: str, limit: float, connect: float = 0.0
    ) -> None:
        url = f"http://{proxied.state.listen}{path}"
        words = [*command, url, str(limit), str(connect or limit)]
        pipe = subprocess.PIPE
        environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": os.environ.get("HOME", "/")}
        self._process = subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, env=environ)

    def call(self) -> str:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        words, _, tries = self._process.stdout.readline().strip().partition("\t")
        self.tries = int(tries or 1)
        return words

    tries = 1
    """The tries of the last call, if the client counts them."""

    def close(self) -> None:
        self._process.communicate(timeout=PATIENCE_S)


def outcome(words: str, tries: int) -> str:
    """A client's line, with its own retries before it."""
    again = tries - 1
    if again < 1:
        return words
    return f"retried {'once' if again == 1 else 'twice' if again == 2 else f'{again} times'}, then {words}"


def note(row: str, client: tuple[str, list[str]], words: str) -> None:
    SEEN.note(row, client[0], words)


@pytest.fixture
def calls(client, proxied) -> Iterator[Callable[..., Calls]]:
    started: list[Calls] = []

    def start(path: str, limit: float, connect: float = 0.0) -> Calls:
        started.append(Calls(client[1], proxied, path, limit, connect))
        return started[-1]

    yield start
    for each in started:
        each.close()


def test_connection_cut_within_reply(client, calls, proxied, server):
    proxied.add("cut_after", "downstream", age=500)
    words = calls("/slow", 20).call()
    note("cut_after, in the middle of a reply", client, outcome(words, server.requests))


def test_connection_cut_between_calls(client, calls, proxied, server):
    if client[0] == "curl":
        pytest.skip("a process of curl has one connection")
    proxied.add("cut_after", "downstream", age=500)
    both = calls("/fast", 20)
    assert both.call() == "good answer"
    until(lambda: server.ended, "the close of the first connection")
    words = both.call()
    note("cut_after, between two calls", client, outcome(words, server.requests - 1))


@pytest.mark.parametrize(("limit", "row"), [(20, "limit 20 s"), (1, "limit 1 s")])
def test_parallel_calls_share_rate(client, calls, proxied, server, limit, row):
    proxied.add("shared_bandwidth", "downstream", rate=2)
    together = [calls("/fast", limit) for _ in range(4)]
    words: list[str] = []
    threads = [threading.Thread(target=lambda each=each: words.append(each.call())) for each in together]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S * 3)
    if limit == 20:
        assert time.monotonic() - start >= 0.9 * 4 * len(BODY) / 2000
    assert len(set(words)) == 1 and len(words) == 4, words
    note(f"shared_bandwidth, four calls at once, {row}", client, outcome(words[0], server.requests // 4))


def test_connection_is_never_accepted(client, calls, proxied):
    proxied.add("unaccepted", "downstream")
    limited = calls("/fast", 15, connect=1)
    words = limited.call()
    note("unaccepted, limit for connecting 1 s", client, outcome(words, limited.tries))


def test_connection_is_accepted_after_a_while(client, calls, proxied, server):
    proxied.add("unaccepted", "downstream")
    words: list[str] = []
    patient = calls("/fast", 30)
    thread = threading.Thread(target=lambda: words.append(patient.call()))
    thread.start()
    until(lambda: connects(proxied), "a client that connects")
    proxied.remove()
    thread.join(PATIENCE_S * 3)
    note("unaccepted at first, limit 30 s", client, outcome(words[0], server.requests))


def connects(proxied: Proxied) -> bool:
    """Whether a client waits for the proxy to accept it (SYN_SENT)."""
    port = int(proxied.state.listen.rpartition(":")[2])
    rows = (row.split() for row in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:])
    return any(row[2].endswith(f":{port:04X}") and row[3] == "02" for row in rows)


def test_table_has_only_known_toxics():
    from wirefault.toxiproxy.toxics import toxic

    table: dict[str, Any] = SEEN.read()
    assert table and all(toxic(row.partition(" ")[0].rstrip(",")) for row in table)
