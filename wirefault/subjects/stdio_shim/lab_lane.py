"""Finds the lab that a server's lines shall cross, without variables, which clients do not pass on."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wirefault.core.private_files import private_folder
from wirefault.core.sockets import Address
from wirefault.core.user_errors import UserError

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
