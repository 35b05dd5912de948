"""Detects connections that bypass the proxy tap, from the sockets of this process's descendants (Linux)."""

from __future__ import annotations

import os
import socket
import struct
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
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

# From linux/netlink.h, sock_diag.h, inet_diag.h and tcp_states.h. A netlink query takes a tenth of the time
# of /proc/net/tcp (or psutil, which reads it) after many closed connections, since it can leave those out.
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
    ("udp", socket.IPPROTO_UDP, 1 << _ESTABLISHED),  # connected ones
)
_MAX_ANSWER = 1 << 16


@dataclass(frozen=True)
class SystemSocket:
    """A socket by its ``inode``, which is unique; ``remote`` has no meaning for one that ``listens``."""

    protocol: Protocol
    inode: int
    local: Address
    remote: Address
    listens: bool = False


def can_list_sockets() -> bool:
    """Whether this system shows the owner and the destination of a socket."""
    if sys.platform != "linux" or not Path("/proc/self/task").is_dir():
        return False
    try:
        list(all_sockets())
    except OSError:
        return False
    return True


def all_sockets() -> Iterator[SystemSocket]:
    """Yield this network's sockets that are connected, connecting or listening. Raises ``OSError``."""
    for family in (socket.AF_INET, socket.AF_INET6):
        for protocol, number, states in _PROTOCOLS:
            for row in _query_kernel(_QUESTION.pack(family, number, 0, states)):
                yield _socket(protocol, row)


def _query_kernel(question: bytes) -> Iterator[bytes]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as kernel:
        size = _HEADER.size + len(question)
        kernel.send(_HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST_DUMP, 0, 0) + question)
        while True:
            answer = kernel.recv(_MAX_ANSWER)
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


def socket_owners(lab_pids: Collection[int] = ()) -> dict[int, str]:
    """Return the program of each socket of this process's descendants, by inode.

    ``lab_pids``: processes of the lab among them, which are left out.
    """
    programs: dict[int, str] = {}
    for pid in descendants(os.getpid(), lab_pids):
        with suppress(OSError):  # it ended, or changed its user
            inodes = list(_inodes(pid))
            if inodes:
                programs.update(dict.fromkeys(inodes, _program(pid)))
    if programs:
        # a child before its exec still has all of this process's sockets
        for inode in _inodes(os.getpid()):
            programs.pop(inode, None)
    return programs


def _inodes(pid: int) -> Iterator[int]:
    for entry in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
        with suppress(OSError):  # closed since
            target = os.readlink(f"/proc/{pid}/fd/{entry}")  # noqa: PTH115
            if target.startswith("socket:["):
                yield int(target[len("socket:[") : -1])


def _program(pid: int) -> str:
    return os.path.basename(os.readlink(f"/proc/{pid}/exe"))  # noqa: PTH115, PTH119


_HERE = "this process"
_EARLIER = "this process, over a connection that was open before the attempt"
# DNS is not a call; a UDP socket without a peer has port 0.
_NO_CALLS = (0, 53)


@dataclass(frozen=True)
class Past:
    """A program's destination that bypassed the lab."""

    protocol: Protocol
    remote: Address
    program: str


class BypassTracker:
    """Collects connections that bypass the lab.

    ``is_allowed``: addresses of the lab, and hosts that may pass. ``earlier``: inodes of sockets from before
    the attempt; servers among them are not the subject's, such as those of a test.
    """

    def __init__(self, is_allowed: Callable[[Address], bool], earlier: Collection[int] = ()) -> None:
        self._is_allowed = is_allowed
        self._known: set[int] = set(earlier)
        self._earlier = frozenset(earlier)
        self._listening: set[int] = set()
        self._earlier_servers: set[int] = set()
        self._udp: set[int] = set()
        self._past: defaultdict[Past, set[int]] = defaultdict(set)

    def has_unknown(self, socket_owners: Mapping[int, str]) -> bool:
        """Whether there is a socket whose destination is not known yet."""
        return not socket_owners.keys() <= self._known

    def take(self, sockets: Iterable[SystemSocket], socket_owners: Mapping[int, str]) -> None:
        """Take one snapshot: the system's sockets, and the subject's programs by socket."""
        own = [each for each in sockets if each.inode in socket_owners]
        listening = [each for each in own if each.listens]
        self._listening |= {each.local.port for each in listening if each.inode not in self._earlier}
        self._earlier_servers |= {each.local.port for each in listening if each.inode in self._earlier}
        ends = {(each.local, each.remote) for each in own}
        for each in own:
            if each.inode in self._earlier:
                continue
            if each.protocol == "udp" and each.inode not in self._udp:
                # resolvers probe a name's addresses with sockets that send nothing and close at once
                self._udp.add(each.inode)
                continue
            self._known.add(each.inode)
            is_inside = (each.remote, each.local) in ends and each.remote.port not in self._earlier_servers
            if self._leads_past(each) and not is_inside:
                self._past[Past(each.protocol, each.remote, socket_owners[each.inode])].add(each.inode)

    def take_earlier(
        self, before: Mapping[int, tuple[Address, int]], after: Mapping[int, tuple[Address, int]]
    ) -> None:
        """Take this process's connections from before the attempt that carried bytes in it."""
        for inode, (remote, count) in before.items():
            if inode in after and after[inode][1] != count and not self._is_allowed(remote):
                self._past[Past("tcp", remote, _EARLIER)].add(inode)

    def _leads_past(self, each: SystemSocket) -> bool:
        if each.listens or each.remote.port in _NO_CALLS or self._is_allowed(each.remote):
            return False
        if each.protocol == "tcp" and each.local.port in self._listening | self._earlier_servers:
            return False  # an incoming connection
        stays_here = is_loopback(each.remote.host) or each.remote.host == each.local.host
        return not (stays_here and each.remote.port in self._listening)

    @property
    def counts(self) -> dict[Past, int]:
        """Number of connections by destination."""
        return {past: len(inodes) for past, inodes in self._past.items()}


