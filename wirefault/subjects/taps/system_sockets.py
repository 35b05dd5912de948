"""The sockets of this process's descendants, as Linux tells of them."""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Literal

from wirefault.core.sockets import Address
from wirefault.subjects.process_tree import descendants

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
