"""``python -m windtunnel.lab.leash COMMAND ...``: becomes the command, which dies with its parent.

For a program that knows no lifeline (the real Toxiproxy). Uses Linux's ``PR_SET_PDEATHSIG``; on other
systems the command outlives a launcher that was killed with SIGKILL.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