_POLL_S = 0.02
# pause after a snapshot, in multiples of its CPU time: at most a tenth of one processor
_MIN_REST = 9


class WatchedSubject(SubjectWrapper):
    """Records with each attempt the connections that bypassed the lab.

    Every process that this one starts during an attempt counts as the subject's. With ``lab_pids``, which
    returns the lab's processes among its children, this process counts, too.
    """

    def __init__(
        self,
        subject: Subject,
        is_allowed: Callable[[Address], bool],
        lab_pids: Callable[[], Collection[int]] | None = None,
    ) -> None:
        super().__init__(subject)
        self._is_allowed = is_allowed
        self._lab_pids = lab_pids

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult:
        owners, before, failures = socket_owners, dict[int, tuple[Address, int]](), list[str]()
        tracker = BypassTracker(self._is_allowed)
        if self._lab_pids is not None:
            owners, before = partial(_owners_here, frozenset(self._lab_pids())), open_connections()
            tracker = BypassTracker(self._is_allowed, owners().keys())
        try:
            with _watching(tracker, failures, owners):
                return self.inner(prompt, context)
        finally:
            if before:
                tracker.take_earlier(before, open_connections())
            _record(tracker, failures, context)


def _owners_here(lab_pids: Collection[int]) -> dict[int, str]:
    """The sockets of this process and of its descendants, without the lab's."""
    return {**socket_owners(lab_pids), **dict.fromkeys(_inodes(os.getpid()), _HERE)}


# From linux/tcp.h: the counts of bytes that were acknowledged and received.
_TCP_INFO_BYTES = struct.Struct("=120xQQ")


def open_connections() -> dict[int, tuple[Address, int]]:
    """This process's connections (Linux): by inode the server, and how many bytes went there and back."""
    connections: dict[int, tuple[Address, int]] = {}
    for entry in os.listdir("/proc/self/fd"):  # noqa: PTH208 - the names are all that is needed
        with suppress(OSError, ValueError, struct.error):  # closed since, or not a TCP connection
            target = os.readlink(f"/proc/self/fd/{entry}")  # noqa: PTH115 - as above
            if target.startswith("socket:["):
                connections[int(target[len("socket:[") : -1])] = _traffic(os.dup(int(entry)))
    return connections


def _traffic(descriptor: int) -> tuple[Address, int]:
    """Takes over the descriptor. Raises ``OSError`` if it is not a TCP connection."""
    with socket.socket(fileno=descriptor) as connection:
        if connection.family not in (socket.AF_INET, socket.AF_INET6):
            raise ValueError
        host, port = connection.getpeername()[:2]
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES.size)
        return Address(str(host).removeprefix("::ffff:"), int(port)), sum(_TCP_INFO_BYTES.unpack(info))


def _record(tracker: BypassTracker, failures: list[str], context: AttemptContext) -> None:
    now, identity = time.time(), context.identity
    for past, count in tracker.counts.items():
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
        context.record(
            Note(now, "warning", f"could not watch for connections that bypass the lab: {failure}")
        )


@contextmanager
def _watching(
    tracker: BypassTracker, failures: list[str], owners: Callable[[], dict[int, str]]
) -> Iterator[None]:
    """Take snapshots until the block ends, and one more then, since connections may stay open."""
    over = threading.Event()

    def take_snapshots() -> None:
        last = False
        while not last:
            last, begun = over.is_set(), time.thread_time()
            try:
                programs = owners()
                if tracker.has_unknown(programs):
                    tracker.take(all_sockets(), programs)
            except OSError as error:
                failures.append(str(error))
                return
            over.wait(max(_POLL_S, _MIN_REST * (time.thread_time() - begun)))

    thread = threading.Thread(target=take_snapshots, name="past the lab", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def allowed(topology: Topology, spec: InterceptSpec) -> Callable[[Address], bool]:
    """Return a test for addresses where a part of the lab listens, or that may pass."""
    parts = [topology.ingress, topology.egress, topology.manager, topology.control]
    parts += [*topology.proxies.values(), *topology.gateways.values()]
    lab_ends = {end for part in parts if part is not None for end in _ends(part)}

    def is_allowed(address: Address) -> bool:
        end = ("" if is_loopback(address.host) else address.host, address.port)
        return end in lab_ends or matches_host(spec.pass_, address.host, address.port)

    return is_allowed


def _ends(address: Address) -> Iterator[tuple[str, int]]:
    """Yield the address's numeric hosts; loopback, which has several, as ""."""
    try:
        hosts = {str(info[4][0]) for info in getaddrinfo(address.host, None)}
    except OSError:  # an unknown name cannot be called
        hosts = set()
    for host in hosts:
        yield ("" if is_loopback(host) else host, address.port)
