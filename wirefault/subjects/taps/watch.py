"""Watches a subject behind the proxy tap for connections that go past the lab."""

from __future__ import annotations

import os
import socket
import struct
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from socket import getaddrinfo
from typing import Literal

from wirefault.core.sockets import Address, is_loopback
from wirefault.gateway.intercept.policy import matches_host
from wirefault.history.events import Note, WentPastLab
from wirefault.subjects.process import descendants
from wirefault.subjects.subject import AttemptContext, Subject, SubjectResult, SubjectWrapper
from wirefault.wiring.topology import Topology
from wirefault.wiring.wiring import InterceptSpec

Protocol = Literal["tcp", "udp"]

# From linux/netlink.h, sock_diag.h, inet_diag.h and tcp_states.h. The kernel's answer takes a tenth of the
# time of /proc/net/tcp where many connections were closed of late, since those can be left out of it.
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY = 4, 20
_NLM_F_REQUEST_DUMP = 0x301
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_ESTABLISHED, _LISTEN = 1, 10
_EVERY_STATE, _CLOSED = 0xFFF, 1 << 6 | 1 << 7  # TIME_WAIT and CLOSE belong to no process
_HEADER = struct.Struct("=IHHII")
_QUESTION = struct.Struct("=BBBxI48x")
_ROW = struct.Struct("=BBxx2s2s16s16s12x16xI")
_PROTOCOLS: tuple[tuple[Protocol, int, int], ...] = (
    ("tcp", socket.IPPROTO_TCP, _EVERY_STATE & ~_CLOSED),
    ("udp", socket.IPPROTO_UDP, 1 << _ESTABLISHED),  # those that have one peer
)
_LARGEST_ANSWER = 1 << 16


@dataclass(frozen=True)
class SystemSocket:
    """``inode`` is its number, which no other has; ``remote`` is of no meaning for one that ``listens``."""

    protocol: Protocol
    inode: int
    local: Address
    remote: Address
    listens: bool = False


def can_be_told() -> bool:
    """Whether this system tells whose a socket is, and where it leads."""
    if sys.platform != "linux" or not Path("/proc/self/task").is_dir():
        return False
    try:
        list(all_sockets())
    except OSError:
        return False
    return True


def all_sockets() -> Iterator[SystemSocket]:
    """Those of this network that are connected, or about to be, or listen. Raises ``OSError``."""
    for family in (socket.AF_INET, socket.AF_INET6):
        for protocol, number, states in _PROTOCOLS:
            for row in _told(_QUESTION.pack(family, number, 0, states)):
                yield _socket(protocol, row)


def _told(question: bytes) -> Iterator[bytes]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as kernel:
        size = _HEADER.size + len(question)
        kernel.send(_HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST_DUMP, 0, 0) + question)
        while True:
            answer = kernel.recv(_LARGEST_ANSWER)
            while answer:
                length, kind, *_ = _HEADER.unpack_from(answer)
                if kind == _NLMSG_DONE:
                    return
                if kind == _NLMSG_ERROR:
                    number = -struct.unpack_from("=i", answer, _HEADER.size)[0]
                    raise OSError(number, os.strerror(number))
                yield answer[_HEADER.size : length]
                answer = answer[(length + 3) & ~3 :]


def _socket(protocol: Protocol, row: bytes) -> SystemSocket:
    family, state, local_port, remote_port, local, remote, inode = _ROW.unpack_from(row)
    return SystemSocket(
        protocol,
        inode,
        _address(family, local, local_port),
        _address(family, remote, remote_port),
        listens=state == _LISTEN and protocol == "tcp",
    )


def _address(family: int, packed: bytes, port: bytes) -> Address:
    host = ip_address(packed[:4] if family == socket.AF_INET else packed)
    if isinstance(host, IPv6Address) and host.ipv4_mapped is not None:
        host = host.ipv4_mapped
    return Address(str(host), int.from_bytes(port, "big"))


