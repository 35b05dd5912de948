"""Who a process is, so that a signal goes to the one that was meant and not to whoever has its number now."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")


def process_identity(pid: int) -> str:
    """Its number, user, start and command, which no other process shares; empty if there is none."""
    return _from_proc(_PROC / str(pid)) if (_PROC / "self").exists() else _from_ps(pid)


def signal_if_same(pid: int, identity: str, number: signal.Signals) -> bool:
    """Sends the signal if the process with that number has that identity; whether it has."""
    same = bool(identity) and process_identity(pid) == identity
    if same:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    return same


def _from_proc(folder: Path) -> str:
    try:
        # the name, in parentheses, may hold spaces; of what follows it the 20th is the start, in ticks
        started = (
            (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19]
        )
        command = (folder / "cmdline").read_text(encoding="utf-8", errors="replace").replace("\0", " ")
        return f"{folder.name} {folder.stat().st_uid} {started} {command}"
    except (OSError, IndexError):
        return ""


def _from_ps(pid: int) -> str:
    shown = subprocess.run(
        ["ps", "-o", "pid=,uid=,lstart=,command=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
    )
    return shown.stdout.strip()
