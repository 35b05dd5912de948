"""The tap for code in this process: within a block, new connections of this process go to the ingress.

It replaces ``connect`` of sockets, so that clients made before the block are intercepted too, and makes TLS
contexts trust the lab's authority. A redirected connection begins with a one-way ``CONNECT``, which names the
server. Processes that start within the block get the variables of the proxy tap. No proxy variable of this
process changes: a client that outlives the block is not left with a proxy that has ended.

A TLS context that was used within the block keeps the authority's certificate, whose key ends with the lab.
"""

from __future__ import annotations

import _socket
import os
import socket
import ssl
import stat
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from ipaddress import IPv4Network, ip_address
from typing import Any
from weakref import WeakSet

from wirefault.core.errors import UserError
from wirefault.core.sockets import Address, is_loopback
from wirefault.history.events import Level
from wirefault.subjects.subject import Subject
from wirefault.subjects.taps.tap import Tap
from wirefault.subjects.taps.watch import WatchedSubject, can_list_sockets

# the ingress is on this machine
_CONNECT_BOUND_S = 10.0
# addresses that no server has, for names that this machine cannot resolve
_UNRESOLVED = IPv4Network("198.18.0.0/15")
_LIMITS = "connections that were open before, and libraries with other sockets (psycopg, gRPC) bypass it"


class TapInUseError(UserError):
    """Another experiment runs in this process."""


class ThisProcessTap:
    """Leads this process to its lab while ``active``; one tap at a time is. Blocks may be nested.

    ``variables`` of the environment lead other programs to the lab; None removes one. Those that do not
    belong to the tap of child processes are set, for clients that are made then. Without ``interception``
    variables alone lead clients to the lab.
    """

    def __init__(self, variables: Mapping[str, str | None], interception: Interception | None = None) -> None:
        self.variables = variables
        of_children = interception.child_variables if interception else ()
        self._own = {name: value for name, value in variables.items() if name not in of_children}
        self._interception = interception
        self._before: Mapping[str, str | None] = {}
        self._blocks: list[bool] = []
        self._acts = False

    def active(self) -> AbstractContextManager[None]:
        """Intercept within the block. Raises ``TapInUseError``."""
        return self._block(True)

    def paused(self) -> AbstractContextManager[None]:
        """Undo ``active`` within the block, for code that is not under test. Raises ``TapInUseError``."""
        return self._block(False)

    @contextmanager
    def _block(self, acts: bool) -> Iterator[None]:
        with _LOCK:
            if _active not in ([], [self]):
                raise TapInUseError("another experiment runs in this process: run one after the other")
            self._enter(acts)
        try:
            yield
        finally:
            with _LOCK:
                self._leave(acts)

    def _enter(self, acts: bool) -> None:
        if not self._blocks:
            _active.append(self)
            self._before = {name: os.environ.get(name) for name in self._own}
            if self._interception is not None:
                _replace_functions(self._interception)
        self._blocks.append(acts)
        self._switch()

    def _leave(self, acts: bool) -> None:
        at = len(self._blocks) - 1 - self._blocks[::-1].index(acts)  # threads may leave in any order
        del self._blocks[at]
        self._switch()
        if not self._blocks:
            _restore_functions()
            _active.remove(self)

    def _switch(self) -> None:
        """Act as the innermost block says."""
        acts = bool(self._blocks) and self._blocks[-1]
        if self._interception is not None:
            self._interception.is_paused = not acts
        if acts != self._acts:
            self._acts = acts
            _set_variables(self._own if acts else self._before)

    def close_connections(self) -> None:
        """End the connections of this process to the lab, as if it had ended."""
        if self._interception is not None:
            self._interception.close_connections()

    def watched(self, subject: Subject, lab_pids: Callable[[], Collection[int]]) -> Subject:
        """Return the subject, whose attempts record the connections that bypassed the tap.

        Its notes are for the user. ``lab_pids`` returns the processes of the lab.
        """
        if self._interception is None:
            return subject
        can_watch = can_list_sockets()
        notes: list[tuple[Level, str]] = [("info", "tap: this process")]
        if not can_watch:
            notes.append(("warning", f"{_LIMITS}; this system cannot detect that"))
        subject.notes = [*subject.notes, *notes]
        return WatchedSubject(subject, self._interception.may_pass, lab_pids) if can_watch else subject


