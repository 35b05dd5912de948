"""Finds the lab for a server's lines and connects both through it, without variables, which clients drop.

A client's side goes through the link's proxy, the server's side straight to the gateway.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wirefault.core.errors import UserError
from wirefault.core.files import private_folder
from wirefault.core.sockets import Address

_STDIO = "stdio"
_CONNECT_TIMEOUT_S = 1.0


class NoLabError(UserError):
    """There is no such lab, more than one, or it has no such link."""


@dataclass(frozen=True)
class StdioLink:
    """A link's addresses, and its server's command in the wiring, if any."""

    proxy: Address
    gateway: Address
    command: list[str]


@dataclass(frozen=True)
class LabLane:
    """One lane of a lab that is up; ``file`` is its launcher's."""

    file: Path
    lab_id: str
    number: int
    control: Address
    links: dict[str, StdioLink]
    folder: str

    def is_up(self) -> bool:
        """Whether its gateway answers."""
        try:
            with socket.create_connection((self.control.host, self.control.port), timeout=_CONNECT_TIMEOUT_S):
                return True
        except OSError:
            return False


def find_lane(lab: str, link: str) -> LabLane:
    """Return the lane that ``--lab`` names (a lab's id or its launcher's file), else the only one that is up.

    Raises ``NoLabError``.
    """
    if lab:
        lane = _read(Path(lab) if os.sep in lab else private_folder() / f"{lab}.json")
        if lane is not None and link not in lane.links:
            known = ", ".join(lane.links) or "none"
            raise NoLabError(
                f"lab {lane.lab_id} has no link {link!r} to an MCP server over stdio; those are: {known}"
            )
        if lane is None or not lane.is_up():
            raise NoLabError(f"lab {lab} is not up; start one: wirefault lab up")
        return lane
    lanes = [lane for lane in _all_lanes() if link in lane.links and lane.is_up()]
    if len(lanes) == 1:
        return lanes[0]
    if not lanes:
        raise NoLabError(
            f"no lab with a link {link!r} to an MCP server over stdio is up; start one: wirefault lab up"
        )
    ids = ", ".join(lane.lab_id for lane in lanes)
    raise NoLabError(f"several labs have a link {link!r}: name one of {ids} with --lab")


def _all_lanes() -> Iterator[LabLane]:
    """Yield the first lane of each of this user's labs, including some that have ended."""
    for file in sorted(private_folder().glob("lab-*.json")):
        lane = _read(file)
        if lane is not None and lane.number == 0:
            yield lane


def _read(file: Path) -> LabLane | None:
    """Return None for a missing file, or one that is not a launcher's."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        return LabLane(
            file=file,
            lab_id=str(data["lab_id"]),
            number=int(data["lane"]),
            control=Address(**data["control"]),
            links={link["name"]: _link(link, data) for link in data["links"] if link["upstream"] == _STDIO},
            folder=str(data["wiring"].get("folder", "")),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _link(link: Mapping[str, Any], data: Mapping[str, Any]) -> StdioLink:
    proxy, gateway = (Address(**data[place][link["name"]]) for place in ("proxies", "gateways"))
    return StdioLink(proxy, gateway, list(link.get("command", ())))


_BOUND_S = 10.0


class LabConnectionError(UserError):
    """The connection through the lab failed; the message says where."""


@dataclass(frozen=True)
class LabConnection:
    """``client_side`` carries the client's lines into the lab, ``server_side`` the server's."""

    client_side: socket.socket
    server_side: socket.socket
    lane: LabLane
    link: str
    token: str

    def end_after(self, size: int) -> None:
        """Tell the gateway that the client sends no more than that many bytes. Raises ``OSError`` or
        ``LabConnectionError``.

        A proxy on the way would close both directions if one were closed, and no answer could arrive.
        """
        with _exclusive(self.lane), _dial(self.lane.links[self.link].gateway) as connection:
            _handshake(connection, {"lab_id": self.lane.lab_id, "token": self.token, "bytes": size})


def connect_to_lab(lane: LabLane, link: str) -> LabConnection:
    """Connect both sides. Raises ``LabConnectionError``."""
    token = secrets.token_urlsafe(24)
    with _exclusive(lane):
        server_side = _announce(lane, link, token)
        try:
            client_side = _dial_proxy(lane, link)
            if not _read_line(server_side):  # sent once the client's side has arrived
                raise LabConnectionError(
                    f"the gateway of lab {lane.lab_id} was not reached by its proxy within {_BOUND_S:g} s"
                )
        except BaseException:
            server_side.close()
            raise
    for side in (client_side, server_side):
        side.settimeout(None)
    return LabConnection(client_side, server_side, lane, link, token)


@contextmanager
def _exclusive(lane: LabLane) -> Iterator[None]:
    """Hold the lane's lock from the announcement to the client's connection.

    Until the client's connection arrives, the gateway would take any other for it.
    """
    end = time.monotonic() + _BOUND_S
    while True:
        with lane.file.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            # the launcher replaces the file when an address changes
            if os.path.samestat(os.fstat(file.fileno()), lane.file.stat()):
                yield
                return
        if time.monotonic() > end:
            raise LabConnectionError(f"lab {lane.lab_id} is not ready after {_BOUND_S:g} s")


def _announce(lane: LabLane, link: str, token: str) -> socket.socket:
    """Return the server's side, accepted by the gateway."""
    hello = {"lab_id": lane.lab_id, "token": token}
    for last in (False, True):
        try:
            connection = _dial(lane.links[link].gateway)
            answer = _handshake(connection, hello)
            break
        except OSError as error:
            # it may have taken this one for the connection of a client that ended early
            if last:
                raise LabConnectionError(
                    f"the gateway of lab {lane.lab_id} does not answer: {error}"
                ) from None
    if "error" in answer:
        connection.close()
        raise LabConnectionError(f"the gateway of lab {lane.lab_id} refused: {answer['error']}")
    return connection


def _dial_proxy(lane: LabLane, link: str) -> socket.socket:
    proxy = lane.links[link].proxy
    try:
        return _dial(proxy)
    except OSError as error:
        raise LabConnectionError(f"the link {link!r} is down: its proxy at {proxy} says: {error}") from None


def _dial(address: Address) -> socket.socket:
    return socket.create_connection((address.host, address.port), timeout=_BOUND_S)


def _handshake(connection: socket.socket, hello: dict[str, Any]) -> dict[str, Any]:
    """Return the gateway's answer. Raises ``OSError``."""
    connection.sendall(json.dumps(hello).encode() + b"\n")
    try:
        return dict(json.loads(_read_line(connection)))
    except ValueError:
        raise OSError("it closed the connection") from None


def _read_line(connection: socket.socket) -> bytes:
    """Read a line byte by byte, since the client's bytes follow; empty at the end or after the timeout."""
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
