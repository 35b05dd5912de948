"""Finds the lab that a server's lines shall cross, without variables, which clients do not pass on."""

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
_LOOK_BOUND_S = 1.0


class NoLabError(UserError):
    """There is no such lab, or more than one, or it has no such link."""


@dataclass(frozen=True)
class StdioLink:
    """Where its connections go, and the command that the wiring has for its server, if any."""

    proxy: Address
    gateway: Address
    command: list[str]


@dataclass(frozen=True)
class LabLane:
    """One lane of a lab that is up, as its launcher's ``file`` describes it."""

    file: Path
    lab_id: str
    number: int
    control: Address
    links: dict[str, StdioLink]
    folder: str

    def is_up(self) -> bool:
        """Whether its gateway answers."""
        try:
            with socket.create_connection((self.control.host, self.control.port), timeout=_LOOK_BOUND_S):
                return True
        except OSError:
            return False


def find_lane(given: str, link: str) -> LabLane:
    """The lane that ``--lab`` names (a lab's id, or its launcher's file); else the one that is up.

    Raises ``NoLabError``.
    """
    if given:
        lane = _read(Path(given) if os.sep in given else private_folder() / f"{given}.json")
        if lane is not None and link not in lane.links:
            known = ", ".join(lane.links) or "none"
            raise NoLabError(
                f"lab {lane.lab_id} has no link {link!r} to an MCP server over stdio; those are: {known}"
            )
        if lane is None or not lane.is_up():
            raise NoLabError(f"no lab {given} is up; start one: wirefault lab up")
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
    """The first lane of each lab of this user, of some that have ended, too."""
    for file in sorted(private_folder().glob("lab-*.json")):
        lane = _read(file)
        if lane is not None and lane.number == 0:
            yield lane


def _read(file: Path) -> LabLane | None:
    """None for a file that is not there, or is no launcher's."""
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
    return StdioLink(proxy, gateway, list(link["command"]))


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
