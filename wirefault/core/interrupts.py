"""End on Ctrl-C with one line and exit code 130 while there is nothing to clean up, even during imports.

Imports only modules that Python loads at startup, so that an entry point can import this one first. The
module ``signal`` takes a hundred times as long as ``_signal``, which it wraps.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # typeshed does not have it
import os

INTERRUPTED = 130  # 128 + SIGINT: the shell's exit code for a program ended by Ctrl-C
INTERRUPTED_LINE = "interrupted"


class Interrupted(KeyboardInterrupt):
    """A person ended the run; ``signal`` is the signal for its command, 0 if it needs none."""

    def __init__(self, reason: str, signal: int = 0) -> None:
        super().__init__(reason)
        self.signal = signal


def interruption_reason(number: int) -> str:
    """Return the launcher's reason to end a run when a person interrupted it by that signal."""
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
        """Accept the arguments of a signal handler."""
        match handled:
            case (int(number), _):
                self.signal = self.signal or number
        self._is_set = True

    def is_set(self) -> bool:
        return self._is_set


def end_at_interrupt(of_background_job: bool = False) -> None:
    """End this process immediately on SIGINT from now on.

    A shell without job control makes its background jobs ignore SIGINT. That stays so, except with
    ``of_background_job``: for a program that handles SIGINT later anyway and must not miss an earlier one. No
    exception is raised, because code that is being imported may catch it. A program that starts child
    processes replaces this handler with one that ends them. A SIGINT that ``hand_over`` blocked is delivered
    now.
    """
    if of_background_job or signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, _end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])


def hand_over(command: list[str]) -> None:
    """Replace this process by that command, which must call ``end_at_interrupt``; SIGINT is blocked until
    then.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    os.execv(command[0], command)


def end_quickly() -> None:
    """End a program quickly, as its last statement: skip garbage collection of imported modules.

    With LangChain that saves 0.4 s of CPU time after Ctrl-C. From here on Ctrl-C raises nothing, since no
    code is left to catch it.
    """
    end_at_interrupt()
    import gc  # only now, when Ctrl-C is handled

    gc.freeze()


def _end(*_: object) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C pressed repeatedly still prints one line
    try:
        os.write(2, f"{INTERRUPTED_LINE}\n".encode())
    finally:
        os._exit(INTERRUPTED)
