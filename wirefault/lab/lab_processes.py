"""The processes of a lab while it is up: which are alive, what a dead one said, and their end."""

from __future__ import annotations

import signal

from wirefault.lab.process import Process, end_group


class LabError(Exception):
    """The lab could not start or lost a part, as ``reason`` says; the message shows its last words too."""

    def __init__(self, reason: str, details: str = "") -> None:
        super().__init__(reason + details)
        self.reason = reason


class LabProcesses:
    """A lab's processes by their names, in the order in which they were started."""

    def __init__(self) -> None:
        self._processes: dict[str, Process] = {}

    def add(self, process: Process) -> None:
        self._processes[process.name] = process

    def take(self, name: str) -> Process | None:
        """That process, from now on the caller's to stop; None if there is none."""
        return self._processes.pop(name, None)

    def check(self) -> None:
        """Raises ``LabError`` when one has ended."""
        for process in self._processes.values():
            code = process.poll()
            if code is not None:
                how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
                words = process.last_words()
                # an empty log is not kept
                log = f"; its log is {process.log.path}\n{words}" if process.log and words else ""
                raise LabError(f"{process.name} {how}", log)

    def dead(self) -> list[str]:
        return [name for name, process in self._processes.items() if process.poll() is not None]

    def pids(self) -> dict[str, int]:
        return {name: process.child.pid for name, process in self._processes.items()}

    def stop(self) -> None:
        """Stops all of them, and whatever they started."""
        for process in self._processes.values():
            process.signal(signal.SIGTERM)  # all at once: none of them waits for another to end
        while self._processes:
            _, process = self._processes.popitem()
            process.stop()
            end_group(process)
