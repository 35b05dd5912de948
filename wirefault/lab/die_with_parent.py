"""``python -m wirefault.lab.die_with_parent COMMAND ...``: run the command so that it dies with its parent.

For programs without the lifeline (the real Toxiproxy). Uses Linux's ``PR_SET_PDEATHSIG``; on other systems
the command survives a launcher that was killed with SIGKILL.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys

from wirefault.core.processes import LIFELINE_VARIABLE

_PR_SET_PDEATHSIG = 1


def main() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if _launcher_is_gone():
        return  # the launcher died before the request took effect
    os.environ.setdefault("LOG_LEVEL", "warn")  # at its default Toxiproxy logs every request
    os.execvp(sys.argv[1], sys.argv[1:])


def _launcher_is_gone() -> bool:
    descriptor = os.environ.get(LIFELINE_VARIABLE)
    # Nothing is ever written to it, so it is readable only once the other end is closed.
    return bool(descriptor) and bool(select.select([int(descriptor or 0)], [], [], 0)[0])


if __name__ == "__main__":
    main()
