"""Real programs behind the proxy tap, some of which ignore its variables."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from tests.subjects.taps.ingress import AnsweringIngress
from tests.subjects.taps.tapped import behind
from tests.subjects.wired import Wired
from tests.support import PATIENCE_S, until
from tests.upstream import FREE
from wirefault.core.sockets import Address, bind, bound_address
from wirefault.history.events import Note, WentPastLab
from wirefault.subjects.taps import watch
from wirefault.subjects.taps.watch import (
    BypassTracker,
    Past,
    SystemSocket,
    can_list_sockets,
    socket_owners,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells whose a socket is"),
]

# Each is silent on its connection while the sockets of its kind are looked at some times, and ends.
_WAIT = """
import os, time
looks = os.stat(os.environ["LOOKS"]).st_size
while os.stat(os.environ["LOOKS"]).st_size < looks + 4:
    time.sleep(0.005)
"""
IGNORES = f"""
import socket, sys
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
{_WAIT}
"""
DATAGRAMS = f"""
import socket, sys
connection = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
connection.connect((sys.argv[1], int(sys.argv[2])))
{_WAIT}
"""
ITSELF = f"""
import socket
server = socket.create_server(("127.0.0.1", 0))
client, connection = socket.create_connection(server.getsockname()), server.accept()[0]
{_WAIT}
"""
KNOWS = "import urllib.request; print(urllib.request.urlopen('https://api.example.com/').read())"


@pytest.fixture
def wired(tmp_path: Path, ingress: AnsweringIngress) -> Wired:
    return behind(ingress.address, ingress.topology, tmp_path)


@pytest.fixture
def silent() -> Iterator[Address]:
    """A server that accepts and never answers."""
    with bind(FREE) as listener:
        yield bound_address(listener)


@pytest.fixture(autouse=True)
def looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that grows by a byte when the owners of sockets are about to be looked up."""
    file = tmp_path / "looks"
    file.touch()
    monkeypatch.setenv("LOOKS", str(file))

    def counted(lab_pids: Collection[int] = ()) -> dict[int, str]:
        with file.open("a") as opened:
            opened.write(".")
        return socket_owners(lab_pids)

    monkeypatch.setattr(watch, "socket_owners", counted)
    return file


def past(wired: Wired, *command: str, **intercept: object) -> list[tuple[str, str, str, int]]:
    """Where the command was seen to go past the lab."""
    yaml = {
        "intercept": {"tap": "proxy", **intercept},
        "subject": {"command": list(command), "prompt": "none"},
    }
    with wired.opened(json.dumps(yaml)) as subject:
        subject("", wired.context(attempt_time=PATIENCE_S))
    assert not [event for event in wired.events if isinstance(event, Note)]
    seen = [event for event in wired.events if isinstance(event, WentPastLab)]
    return [(f"{event.host}:{event.port}", event.protocol, event.program[:6], event.count) for event in seen]


def test_bypassing_program_is_detected(wired: Wired, silent: Address) -> None:
    words = [sys.executable, "-c", IGNORES, silent.host, str(silent.port)]
    assert past(wired, *words) == [(str(silent), "tcp", "python", 1)]


def test_connection_from_outside_does_not_count(wired: Wired, silent: Address) -> None:
    call = f"setsid {sys.executable} -c '{IGNORES}' {silent.host} {silent.port} & wait"
    assert past(wired, "sh", "-c", call) == [(str(silent), "tcp", "python", 1)]


def test_udp_is_detected(wired: Wired) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((FREE.host, 0))
        address = Address(*server.getsockname())
        words = [sys.executable, "-c", DATAGRAMS, address.host, str(address.port)]
        assert past(wired, *words) == [(str(address), "udp", "python", 1)]


def test_passed_hosts_are_not_reported(wired: Wired, silent: Address) -> None:
    words = [sys.executable, "-c", IGNORES, silent.host, str(silent.port)]
    assert past(wired, *words, **{"pass": [str(silent)]}) == []


