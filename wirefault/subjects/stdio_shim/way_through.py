"""Opens the way through the lab: a client's by the link's proxy, its server's straight to the gateway."""

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

from wirefault.core.sockets import Address
from wirefault.core.user_errors import UserError
from wirefault.subjects.stdio_shim.lab_lane import LabLane

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
        """Tells the gateway that the client sends no more than that many bytes. Raises ``OSError`` or
        ``NoWayError``.

        A proxy on the way would close both directions if one were closed, and no answer could come.
        """
        with _alone(self.lane), _dial(self.lane.links[self.link].gateway) as connection:
            _say_hello(connection, {"lab_id": self.lane.lab_id, "token": self.token, "bytes": size})


def open_way(lane: LabLane, link: str) -> WayThrough:
    """Raises ``NoWayError``."""
    token = secrets.token_urlsafe(24)
    with _alone(lane):
        server_side = _announce(lane, link, token)
        try:
            client_side = _dial_proxy(lane, link)
            if not _read_line(server_side):  # it comes when the client's side has
                raise NoWayError(
                    f"the gateway of lab {lane.lab_id} was not reached by its proxy within {_BOUND_S:g} s"
                )
        except BaseException:
            server_side.close()
            raise
    for side in (client_side, server_side):
        side.settimeout(None)
    return WayThrough(client_side, server_side, lane, link, token)


@contextmanager
def _alone(lane: LabLane) -> Iterator[None]:
    """No other ``wirefault mcp`` is between its announcement and its client's connection.

    Until that has come, the gateway would take any other connection for it.
    """
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


def _announce(lane: LabLane, link: str, token: str) -> socket.socket:
    """The server's side, which the gateway has taken."""
    hello = {"lab_id": lane.lab_id, "token": token}
    for last in (False, True):
        try:
            connection = _dial(lane.links[link].gateway)
            answer = _say_hello(connection, hello)
            break
        except OSError as error:
            # it may have taken this one for the connection of a client that was ended before it came
            if last:
                raise NoWayError(f"the gateway of lab {lane.lab_id} does not answer: {error}") from None
    if "error" in answer:
        connection.close()
        raise NoWayError(f"the gateway of lab {lane.lab_id} refused: {answer['error']}")
    return connection


def _dial_proxy(lane: LabLane, link: str) -> socket.socket:
    proxy = lane.links[link].proxy
    try:
        return _dial(proxy)
    except OSError as error:
        raise NoWayError(f"the link {link!r} is down: its proxy at {proxy} says: {error}") from None


def _dial(address: Address) -> socket.socket:
    return socket.create_connection((address.host, address.port), timeout=_BOUND_S)


def _say_hello(connection: socket.socket, hello: dict[str, Any]) -> dict[str, Any]:
    """The gateway's answer. Raises ``OSError``."""
    connection.sendall(json.dumps(hello).encode() + b"\n")
    try:
        return dict(json.loads(_read_line(connection)))
    except ValueError:
        raise OSError("it closed the connection") from None


def _read_line(connection: socket.socket) -> bytes:
    """A line, byte by byte, since what follows it is the client's; empty at the end or after the bound."""
    line = b""
    try:
        while not line.endswith(b"\n"):
            byte = connection.recv(1)
            if not byte:
                return b""
            line += byte
    except TimeoutError:
        return b""
    return line
