"""What was seen of the connections of a subject that go past the lab. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from wirefault.core.sockets import Address, is_loopback
from wirefault.subjects.taps.system_sockets import Protocol, SystemSocket

# Where names are asked for, which is no call; a UDP socket that has no peer has port 0.
_NO_CALLS = (0, 53)


@dataclass(frozen=True)
class Past:
    """Where connections of one program's led."""

    protocol: Protocol
    remote: Address
    program: str


class Sightings:
    """``may_be`` tells of which addresses nothing is to be said: the lab's, and those that are to pass."""

    def __init__(self, may_be: Callable[[Address], bool]) -> None:
        self._may_be = may_be
        self._known: set[int] = set()
        self._listening: set[int] = set()
        self._udp: set[int] = set()
        self._past: defaultdict[Past, set[int]] = defaultdict(set)

    def has_news(self, owners: Mapping[int, str]) -> bool:
        """Whether there is a socket among them of which it is not known where it leads."""
        return not owners.keys() <= self._known

    def take(self, sockets: Iterable[SystemSocket], owners: Mapping[int, str]) -> None:
        """What one look showed: the sockets of the system, and the subject's programs by theirs."""
        own = [found for found in sockets if found.inode in owners]
        self._listening |= {found.local.port for found in own if found.listens}
        ends = {(found.local, found.remote) for found in own}
        for found in own:
            if found.protocol == "udp" and found.inode not in self._udp:
                # a name's addresses are tried by sockets that send nothing and are gone at once
                self._udp.add(found.inode)
                continue
            self._known.add(found.inode)
            if self._leads_past(found) and (found.remote, found.local) not in ends:
                self._past[Past(found.protocol, found.remote, owners[found.inode])].add(found.inode)

    def _leads_past(self, found: SystemSocket) -> bool:
        if found.listens or found.remote.port in _NO_CALLS or self._may_be(found.remote):
            return False
        if found.protocol == "tcp" and found.local.port in self._listening:
            return False  # somebody else has called it
        stays_here = is_loopback(found.remote.host) or found.remote.host == found.local.host
        return not (stays_here and found.remote.port in self._listening)

    @property
    def counts(self) -> dict[Past, int]:
        """How many connections were seen to lead there."""
        return {past: len(inodes) for past, inodes in self._past.items()}
