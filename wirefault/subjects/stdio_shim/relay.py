"""Runs one server of an MCP client and carries the bytes of both through the lab until one of them ends."""

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
from wirefault.subjects.stdio_shim.lab_connection import (
    LabConnection,
    LabConnectionError,
    connect_to_lab,
    find_lane,
)

_REAPER = str(Path(__file__).parents[1] / "reaper.py")


class ServerProcess:
    """The MCP server, under a reaper that ends all its descendants; ``folder`` is "" for the current one.

    Its standard error is this process's. Raises ``OSError``.
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
        """Wait for its end and return its exit code, as in a shell."""
        code = self._popen.wait()
        return code if code >= 0 else 128 - code  # the reaper was killed

    @property
    def ended(self) -> bool:
        return self._popen.poll() is not None

    def end_input(self) -> None:
        """Close its standard input."""
        with suppress(OSError):
            self.stdin.close()

    def signal(self, number: int) -> None:
        """Send it a signal through its reaper."""
        with suppress(OSError):  # already ended
            os.write(self._lifeline, bytes((number,)))

    def kill(self) -> None:
        """Kill it with all its descendants."""
        self.signal(signal.SIGKILL)


_STDIN, _STDOUT = 0, 1
_SIZE = 65536
# how long MCP SDKs wait after closing a server's input, and again after SIGTERM
_GRACE_S = 2.0
_LOOK_S = 0.2
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class _Event(Enum):
    CLIENT_EOF = auto()  # it sends no more
    CLIENT_EOF_SENT = auto()  # and the gateway knows
    CLIENT_STOPPED_READING = auto()  # it reads no more
    LAB_EOF = auto()  # nothing more comes for the client
    SERVER_INPUT_EOF = auto()  # nothing more comes for the server
    SERVER_KILLED = auto()  # a fault kills it
    SERVER_EOF = auto()  # it says no more
    SERVER_EXITED = auto()  # its process has


class Relay:
    """Client's input to the lab to the server's input, and the server's output to the lab to the client's
    output.

    ``run`` may be called once.
    """

    def __init__(
        self, connection: LabConnection, server: ServerProcess, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._connection = connection
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
        """Return the server's exit code."""
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
        """Whether the server has ended, and its last output has arrived or is not waited for."""
        is_drained = _Event.LAB_EOF in self._happened or self._signalled or self._client_is_gone()
        return _Event.SERVER_EXITED in self._happened and is_drained

    def _client_is_gone(self) -> bool:
        return os.getppid() != self._parent

    # events

    def _on(self, event: _Event) -> None:
        self._happened.add(event)
        if event is _Event.LAB_EOF:
            _close_output()
            self._lab_ended_at = self._clock()
            if _Event.CLIENT_STOPPED_READING in self._happened:
                self._end_server()
        elif event is _Event.SERVER_INPUT_EOF:
            # neither the client nor the server ended; the lab's other side is about to end
            self._was_cut = not self._happened & {_Event.CLIENT_EOF, _Event.SERVER_EOF}
            self._server.end_input()
        elif event is _Event.SERVER_KILLED:
            self._say("a fault has killed the server")
            self._server.kill()
        elif event is _Event.SERVER_EXITED and self._exit_code > 128 and not self._signalled:
            self._say(f"the server was killed by signal {self._exit_code - 128}")

    def _on_signal(self, number: int) -> None:
        self._signalled = True
        self._server.signal(number)

    def _end_server(self) -> None:
        """End it as the SDKs do: close its input, then SIGTERM, then SIGKILL."""
        self._server.end_input()
        now = self._clock()
        self._ends_at = [(now + _GRACE_S, signal.SIGTERM), (now + 2 * _GRACE_S, signal.SIGKILL)]

    def _look_after(self) -> None:
        """Continue to end the server; begin to if the client, which would do so, is gone."""
        if self._ends_at is None and _Event.CLIENT_EOF_SENT in self._happened and self._client_is_gone():
            self._end_server()
        if self._ends_at is None and self._lost_by_lab():
            self._say("the connection through the lab has ended: ending the server")
            self._end_server()
        if self._ends_at and self._clock() >= self._ends_at[0][0]:
            _, number = self._ends_at.pop(0)
            self._server.signal(number)

    def _lost_by_lab(self) -> bool:
        """Whether the lab ended the connection of a working server without a fault that kills the server.

        A fault shows on the server's connection, which another thread reads. If the input ended at once, the
        server would end normally and not be killed.
        """
        happened = self._happened
        if _Event.LAB_EOF not in happened or _Event.SERVER_KILLED in happened:
            return False
        if self._was_cut or _Event.SERVER_EOF in happened:
            return self._was_cut
        return _Event.SERVER_INPUT_EOF in happened or self._clock() >= self._lab_ended_at + _GRACE_S

    def _say(self, message: str) -> None:
        with suppress(OSError):
            sys.stderr.write(f"wirefault mcp: {self._connection.link}: {message}\n")
            sys.stderr.flush()

    # the threads

    def _from_client(self) -> None:
        size = 0
        with suppress(OSError):
            while data := os.read(_STDIN, _SIZE):
                self._connection.client_side.sendall(data)
                size += len(data)
        self._events.put(_Event.CLIENT_EOF)
        try:
            self._connection.end_after(size)
        except (OSError, LabConnectionError):  # the lab is gone
            _shut(self._connection.client_side, socket.SHUT_RDWR)
        self._events.put(_Event.CLIENT_EOF_SENT)

    def _to_client(self) -> None:
        with suppress(OSError):
            while data := self._connection.client_side.recv(_SIZE):
                try:
                    _write_all(_STDOUT, data)
                except OSError:
                    self._events.put(_Event.CLIENT_STOPPED_READING)
                    break
        self._events.put(_Event.LAB_EOF)

    def _to_server(self) -> None:
        end = _Event.SERVER_INPUT_EOF
        try:
            while data := self._connection.server_side.recv(_SIZE):
                with suppress(BrokenPipeError):  # its input is closed, but it may still write
                    _write_all(self._server.stdin.fileno(), data)
        except ConnectionResetError:
            end = _Event.SERVER_KILLED
        except (OSError, ValueError):  # its input is already closed
            pass
        self._events.put(end)

    def _from_server(self) -> None:
        try:
            while data := os.read(self._server.stdout.fileno(), _SIZE):
                self._connection.server_side.sendall(data)
        except ConnectionResetError:  # reported once, to the first thread that uses the connection
            self._events.put(_Event.SERVER_KILLED)
        except OSError:
            pass
        self._events.put(_Event.SERVER_EOF)
        _shut(self._connection.server_side, socket.SHUT_WR)

    def _until_end(self) -> None:
        self._exit_code = self._server.wait()
        self._events.put(_Event.SERVER_EXITED)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _shut(connection: socket.socket, how: int) -> None:
    with suppress(OSError):
        connection.shutdown(how)


def _close_output() -> None:
    """Let the client read the end. The descriptor stays in use, so that no other file gets its number."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, _STDOUT)
        os.close(nowhere)


def run_shim(lab: str, link: str, command: Sequence[str]) -> int:
    """Run the command, or the link's in the wiring, through the lab; return its exit code.

    Raises ``UserError`` if there is no such lab or link or no connection through it, and ``InputError``
    without a command; the server is not started then.
    """
    lane = find_lane(lab, link)
    words = list(command) or lane.links[link].command
    if not words:
        raise InputError(
            f"missing server: give its command after --, or in the wiring: links.{link}.mcp.command"
        )
    connection = connect_to_lab(lane, link)
    # paths in a wiring are relative to its folder, those in a client's configuration to the client's
    server = ServerProcess(words, "" if command else lane.folder)
    return Relay(connection, server).run()
