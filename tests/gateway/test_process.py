"""``python -m wirefault.gateway`` as a process: start and end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO

import pytest
import requests

from tests.gateway.lab import TOKEN, Lab, dial
from tests.shared_imports import fork
from tests.support import PATIENCE_S, until
from tests.upstream import FREE, Upstream, read_all, read_head
from wirefault.core.control_access import TOKEN_FILE
from wirefault.core.processes import LIFELINE_VARIABLE, TOPOLOGY_VARIABLE
from wirefault.core.sockets import SOCKETS_VARIABLE, Address, bind, bound_address
from wirefault.lab.process import Child, python, start
from wirefault.wiring.links import lab_links
from wirefault.wiring.topology import default_topology

pytestmark = pytest.mark.slow

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@contextmanager
def process(folder: Path, upstream: Address) -> Iterator[tuple[Child, Lab, IO[bytes]]]:
    """The gateway with sockets and lifeline handed over, as the launcher does it."""
    names = [*(f"gateway_{link.name}" for link in lab_links()), "control"]
    sockets = {name: bind(FREE) for name in names}
    base = default_topology("lab")
    topology = replace(
        base,
        services=dict.fromkeys(base.services, upstream),
        gateways={link.name: bound_address(sockets[f"gateway_{link.name}"]) for link in lab_links()},
        control=bound_address(sockets["control"]),
    )
    topology.dump(folder / "topology.json")
    reading, writing = os.pipe()
    lifeline = os.fdopen(writing, "wb")
    environ = {
        **os.environ,
        TOPOLOGY_VARIABLE: str(folder / "topology.json"),
        SOCKETS_VARIABLE: json.dumps({name: listener.fileno() for name, listener in sockets.items()}),
        LIFELINE_VARIABLE: str(reading),
        "STATE_DB": str(folder / "state.db"),
        "LOGS_DIR": str(folder / "logs"),
        TOKEN_FILE: str(folder / "token"),
    }
    (folder / "token").write_text(TOKEN)
    handed = [reading, *(listener.fileno() for listener in sockets.values())]
    child = start("gateway", python("wirefault.gateway"), environ, handed, None, fork).child
    os.close(reading)
    for listener in sockets.values():
        listener.close()
    try:
        yield child, Lab(folder, topology), lifeline
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait(PATIENCE_S)
        lifeline.close()


@pytest.mark.parametrize(
    "stop",
    [
        lambda child, _: child.send_signal(signal.SIGTERM),
        lambda child, _: child.send_signal(signal.SIGINT),
        lambda _, lifeline: lifeline.close(),
    ],
    ids=["SIGTERM", "SIGINT", "lifeline"],
)
def test_gateway_exits_cleanly_and_keeps_records(
    tmp_path: Path, stop: Callable[[Child, IO[bytes]], None]
) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        process(tmp_path, bound_address(silent)) as (child, lab, lifeline),
    ):
        lab.begin()
        with dial(lab.address("search")) as client, requests.Session() as idle:
            idle.get(lab.topology.control.url, timeout=PATIENCE_S)
            client.sendall(b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n")
            until(lambda: lab.control("GET", "/lanes/0").json()["open"])
            stop(child, lifeline)
            assert child.wait(PATIENCE_S) == 0
        assert lab.exchange().error == "the gateway was stopped"


def answer_all(connection: socket.socket) -> None:
    while True:
        read_head(connection)
        connection.sendall(OK)


@pytest.mark.parametrize(
    ("number", "lost"), [(signal.SIGTERM, 0), (signal.SIGINT, 0), (signal.SIGKILL, 1)], ids=str
)
def test_replies_before_stop_are_in_history(tmp_path: Path, number: int, lost: int) -> None:
    upstream = Upstream(answer_all)
    with process(tmp_path, upstream.address) as (child, lab, _):
        lab.begin()
        with dial(lab.address("search")) as client:
            for _ in range(20):
                client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                assert read_all(client, len(OK)) == OK
            child.send_signal(number)
            child.wait(PATIENCE_S)
        assert len(lab.recorded()) >= 20 - lost  # a kill loses at most the last turn of the loop
    upstream.close()


def test_taken_address_is_reported_without_traceback(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        base = default_topology("lab")
        gateways = {**base.gateways, "search": bound_address(taken)}
        replace(base, gateways=gateways).dump(tmp_path / "topology.json")
        environ = {**os.environ, TOPOLOGY_VARIABLE: str(tmp_path / "topology.json")}
        environ[TOKEN_FILE] = str(tmp_path / "token")
        command = [sys.executable, "-m", "wirefault.gateway"]
        done = subprocess.run(
            command, env=environ, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    assert done.returncode == 1
    assert "in use" in done.stderr and "Traceback" not in done.stderr