def _set_variables(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


class Interception:
    """Replaces functions of sockets, TLS and processes, so that connections go to the ``ingress``.

    ``authority`` is the certificate that TLS contexts trust, ``children`` the tap of processes that start.
    ``proxies``: addresses of links. ``is_of_lab``: addresses that are called directly.
    ``may_pass``: addresses that may bypass the tap. ``answers_for``: hosts that the lab answers for, which
    need not be resolved.
    """

    def __init__(
        self,
        ingress: Address,
        authority: str,
        children: Tap,
        *,
        proxies: Iterable[Address],
        is_of_lab: Callable[[Address], bool],
        may_pass: Callable[[Address], bool],
        answers_for: Callable[[str], bool],
    ) -> None:
        self.may_pass = may_pass
        self.is_paused = False
        self._ingress = ingress
        self._entrances = {ingress, *proxies}
        self._authority = authority
        self.child_variables = frozenset((*children.variables, *children.appended, *children.removed))
        self._children = children
        self._is_of_lab = is_of_lab
        self._answers_for = answers_for
        self._names: defaultdict[str, set[str]] = defaultdict(set)
        self._without_address: dict[str, str] = {}
        self._trusting: WeakSet[ssl.SSLContext] = WeakSet()

    def connect(self, client: socket.socket, address: Any) -> None:
        """Connect to the ingress instead of a server; to anything else as usual. Raises ``OSError``."""
        target = self._target(client, address)
        if target is None:
            _CONNECT(client, address)
            return
        host = self._ingress.host
        here = f"::ffff:{host}" if client.family == socket.AF_INET6 else host
        timeout = client.gettimeout()
        client.settimeout(_CONNECT_BOUND_S)
        try:
            _CONNECT(client, (here, self._ingress.port))
            head = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nX-Tap: oneway\r\n\r\n"
            _socket.socket.sendall(client, head.encode("ascii"))
        finally:
            client.settimeout(timeout)

    def _target(self, client: socket.socket, address: Any) -> Address | None:
        """The server by its name, if only one name has that address; None for what is not intercepted."""
        is_stream = client.type & socket.SOCK_STREAM == socket.SOCK_STREAM
        if self.is_paused or client.family not in (socket.AF_INET, socket.AF_INET6) or not is_stream:
            return None
        host, port = str(address[0]), int(address[1])
        if self._is_of_lab(Address(host, port)):
            return None
        # the ingress reads the name of a server on this machine, where several share an address
        names = set() if is_loopback(host) else self._names.get(host, set())
        name = next(iter(names)) if len(names) == 1 else host
        return Address(name.encode("idna").decode() if not name.isascii() else name, port)

    def close_connections(self) -> None:
        """End the connections to ingress and links, for both sides. Their sockets stay open."""
        for descriptor in map(int, os.listdir("/dev/fd")):  # noqa: PTH208 - the names are all that is needed
            with suppress(OSError):  # closed since, or not connected
                if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                    continue
                with socket.socket(fileno=os.dup(descriptor)) as connection:
                    peer = connection.getpeername()
                    if connection.family in (socket.AF_INET, socket.AF_INET6) and self._is_entrance(peer):
                        connection.shutdown(socket.SHUT_RDWR)

    def _is_entrance(self, peer: tuple[Any, ...]) -> bool:
        return Address(str(peer[0]).removeprefix("::ffff:"), int(peer[1])) in self._entrances

    def resolve(self, host: Any, *arguments: Any, **options: Any) -> list[Any]:
        """Resolve a name as usual, and remember whose address it is. Raises ``OSError``."""
        if isinstance(host, bytes):  # as anyio has it, and so the asynchronous clients of httpx
            host = host.decode("ascii", "replace")
        if self.is_paused or not isinstance(host, str) or _is_address(host) or is_loopback(host):
            return _GETADDRINFO(host, *arguments, **options)
        known = self._without_address.get(host)
        if known is None and not self._answers_for(host):
            try:
                results = _GETADDRINFO(host, *arguments, **options)
            except socket.gaierror:
                pass  # the ingress decides, and records it
            else:
                for result in results:
                    self._names[str(result[4][0])].add(host)
                return results
        if known is None:
            known = str(_UNRESOLVED[1 + len(self._without_address)])
            self._without_address[host] = known
            self._names[known].add(host)
        return _GETADDRINFO(known, *arguments, **options)

    def trusted(self, context: ssl.SSLContext) -> None:
        """Make the client's context trust the lab's authority."""
        if context not in self._trusting and not self.is_paused:
            self._trusting.add(context)
            with suppress(ssl.SSLError):  # it has the certificate
                context.load_verify_locations(cadata=self._authority)

    def environ(self, environ: Mapping[str, str] | None) -> Mapping[str, str] | None:
        """The environment of a process that starts within the block."""
        if self.is_paused:
            return environ
        return self._children.environ(os.environ if environ is None else environ)


_LOCK = threading.Lock()
_active: list[ThisProcessTap] = []  # at most one: the functions below belong to the whole process
_CONNECT = _socket.socket.connect
_GETADDRINFO = socket.getaddrinfo
_ORIGINALS: dict[tuple[type | Any, str], Any] = {
    (socket, "getaddrinfo"): socket.getaddrinfo,
    (ssl.SSLContext, "wrap_socket"): ssl.SSLContext.wrap_socket,
    (ssl.SSLContext, "wrap_bio"): ssl.SSLContext.wrap_bio,
    (subprocess.Popen, "__init__"): subprocess.Popen.__init__,
}


_replaced: list[tuple[Any, str]] = []


def _replace_functions(interception: Interception) -> None:
    for owner, name, function in list(_replacements(interception)):
        _replaced.append((owner, name))
        setattr(owner, name, function)


def _restore_functions() -> None:
    while _replaced:
        owner, name = _replaced.pop()
        original = _ORIGINALS.get((owner, name))
        if original is None:  # inherited
            delattr(owner, name)
        else:
            setattr(owner, name, original)


def _replacements(tap: Interception) -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    wrap_socket = _ORIGINALS[ssl.SSLContext, "wrap_socket"]
    wrap_bio = _ORIGINALS[ssl.SSLContext, "wrap_bio"]
    start = _ORIGINALS[subprocess.Popen, "__init__"]

    def connect(self: socket.socket, address: Any) -> None:
        tap.connect(self, address)

    def connect_ex(self: socket.socket, address: Any) -> int:
        try:
            tap.connect(self, address)
        except OSError as error:
            return error.errno or 0
        return 0

    def wrapped_socket(self: ssl.SSLContext, sock: Any, server_side: bool = False, *a: Any, **k: Any) -> Any:
        if not server_side:
            tap.trusted(self)
        return wrap_socket(self, sock, server_side, *a, **k)

    def wrapped_bio(
        self: ssl.SSLContext, incoming: Any, outgoing: Any, server_side: bool = False, *a: Any, **k: Any
    ) -> Any:
        if not server_side:
            tap.trusted(self)
        return wrap_bio(self, incoming, outgoing, server_side, *a, **k)

    def started(self: subprocess.Popen[Any], *arguments: Any, **options: Any) -> None:
        if len(arguments) <= _ENV_PLACE:
            options["env"] = tap.environ(options.get("env"))
        start(self, *arguments, **options)

    yield socket.socket, "connect", connect
    yield socket.socket, "connect_ex", connect_ex
    yield socket, "getaddrinfo", tap.resolve
    yield ssl.SSLContext, "wrap_socket", wrapped_socket
    yield ssl.SSLContext, "wrap_bio", wrapped_bio
    yield subprocess.Popen, "__init__", started
    if (uvloop := sys.modules.get("uvloop")) is not None:
        for name, method in _uvloop_methods(uvloop.Loop, tap):
            yield uvloop.Loop, name, method


def _uvloop_methods(loop_class: Any, tap: Interception) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Methods of uvloop's loop that use Python's sockets and resolver, which the tap sees."""
    create_connection = loop_class.create_connection

    async def getaddrinfo(loop: Any, host: Any, port: Any, **options: Any) -> Any:
        return await loop.run_in_executor(None, partial(socket.getaddrinfo, host, port, **options))

    async def connecting(
        loop: Any, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any
    ) -> Any:
        if host is None or options.get("sock") is not None or tap.is_paused:
            return await create_connection(loop, protocol_factory, host, port, **options)
        connected = await loop.run_in_executor(None, socket.create_connection, (host, port))
        connected.setblocking(False)
        own = {name: value for name, value in options.items() if name.startswith(("ssl", "server_"))}
        if own.get("ssl") and own.get("server_hostname") is None:
            own["server_hostname"] = host
        return await create_connection(loop, protocol_factory, sock=connected, **own)

    yield "getaddrinfo", getaddrinfo
    yield "create_connection", connecting


_ENV_PLACE = 10  # of ``env`` among the arguments of ``Popen``


def _is_address(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
