"""Real programs behind the proxy tap, some of which ignore its variables."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.subjects.taps.ingress import AnsweringIngress
from tests.subjects.taps.tapped import behind
from tests.subjects.wired import Wired
from tests.upstream import FREE
from wirefault.core.sockets import Address, address_of, bind
from wirefault.history.events import Note, WentPastLab
from wirefault.subjects.taps.watch import can_list_sockets

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells whose a socket is"),
]

# Each is silent on its connection for as long as many looks take, and ends.
_WAIT = """
with contextlib.suppress(TimeoutError):
    connection.settimeout(0.5)
    connection.recv(1)
"""
IGNORES = f"""
import contextlib, socket, sys
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
{_WAIT}
"""
DATAGRAMS = f"""
import contextlib, socket, sys
connection = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
connection.connect((sys.argv[1], int(sys.argv[2])))
{_WAIT}
"""
ITSELF = f"""
import contextlib, socket
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
    """A server that accepts, and never says anything."""
    with bind(FREE) as listener:
        yield address_of(listener)


def past(wired: Wired, *command: str, **intercept: object) -> list[tuple[str, str, str, int]]:
    """Where the command, which has a second to last, was seen to go past the lab."""
    yaml = {
        "intercept": {"tap": "proxy", **intercept},
        "subject": {"command": list(command), "prompt": "none"},
    }
    with wired.opened(json.dumps(yaml)) as subject:
        subject("", wired.context(attempt_time=1))
    assert not [event for event in wired.events if isinstance(event, Note)]
    seen = [event for event in wired.events if isinstance(event, WentPastLab)]
    return [(f"{event.host}:{event.port}", event.protocol, event.program[:6], event.count) for event in seen]


def test_a_program_that_ignores_its_proxy_is_seen(wired: Wired, silent: Address) -> None:
    words = [sys.executable, "-c", IGNORES, silent.host, str(silent.port)]
    assert past(wired, *words) == [(str(silent), "tcp", "python", 1)]


def test_so_is_one_that_another_has_started(wired: Wired, silent: Address) -> None:
    call = f"setsid {sys.executable} -c '{IGNORES}' {silent.host} {silent.port} & wait"
    assert past(wired, "sh", "-c", call) == [(str(silent), "tcp", "python", 1)]


def test_so_is_udp(wired: Wired) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((FREE.host, 0))
        address = Address(*server.getsockname())
        words = [sys.executable, "-c", DATAGRAMS, address.host, str(address.port)]
        assert past(wired, *words) == [(str(address), "udp", "python", 1)]


def test_what_is_to_pass_is_not_told(wired: Wired, silent: Address) -> None:
    words = [sys.executable, "-c", IGNORES, silent.host, str(silent.port)]
    assert past(wired, *words, **{"pass": [str(silent)]}) == []


@pytest.mark.parametrize("program", [KNOWS, ITSELF])
def test_who_goes_through_the_ingress_or_calls_itself_goes_past_nothing(wired: Wired, program: str) -> None:
    assert past(wired, sys.executable, "-c", program) == []


def test_this_system_tells() -> None:
    assert can_list_sockets()
