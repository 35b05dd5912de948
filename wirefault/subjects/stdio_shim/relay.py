"""Carries the bytes of a client and its server through the lab, and ends when one of them does."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO

from wirefault.core.errors import InputError
from wirefault.subjects.stdio_shim.lab_connection import NoWayError, WayThrough, find_lane, open_way

_REAPER = str(Path(__file__).parents[1] / "reaper.py")


class ServerProcess:
    """Starts the command in ``folder`` (empty: this one's). ``reaper.py`` ends all that the command starts.

    What it says on standard error goes where this process's goes. Raises ``OSError``.
    """

    def __init__(self, command: Sequence[str], folder: str) -> None:
        lifeline, self._lifeline = os.pipe()
        try:
            self._popen = subprocess.Popen(
                [sys.executable, "-I", "-S", _REAPER, str(lifeline), *command],
                cwd=folder or None,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=[lifeline],
                start_new_session=True,
                bufsize=0,
            )
        finally:
            os.close(lifeline)
        assert self._popen.stdin and self._popen.stdout
        self.stdin: IO[bytes] = self._popen.stdin
        self.stdout: IO[bytes] = self._popen.stdout

    def wait(self) -> int:
        """Its exit code, as a shell has it, once it has ended."""
        code = self._popen.wait()
        return code if code >= 0 else 128 - code  # its reaper was killed

    @property
    def ended(self) -> bool:
        return self._popen.poll() is not None

    def end_input(self) -> None:
        """Closes its standard input."""
        with suppress(OSError):
            self.stdin.close()

    def signal(self, number: int) -> None:
        """Sends it a signal, by way of its reaper."""
        with suppress(OSError):  # it has ended
            os.write(self._lifeline, bytes((number,)))

    def kill(self) -> None:
        """Ends it at once, with all that it has started."""
        self.signal(signal.SIGKILL)


_STDIN, _STDOUT = 0, 1
_SIZE = 65536
# what the SDKs of MCP give a server to end after its input has, and again after SIGTERM
_GRACE_S = 2.0
_LOOK_S = 0.2
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class _Event(Enum):
    CLIENT_SILENT = auto()  # it sends no more
    CLIENT_ENDED = auto()  # and the gateway knows
    CLIENT_DEAF = auto()  # it reads no more
    LAB_ENDED = auto()  # nothing more comes for the client
    SERVER_TO_END = auto()  # nothing more comes for the server
    SERVER_TO_DIE = auto()  # a fault kills it
    SERVER_SILENT = auto()  # it says no more
    SERVER_ENDED = auto()  # its process has


class Relay:
    """Client's input -> lab -> server's input, and the server's output -> lab -> client's output.

    ``run`` may be called once.
    """

    def __init__(
        self, way: WayThrough, server: ServerProcess, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._way = way
        self._server = server
        self._clock = clock
        self._events: SimpleQueue[_Event] = SimpleQueue()
        self._parent = os.getppid()
        self._happened: set[_Event] = set()
        self._ends_at: list[tuple[float, int]] | None = None
        self._lab_ended_at = 0.0
        self._was_cut = False
        self._exit_code = 0
        self._signalled = False

    def run(self) -> int:
        """The server's exit code."""
        for number in _SIGNALS:
            signal.signal(number, lambda number, _: self._on_signal(number))
        for work in (self._from_client, self._to_client, self._to_server, self._from_server, self._until_end):
            threading.Thread(target=work, daemon=True).start()
        while not self._over():
            with suppress(Empty):
                self._on(self._events.get(timeout=_LOOK_S))
            self._look_after()
        return self._exit_code

    def _over(self) -> bool:
        """Whether the server has ended, and its last words have arrived, or are not waited for."""
        all_said = _Event.LAB_ENDED in self._happened or self._signalled or self._client_is_gone()
        return _Event.SERVER_ENDED in self._happened and all_said

    def _client_is_gone(self) -> bool:
        return os.getppid() != self._parent

    # what happens

    def _on(self, event: _Event) -> None:
        self._happened.add(event)
        if event is _Event.LAB_ENDED:
            _close_output()
            self._lab_ended_at = self._clock()
            if _Event.CLIENT_DEAF in self._happened:
                self._end_server()
        elif event is _Event.SERVER_TO_END:
            # neither its client nor the server wanted that; the lab's other side ends any moment now
            self._was_cut = not self._happened & {_Event.CLIENT_SILENT, _Event.SERVER_SILENT}
            self._server.end_input()
        elif event is _Event.SERVER_TO_DIE:
            self._say("a fault has killed the server")
            self._server.kill()
        elif event is _Event.SERVER_ENDED and self._exit_code > 128 and not self._signalled:
            self._say(f"the server was killed by signal {self._exit_code - 128}")

    def _on_signal(self, number: int) -> None:
        self._signalled = True
        self._server.signal(number)

    def _end_server(self) -> None:
        """As the SDKs end one: no more input, then SIGTERM, then SIGKILL."""
        self._server.end_input()
        now = self._clock()
        self._ends_at = [(now + _GRACE_S, signal.SIGTERM), (now + 2 * _GRACE_S, signal.SIGKILL)]

    def _look_after(self) -> None:
        """Ends the server step by step; begins to when the client is gone that would do it."""
        if self._ends_at is None and _Event.CLIENT_ENDED in self._happened and self._client_is_gone():
            self._end_server()
        if self._ends_at is None and self._lost_by_lab():
            self._say("the connection through the lab has ended, and so its server ends")
            self._end_server()
        if self._ends_at and self._clock() >= self._ends_at[0][0]:
            _, number = self._ends_at.pop(0)
            self._server.signal(number)

    def _lost_by_lab(self) -> bool:
        """Whether the lab has ended the connection while the server spoke, and no fault kills the server.

        A fault says so on the server's connection, which another thread reads: whoever ended the server's
        input at once would let it end in order, and no death would be one.
        """
        happened = self._happened
        if _Event.LAB_ENDED not in happened or _Event.SERVER_TO_DIE in happened:
            return False
        if self._was_cut or _Event.SERVER_SILENT in happened:
            return self._was_cut
        return _Event.SERVER_TO_END in happened or self._clock() >= self._lab_ended_at + _GRACE_S

    def _say(self, what: str) -> None:
        with suppress(OSError):
            sys.stderr.write(f"wirefault mcp: {self._way.link}: {what}\n")
            sys.stderr.flush()

    # the threads

    def _from_client(self) -> None:
        sent = 0
        with suppress(OSError):
            while data := os.read(_STDIN, _SIZE):
                self._way.client_side.sendall(data)
                sent += len(data)
        self._events.put(_Event.CLIENT_SILENT)
        try:
            self._way.end_after(sent)
        except (OSError, NoWayError):  # the lab is gone
            _shut(self._way.client_side, socket.SHUT_RDWR)
        self._events.put(_Event.CLIENT_ENDED)

    def _to_client(self) -> None:
        with suppress(OSError):
            while data := self._way.client_side.recv(_SIZE):
                try:
                    _write_all(_STDOUT, data)
                except OSError:
                    self._events.put(_Event.CLIENT_DEAF)
                    break
        self._events.put(_Event.LAB_ENDED)

    def _to_server(self) -> None:
        end = _Event.SERVER_TO_END
        try:
            while data := self._way.server_side.recv(_SIZE):
                with suppress(BrokenPipeError):  # it reads no more, but may still speak
                    _write_all(self._server.stdin.fileno(), data)
        except ConnectionResetError:
            end = _Event.SERVER_TO_DIE
        except (OSError, ValueError):  # its input was closed by now
            pass
        self._events.put(end)

    def _from_server(self) -> None:
        try:
            while data := os.read(self._server.stdout.fileno(), _SIZE):
                self._way.server_side.sendall(data)
        except ConnectionResetError:  # told to whoever uses the connection first, and once
            self._events.put(_Event.SERVER_TO_DIE)
        except OSError:
            pass
        self._events.put(_Event.SERVER_SILENT)
        _shut(self._way.server_side, socket.SHUT_WR)

    def _until_end(self) -> None:
        self._exit_code = self._server.wait()
        self._events.put(_Event.SERVER_ENDED)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _shut(connection: socket.socket, how: int) -> None:
    with suppress(OSError):
        connection.shutdown(how)


def _close_output() -> None:
    """The client reads the end. The descriptor itself stays taken, so that no other file gets its number."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, _STDOUT)
        os.close(nowhere)


def carry(lab: str, link: str, command: Sequence[str]) -> int:
    """Starts the command, or else the one that the wiring has for the link, and returns its exit code.

    Raises ``UserError`` if there is no such lab or link, or no way through it, and ``InputError`` without a
    command; the server is not started then.
    """
    lane = find_lane(lab, link)
    words = list(command) or lane.links[link].command
    if not words:
        raise InputError(f"no server: give its command after --, or in the wiring: links.{link}.mcp.command")
    way = open_way(lane, link)
    # paths in a wiring are taken from its folder, those of a client's configuration from the client's
    server = ServerProcess(words, "" if command else lane.folder)
    return Relay(way, server).run()