def owners() -> dict[int, str]:
    """The program of each socket of this process's descendants, by inode."""
    programs: dict[int, str] = {}
    for pid in descendants(os.getpid()):
        with suppress(OSError):  # it has ended, or became another user's
            inodes = list(_inodes(pid))
            if inodes:
                programs.update(dict.fromkeys(inodes, _program(pid)))
    if programs:
        # a child that does not run its program yet holds all that this process has open
        for inode in _inodes(os.getpid()):
            programs.pop(inode, None)
    return programs


def _inodes(pid: int) -> Iterator[int]:
    for entry in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
        with suppress(OSError):  # closed meanwhile
            target = os.readlink(f"/proc/{pid}/fd/{entry}")  # noqa: PTH115
            if target.startswith("socket:["):
                yield int(target[len("socket:[") : -1])


def _program(pid: int) -> str:
    return os.path.basename(os.readlink(f"/proc/{pid}/exe"))  # noqa: PTH115, PTH119


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


_LOOK_EVERY_S = 0.02
# a look that takes long, on a machine with many sockets, is taken seldom: a tenth of one processor at most
_LEAST_REST = 9


class WatchedSubject(SubjectWrapper):
    """A subject that records with each attempt which connections were seen to go past the lab.

    All that this process has started during an attempt is taken for the subject.
    """

    def __init__(self, subject: Subject, may_be: Callable[[Address], bool]) -> None:
        super().__init__(subject)
        self._may_be = may_be

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult:
        sightings, failures = Sightings(self._may_be), list[str]()
        try:
            with _watching(sightings, failures):
                return self.inner(prompt, context)
        finally:
            _record(sightings, failures, context)


def _record(sightings: Sightings, failures: list[str], context: AttemptContext) -> None:
    now, identity = time.time(), context.identity
    for past, count in sightings.counts.items():
        context.record(
            WentPastLab(
                now,
                identity.episode,
                identity.attempt,
                past.remote.host,
                past.remote.port,
                past.protocol,
                past.program,
                count,
            )
        )
    for failure in failures:
        context.record(Note(now, "warning", f"what goes past the lab could not be watched: {failure}"))


@contextmanager
def _watching(sightings: Sightings, failures: list[str]) -> Iterator[None]:
    """Looks until the block ends, and once then, since what is open may stay open."""
    over = threading.Event()

    def look_again_and_again() -> None:
        last = False
        while not last:
            last, begun = over.is_set(), time.thread_time()
            try:
                programs = owners()
                if sightings.has_news(programs):
                    sightings.take(all_sockets(), programs)
            except OSError as error:
                failures.append(str(error))
                return
            over.wait(max(_LOOK_EVERY_S, _LEAST_REST * (time.thread_time() - begun)))

    looking = threading.Thread(target=look_again_and_again, name="past the lab", daemon=True)
    looking.start()
    try:
        yield
    finally:
        over.set()
        looking.join()


def allowed(topology: Topology, spec: InterceptSpec) -> Callable[[Address], bool]:
    """Tells of an address whether a part of the lab listens there, or whether it is to pass."""
    parts = [topology.ingress, topology.egress, topology.manager, topology.control]
    parts += [*topology.proxies.values(), *topology.gateways.values()]
    of_lab = {end for part in parts if part is not None for end in _ends(part)}

    def may_be(address: Address) -> bool:
        end = ("" if is_loopback(address.host) else address.host, address.port)
        return end in of_lab or matches_host(spec.pass_, address.host, address.port)

    return may_be


def _ends(address: Address) -> Iterator[tuple[str, int]]:
    """By number, as the system knows them; this machine, which goes by several, by none."""
    try:
        hosts = {str(found[4][0]) for found in getaddrinfo(address.host, None)}
    except OSError:  # no such name: nobody can call it
        hosts = set()
    for host in hosts:
        yield ("" if is_loopback(host) else host, address.port)
