"""Opens the way through the lab: a connection by the link's proxy to the gateway, and one from there back."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from windtunnel.core.sockets import LOOPBACK, Address, address_of, bind
from windtunnel.core.user_errors import UserError
from windtunnel.subjects.stdio_shim.lab_lane import LabLane

_BOUND_S = 10.0


class NoWayError(UserError):
    """The lab did not let the connection through; the message says where it ended."""


@dataclass(frozen=True)
class WayThrough:
    """``client_side`` carries the client's lines into the lab, ``server_side`` those of the server."""

    client_side: socket.socket
    server_side: socket.socket
    lane: LabLane
    link: str
    token: str

    def end_after(self, size: int) -> None:
        """Tells the gateway that the client sends no more than that many bytes. Raises ``OSError``.

        A proxy on the way would close both directions if one were closed, and no answer could come.
        """
        _ask(
            self.lane.control,
            "POST",
            _path(self.lane, self.link, "/end"),
            {"token": self.token, "bytes": size},
        )


def open_way(lane: LabLane, link: str) -> WayThrough:
    """Raises ``NoWayError``."""
    with bind(Address(LOOPBACK, 0)) as listener:
        token = secrets.token_urlsafe(24)
        body = {"lab_id": lane.lab_id, "port": address_of(listener).port, "token": token}
        with _alone(lane):
            status, answer = _announce(lane, link, body)
            if status != 200:
                raise NoWayError(f"lab {lane.lab_id} refused the link {link!r}: {answer}")
            client_side = _dial_proxy(lane, link)
            try:
                return WayThrough(client_side, _accept(listener, token, lane), lane, link, token)
            except BaseException:
                client_side.close()
                raise


@contextmanager
def _alone(lane: LabLane) -> Iterator[None]:
    """No other ``windtunnel mcp`` is between its announcement and its connection."""
    end = time.monotonic() + _BOUND_S
    while True:
        with lane.file.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            # the launcher puts another file in its place when an address changes
            if os.path.samestat(os.fstat(file.fileno()), lane.file.stat()):
                yield
                return
        if time.monotonic() > end:
            raise NoWayError(f"lab {lane.lab_id} is not ready after {_BOUND_S:g} s")


def _announce(lane: LabLane, link: str, body: dict[str, Any]) -> tuple[int, str]:
    try:
        return _ask(lane.control, "PUT", _path(lane, link), body)
    except OSError as error:
        raise NoWayError(f"the gateway of lab {lane.lab_id} does not answer: {error}") from None


def _dial_proxy(lane: LabLane, link: str) -> socket.socket:
    address = lane.proxies[link]
    try:
        connection = socket.create_connection((address.host, address.port), timeout=_BOUND_S)
        connection.settimeout(None)
        return connection
    except OSError as error:
        raise NoWayError(f"the link {link!r} is down: its proxy at {address} says: {error}") from None


def _accept(listener: socket.socket, token: str, lane: LabLane) -> socket.socket:
    """The gateway's connection, which shows the token: others of this machine could connect, too."""
    listener.settimeout(_BOUND_S)
    end = time.monotonic() + _BOUND_S
    try:
        while time.monotonic() < end:
            connection, _ = listener.accept()
            connection.settimeout(_BOUND_S)
            shown = b""
            while len(shown) <= len(token) and (byte := connection.recv(1)):
                shown += byte
            if secrets.compare_digest(shown, token.encode() + b"\n"):
                connection.settimeout(None)
                return connection
            connection.close()
    except OSError:
        pass  # the bound, or a connection that broke off: the next line says what it means
    raise NoWayError(f"the gateway of lab {lane.lab_id} was not reached through its proxy in {_BOUND_S:g} s")


def _path(lane: LabLane, link: str, more: str = "") -> str:
    return f"/lanes/{lane.number}/links/{link}/server{more}"


def _ask(control: Address, method: str, path: str, body: dict[str, Any]) -> tuple[int, str]:
    """The status and the body of the answer. Raises ``OSError``.

    By hand, since an HTTP client would take as long to import as all the rest.
    """
    content = json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.0\r\nHost: {control}\r\nContent-Length: {len(content)}\r\n\r\n"
    with socket.create_connection((control.host, control.port), timeout=_BOUND_S) as connection:
        connection.sendall(head.encode() + content)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    block, _, text = answer.partition(b"\r\n\r\n")
    status = block.split(b" ")[1:2]
    return int(status[0]) if status and status[0].isdigit() else 0, text.decode("utf-8", "replace")