@pytest.mark.parametrize("program", [KNOWS, ITSELF])
def test_caught_and_own_connections_do_not_count(wired: Wired, program: str) -> None:
    assert past(wired, sys.executable, "-c", program) == []


def test_system_sockets_are_listed() -> None:
    assert can_list_sockets()


ELSEWHERE = Address("93.184.216.34", 443)
OWN = Address("10.0.0.2", 40000)
SERVER = Address("127.0.0.1", 9000)
CLIENT = Address("127.0.0.1", 40001)
NOBODY = Address("0.0.0.0", 0)


def tcp(inode: int, remote: Address, local: Address = OWN) -> SystemSocket:
    return SystemSocket("tcp", inode, local, remote)


def listener(inode: int) -> SystemSocket:
    return SystemSocket("tcp", inode, SERVER, NOBODY, listens=True)


def seen(*looks: list[SystemSocket], allowed: Address | None = None) -> dict[Past, int]:
    """After these looks, all of whose sockets with a number below 100 are the subject's."""
    tracker = BypassTracker(lambda address: address == allowed)
    for look in looks:
        tracker.take(look, {one.inode: "agent" for one in look if one.inode < 100})
    return tracker.counts


def test_process_of_lab_does_not_count(silent: Address) -> None:
    command = [sys.executable, "-c", IGNORES, silent.host, str(silent.port)]
    before = socket_owners().keys()  # of a lab that other tests of this process keep
    with subprocess.Popen(command) as child:
        until(lambda: socket_owners().keys() - before, "it has a socket")
        assert not socket_owners([child.pid]).keys() - before
        child.kill()


def test_sockets_from_before_count_only_as_listeners() -> None:
    tracker = BypassTracker(lambda _: False, earlier=[1, 2])
    incoming = tcp(3, CLIENT, SERVER)
    tracker.take([listener(1), tcp(2, ELSEWHERE), incoming], {1: "agent", 2: "agent", 3: "agent"})
    assert not tracker.counts
    outgoing = tcp(4, SERVER, CLIENT)  # to a server of the process that the subject shares
    tracker.take([listener(1), incoming, outgoing], dict.fromkeys((1, 3, 4), "agent"))
    assert tracker.counts == {Past("tcp", SERVER, "agent"): 1}


def test_connection_counts_once_over_snapshots() -> None:
    past = Past("tcp", ELSEWHERE, "agent")
    assert seen([tcp(1, ELSEWHERE), tcp(2, ELSEWHERE)], [tcp(1, ELSEWHERE)]) == {past: 2}


def test_foreign_and_allowed_connections_do_not_count() -> None:
    assert seen([tcp(100, ELSEWHERE)]) == {}
    assert seen([tcp(1, ELSEWHERE)], allowed=ELSEWHERE) == {}
    assert seen([tcp(1, Address("10.0.0.1", 53))]) == {}


def test_own_server_is_reached_from_inside_and_outside() -> None:
    assert seen([listener(1), tcp(2, SERVER, CLIENT), tcp(3, CLIENT, SERVER)]) == {}
    assert seen([listener(1)], [tcp(3, CLIENT, SERVER)]) == {}
    assert seen([listener(1), tcp(2, Address("93.184.216.34", 9000))]) != {}


def test_pair_within_subject_does_not_count() -> None:
    assert seen([tcp(2, SERVER, CLIENT), tcp(3, CLIENT, SERVER)]) == {}


def test_foreign_local_server_counts() -> None:
    assert seen([listener(100), tcp(2, SERVER, CLIENT), tcp(101, CLIENT, SERVER)]) != {}


def test_lasting_udp_counts() -> None:
    quic = SystemSocket("udp", 1, OWN, ELSEWHERE)
    assert seen([quic]) == {}
    assert seen([quic], [quic]) == {Past("udp", ELSEWHERE, "agent"): 1}


def test_known_sockets_are_recognised() -> None:
    tracker = BypassTracker(lambda address: False)
    tracker.take([tcp(1, ELSEWHERE)], {1: "agent"})
    assert not tracker.has_unknown({1: "agent"})
    assert tracker.has_unknown({1: "agent", 2: "agent"})
