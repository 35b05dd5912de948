"""Who a process is, so that a signal goes to the one that was meant and not to whoever has its number now."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
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


LIFELINE_VARIABLE = "WIREFAULT_LIFELINE"
TOPOLOGY_VARIABLE = "WIREFAULT_TOPOLOGY"


def watch_lifeline(environ: Mapping[str, str], on_close: Callable[[], None]) -> None:
    """Calls ``on_close`` from a daemon thread once the launcher's end of the pipe closes.

    ``WIREFAULT_LIFELINE`` holds the file descriptor of the reading end; without it nothing is watched.
    """
    descriptor = environ.get(LIFELINE_VARIABLE)
    if not descriptor:
        return
    lifeline = int(descriptor)

    def wait_for_end() -> None:
        with suppress(OSError):  # a descriptor that cannot be read counts as closed
            while os.read(lifeline, 64):
                pass  # the launcher writes nothing
        on_close()

    threading.Thread(target=wait_for_end, name="lifeline", daemon=True).start()


def reason_file(topology: Path) -> Path:
    """The file beside the lab's topology in which the launcher names the part of the lab that it lost."""
    return topology.with_suffix(".lost")


def stop_file(topology: Path) -> Path:
    """The file beside the lane's topology in which the launcher says why no other episode is to begin."""
    return topology.with_suffix(".stop")


def ingress_file(topology: Path) -> Path:
    """The Unix socket beside the lane's topology at which its ingress takes what namespace taps offer."""
    return topology.with_suffix(".ingress")


def reason_to_end(environ: Mapping[str, str]) -> str:
    """Why the launcher ends this process; empty if it gave no reason, as when a person ended the lab."""
    return _said_in(reason_file, environ)


def reason_to_stop(environ: Mapping[str, str]) -> str:
    """Why the launcher wants no other episode to begin; empty as long as it has nothing against it."""
    return _said_in(stop_file, environ)


def _said_in(file_of: Callable[[Path], Path], environ: Mapping[str, str]) -> str:
    topology = environ.get(TOPOLOGY_VARIABLE)
    with suppress(OSError):
        return file_of(Path(topology)).read_text(encoding="utf-8") if topology else ""
    return ""
