"""End on Ctrl-C with one line and exit code 130 while there is nothing to clean up, even during imports.

Imports only modules that Python loads at startup, so that an entry point can import this one first. The
module ``signal`` takes a hundred times as long as ``_signal``, which it wraps.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # typeshed does not have it
import os

INTERRUPTED = 130  # 128 + SIGINT: the shell's exit code for a program ended by Ctrl-C
INTERRUPTED_LINE = "interrupted"
KILLED_LINE = f"{INTERRUPTED_LINE}: the launcher was killed"


class Interrupted(KeyboardInterrupt):
    """The user ended the run. ``signal``: the signal to send to its command; 0 for none."""

    def __init__(self, reason: str, signal: int = 0) -> None:
        super().__init__(reason)
        self.signal = signal


def is_interruption(reason: str) -> bool:
    """Return whether a run ended early for this reason because a person stopped or killed Wirefault."""
    return reason in (INTERRUPTED_LINE, KILLED_LINE)


def interruption_reason(number: int) -> str:
    """Return the launcher's reason for ending a run that the user interrupted by that signal."""
    return f"{INTERRUPTED_LINE}\n{number}"


def interrupting_signal(reason: str) -> int:
    """Return the signal in an ``interruption_reason``, 0 in any other reason."""
    line, _, number = reason.partition("\n")
    return int(number) if line == INTERRUPTED_LINE and number else 0


class SignalFlag:
    """A flag that a signal handler sets and other code reads, and the number of the signal.

    Unlike ``threading.Event.set``, ``set`` takes no lock. A handler interrupts the main thread, which may
    hold that lock, and would deadlock.
    """

    def __init__(self) -> None:
        self._is_set = False
        self.signal = 0

    def set(self, *handled: object) -> None:
        """Set the flag. With a signal handler's arguments, also record the number of the first signal."""
        match handled:
            case (int(number), _):
                self.signal = self.signal or number
        self._is_set = True

    def is_set(self) -> bool:
        return self._is_set


def end_at_interrupt(in_background: bool = False) -> None:
    """End this process immediately on SIGINT from now on.

    A shell without job control makes its background jobs ignore SIGINT. The program continues to ignore it,
    except with ``in_background``: for a program that handles SIGINT later and must not miss an earlier one.
    No exception is raised, because code that is being imported may catch it. A program that starts child
    processes replaces this handler with one that ends them. A SIGINT that ``hand_over`` blocked is delivered
    now.
    """
    if in_background or signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, _end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])


def hand_over(command: list[str]) -> None:
    """Replace this process by the command, with SIGINT blocked until that calls ``end_at_interrupt``."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    os.execv(command[0], command)


def end_quickly() -> None:
    """Skip garbage collection of imported modules at exit. Call it as the program's last statement.

    With LangChain that saves 0.4 s of CPU time after Ctrl-C. From here on Ctrl-C raises no exception, since
    no code is left to catch it.
    """
    end_at_interrupt()
    import gc  # after Ctrl-C is handled

    gc.freeze()


def collect_seldom() -> None:
    """Let the garbage collector look for cycles after 20,000 new objects; by default after 700.

    Most of them belong to imported modules, which stay, or to a request, with which they end.
    """
    import gc

    gc.set_threshold(20_000)


def _end(*_: object) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # several Ctrl-C print one line
    try:
        os.write(2, f"{INTERRUPTED_LINE}\n".encode())
    finally:
        os._exit(INTERRUPTED)
