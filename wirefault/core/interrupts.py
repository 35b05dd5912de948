"""Ctrl-C while there is nothing to clean up: one line and exit code 130, whatever is being imported.

It imports nothing that Python has not loaded when it starts, so that an entry point can import it before
anything else: ``signal`` takes a hundred times as long as the module that it is made of.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # typeshed does not have it
import os

INTERRUPTED = 130  # 128 and the number of SIGINT: what a shell reports for a program that Ctrl-C ended
INTERRUPTED_LINE = "interrupted"


class SignalFlag:
    """What a signal handler sets, and others look at.

    Unlike that of ``threading.Event`` its ``set`` takes no lock: a handler runs in the midst of what the main
    thread does, which may be holding that lock, and would wait for itself forever.
    """

    def __init__(self) -> None:
        self._is_set = False

    def set(self, *_: object) -> None:
        """Of a handler's arguments it needs none."""
        self._is_set = True

    def is_set(self) -> bool:
        return self._is_set


def end_at_interrupt(of_background_job: bool = False) -> None:
    """From now on SIGINT ends this process at once.

    A shell without job control has its background jobs ignore SIGINT, and ignored it stays, except
    ``of_background_job``: for a program that takes it later in any case and so must not lose it before.
    No exception is raised, since code that is being imported may catch it. Whoever starts what must be ended
    puts a handler of its own in this one's place. A SIGINT that ``hand_over`` held back arrives now.
    """
    if of_background_job or signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, _end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])


def hand_over(command: list[str]) -> None:
    """Becomes that command, which must call ``end_at_interrupt``: until it does, SIGINT is held back."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    os.execv(command[0], command)


def end_quickly() -> None:
    """For the last line of a program: what it has imported is not searched for garbage before it ends.

    With LangChain that takes 0.4 s of a processor, for which somebody who pressed Ctrl-C would wait. Ctrl-C
    raises nothing any more, since nobody is left who would catch it.
    """
    end_at_interrupt()
    import gc  # not before Ctrl-C is taken care of

    gc.freeze()


def _end(*_: object) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # impatient fingers: still one line
    try:
        os.write(2, f"{INTERRUPTED_LINE}\n".encode())
    finally:
        os._exit(INTERRUPTED)
