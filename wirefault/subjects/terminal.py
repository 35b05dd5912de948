"""A command's own terminal: pseudo-terminals between it and the terminal that this process has.

Without them the command would lose its terminal, since its output is also recorded. Keys go to the command
as they are typed: Ctrl-C is a byte that its terminal turns into a signal.
"""

from __future__ import annotations

import fcntl
import os
import select
import termios
import threading
import tty
from collections.abc import Callable
from contextlib import suppress

_PIECE = 4096
_SIZE_CHECK_S = 0.25
_CTRL_C = b"\x03"


class Terminal:
    """Pseudo-terminals for those of the descriptors 0, 1 and 2 that are terminals.

    Input and output share one. The error stream has its own, so that it stays separate. ``slaves`` are for
    the command, ``masters`` for its output, by descriptor.
    """

    def __init__(self, *, own_input: bool) -> None:
        self._input_is_terminal = own_input and os.isatty(0)
        self._restored: list[object] | None = None
        self._stop_reading, self._stop = os.pipe()
        self._relay: threading.Thread | None = None
        self._sizes: dict[int, bytes] = {}
        self.interrupted = False  # Ctrl-C was typed
        self.masters: dict[int, int] = {}
        self.slaves: dict[int, int] = {}
        if self._input_is_terminal or os.isatty(1):
            self._open(0 if self._input_is_terminal else 1, also=(0, 1))
        if os.isatty(2):
            self._open(2, also=(2,))

    def _open(self, source: int, also: tuple[int, ...]) -> None:
        master, slave = os.openpty()
        with suppress(termios.error):  # the source may be gone
            termios.tcsetattr(slave, termios.TCSANOW, termios.tcgetattr(source))
        for descriptor in also:
            wanted = self._input_is_terminal if descriptor == 0 else os.isatty(descriptor)
            if wanted:
                self.slaves[descriptor] = slave
                self.masters[descriptor] = master
        self._sizes[master] = b""
        self._copy_size(master, source)

    def output(self, descriptor: int) -> int | None:
        """A new descriptor for reading what the command writes to that one; None if it is no terminal."""
        return os.dup(self.masters[descriptor]) if descriptor in self.masters else None

    def start(self) -> None:
        """Release the command's ends, and pass keys on until ``close``."""
        for slave in set(self.slaves.values()):
            os.close(slave)
        if self._input_is_terminal:
            with suppress(termios.error):
                self._restored = termios.tcgetattr(0)
                tty.setraw(0, termios.TCSANOW)
        if self.masters:
            self._relay = threading.Thread(target=self._pass_on, name="terminal of the subject", daemon=True)
            self._relay.start()

    def close(self) -> None:
        """Stop, and restore this process's terminal."""
        os.close(self._stop)
        if self._relay is not None:
            self._relay.join()
        os.close(self._stop_reading)
        if self._restored is not None:
            with suppress(termios.error):
                termios.tcsetattr(0, termios.TCSADRAIN, self._restored)  # type: ignore[arg-type]
        for master in set(self.masters.values()):
            os.close(master)

    def _pass_on(self) -> None:
        sources = [self._stop_reading]
        echo: int | None = None
        if self._input_is_terminal:
            sources.append(0)
            if 1 not in self.masters:  # only the echo of keys is read from it
                echo = self.masters[0]
                sources.append(echo)
        while True:
            ready, _, _ = select.select(sources, [], [], _SIZE_CHECK_S)
            if self._stop_reading in ready:
                return
            for master in self._sizes:
                self._copy_size(master, 2 if master == self.masters.get(2) else min(self.masters))
            if 0 in ready and not self._copy(0, self.masters[0], self._note_keys):
                sources.remove(0)
            if echo in ready and not self._copy(self.masters[0], 0):
                sources.remove(self.masters[0])

    def _note_keys(self, keys: bytes) -> None:
        self.interrupted = self.interrupted or _CTRL_C in keys

    def _copy(self, source: int, target: int, look: Callable[[bytes], None] = lambda _: None) -> bool:
        """Whether the source may have more."""
        try:
            piece = os.read(source, _PIECE)
            look(piece)
            while piece:
                piece = piece[os.write(target, piece) :]
                if not piece:
                    return True
        except OSError:  # one side is gone
            return False
        return False

    def _copy_size(self, master: int, source: int) -> None:
        """Give the pseudo-terminal the size of the real one; a change signals the command."""
        with suppress(OSError):
            size = fcntl.ioctl(source, termios.TIOCGWINSZ, b"\0" * 8)
            if size != self._sizes[master]:
                fcntl.ioctl(master, termios.TIOCSWINSZ, size)
                self._sizes[master] = size
