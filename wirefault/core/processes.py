"""Identify processes that may reuse a number, and exchange reasons to end with the launcher."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from wirefault.core.private_files import sweep_after

_PROC = Path("/proc")


def process_identity(pid: int) -> str:
    """Return a unique text (number, user, start time, command); empty if the process does not exist."""
    return _from_proc(_PROC / str(pid)) if has_proc() else _from_ps(pid)


def has_proc() -> bool:
    """Return whether ``/proc`` shows this system's processes."""
    return (_PROC / "self" / "stat").exists()


def signal_if_same(pid: int, identity: str, number: signal.Signals) -> bool:
    """Send the signal if the process with that number still has that identity; return whether it has."""
    same = bool(identity) and process_identity(pid) == identity
    if same:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    return same


def _from_proc(folder: Path) -> str:
    try:
        # the name, in parentheses, may contain spaces; the start time in ticks is field 20 after it
        started = (
            (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19]
        )
        command = (folder / "cmdline").read_text(encoding="utf-8", errors="replace").replace("\0", " ")
        return f"{folder.name} {folder.stat().st_uid} {started} {command}"
    except (OSError, IndexError):
        return ""


def _from_ps(pid: int) -> str:
    words = ["ps", "-o", "pid=,uid=,lstart=,command=", "-p", str(pid)]
    try:
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:  # not installed
        return ""


LIFELINE_VARIABLE = "WIREFAULT_LIFELINE"
TOPOLOGY_VARIABLE = "WIREFAULT_TOPOLOGY"


def watch_lifeline(environ: Mapping[str, str], on_close: Callable[[], None]) -> None:
    """Call ``on_close`` from a daemon thread once the launcher's end of the pipe closes.

    ``WIREFAULT_LIFELINE`` has the file descriptor of the reading end; without it no thread starts. First the
    private files that a killed launcher left are swept.
    """
    descriptor = environ.get(LIFELINE_VARIABLE)
    if not descriptor:
        return
    lifeline = int(descriptor)

    def wait_for_end() -> None:
        with suppress(OSError):  # an unreadable descriptor counts as closed
            while os.read(lifeline, 64):
                pass  # the launcher never writes
        sweep_after(environ.get("LAB_ID", ""))
        on_close()

    threading.Thread(target=wait_for_end, name="lifeline", daemon=True).start()


def reason_file(topology: Path) -> Path:
    """Return the file next to the lab's topology in which the launcher records why it ended the lab."""
    return topology.with_suffix(".lost")


def stop_file(topology: Path) -> Path:
    """Return the file next to the lane's topology in which the launcher records why no episode may start."""
    return topology.with_suffix(".stop")


def ingress_file(topology: Path) -> Path:
    """Return the ingress's Unix socket, next to the lane's topology, for connections from namespace taps."""
    return topology.with_suffix(".ingress")


def reason_to_end(environ: Mapping[str, str]) -> str:
    """Return the launcher's recorded reason for ending this process; empty without one."""
    return _recorded_reason(reason_file, environ)


def reason_to_stop(environ: Mapping[str, str]) -> str:
    """Return why no further episode may start; empty if episodes may start."""
    return _recorded_reason(stop_file, environ)


def _recorded_reason(locate: Callable[[Path], Path], environ: Mapping[str, str]) -> str:
    topology = environ.get(TOPOLOGY_VARIABLE)
    with suppress(OSError):
        return locate(Path(topology)).read_text(encoding="utf-8") if topology else ""
    return ""
