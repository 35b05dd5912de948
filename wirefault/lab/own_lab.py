"""A lab for one run or several: start it, run in it, take it down."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from wirefault.core.errors import LAB_FAILED, UNKNOWN, error_text
from wirefault.core.interrupts import (
    INTERRUPTED,
    INTERRUPTED_LINE,
    Interrupted,
    SignalFlag,
    interruption_reason,
)
from wirefault.core.processes import reason_file, stop_file
from wirefault.core.run_key import handed_key
from wirefault.lab.launcher import Lab
from wirefault.lab.process import LabError, Process, ProcessLog, interruptible, python, start
from wirefault.lab.run_document import RUN_PROCESS, RunDocument
from wirefault.lab.toxiproxy import Choice, verify_rollback
from wirefault.settings.configuration import Configuration
from wirefault.wiring.wiring import Wiring


@dataclass
class Halt:
    """A request to stop early; one thread sets it, the engine checks it. Each reason is empty until then.

    ``begin_no_other``: begin no further episode; ``end_now``: end the current episodes too.
    """

    begin_no_other: str = ""
    end_now: str = ""

    @property
    def requested(self) -> bool:
        """Whether either is set."""
        return bool(self.begin_no_other or self.end_now)


_RUN_STOP_BOUND_S = 12.0
# the patterns that read answers, which one run may not need: 0.3 s of CPU
_OF_MANY_RUNS = ("wirefault.judging.reading.claims:compile_patterns",)
# imports of the lab's agent: two seconds of CPU for each run
_AGENT_IMPORTS = (
    *("langchain.agents", "langchain.agents.structured_output", "langchain_groq"),
    *("groq.resources.chat", "httpcore"),  # imported by its client at the first request
)
# imports of a tap's trust store for Java
_TAP_IMPORTS = ("cryptography.hazmat.primitives.serialization.pkcs12", "cryptography.x509")


class RunningLab:
    """A lab that is up and executes runs."""

    def __init__(
        self,
        lab: Lab,
        interrupted: SignalFlag,
        say: Callable[[str], None],
        halt: Halt | None = None,
    ) -> None:
        self.lost: LabError | None = None
        """Why a run in this process ended, if a part of the lab did."""
        self._lab = lab
        self._halt = halt or Halt()
        self._interrupted = interrupted
        self._say = say
        self._saying = Lock()  # taken by the first run that reports the interruption
        self._looking = Lock()  # one lane at a time checks the lab

    def run(self, document: RunDocument, log: ProcessLog | None = None, lane: int = 0) -> int:
        """Execute the run on that lane, in its own process; return its exit code.

        Threads may run several lanes at once. The process prints into the ``log``, or on the console without
        one. Raises ``LabError``, or ``OSError`` if it cannot be started.
        """
        lab = self._lab
        file = lab.run_document_path(document.run_id)
        document.write(file)
        command = python(RUN_PROCESS, str(file))
        with handed_key(lab.key_secret(document.subject), document.run_id) as (variables, descriptors):
            descriptors.append(lab.lifeline_end)
            agent = start(
                "agent",
                command,
                lab.environ(variables, lane),
                descriptors,
                log,
                lab.fork,
                own_input=document.as_is,
            )
        try:
            while (code := agent.poll()) is None:
                if self._interrupted.is_set():
                    if self._saying.acquire(blocking=False):
                        self._say("interrupted: healing and stopping")
                    lab.tell(reason_file, interruption_reason(self._interrupted.signal))
                    _end(agent)
                    return INTERRUPTED
                if self._halt.end_now:
                    lab.tell(reason_file, self._halt.end_now)
                    _end(agent)
                    return UNKNOWN
                if self._halt.begin_no_other:
                    lab.tell(stop_file, self._halt.begin_no_other)
                try:
                    with self._looking:
                        lab.check()
                except LabError as error:
                    lab.leave_reason(error)
                    _end(agent)
                    raise
                time.sleep(0.02)
        finally:
            agent.stop()
            file.unlink(missing_ok=True)
        if code < 0:
            raise LabError(f"the run was killed by signal {-code}; it is kept under {lab.shared_logs}/runs")
        return code

    def environ(self, lane: int = 0) -> dict[str, str]:
        """The environment of a process of that lane."""
        return self._lab.environ(lane=lane)

    def pids(self) -> list[int]:
        """Its processes, which are children of this one."""
        return list(self._lab.pids().values())

    def look(self) -> None:
        """Raise ``Interrupted`` if a run in this process must end, because of a signal or of the lab.

        A run that may begin no other episode is notified.
        """
        if self._interrupted.is_set():
            raise Interrupted(INTERRUPTED_LINE)
        if self._halt.end_now:
            raise Interrupted(self._halt.end_now)
        if self._halt.begin_no_other:
            self._lab.tell(stop_file, self._halt.begin_no_other)
        try:
            self._lab.check()
        except LabError as error:
            self.lost = error
            raise Interrupted(error.reason) from None

    def private_file(self, name: str) -> Path:
        """Return a path in the user's private folder for a file that is removed with the lab."""
        return self._lab.private_file(name)

    def verify_rollback(self) -> str:
        """``verified``, or why toxics may be left; waits for the managers to heal."""
        return verify_rollback(self._lab.lanes, self._lab.state)


def with_own_lab(
    configuration: Configuration,
    toxiproxy: Choice,
    say: Callable[[str], None],
    work: Callable[[RunningLab], int],
    lanes: int = 1,
    *,
    many_runs: bool = False,
    halt: Halt | None = None,
) -> int:
    """Start a lab with that many lanes, call ``work`` with it, take it down; the exit code.

    ``many_runs``: prepare what only several runs need. ``halt`` ends them from another thread. Raises
    ``OSError`` if ``work`` does.
    """
    with interruptible() as interrupted:
        started, is_up = time.monotonic(), False
        try:
            imports = _run_imports(configuration.wiring, many_runs=many_runs)
            with Lab(configuration, toxiproxy, interrupted.is_set, lanes, imports) as lab:
                took, is_up = time.monotonic() - started, True
                say(f"lab {lab.topology.lab_id} ready in {took:.1f} s (Toxiproxy: {toxiproxy})")
                return work(RunningLab(lab, interrupted, say, halt))
        except LabError as error:
            say(f"error: {error}")
            return LAB_FAILED
        except OSError as error:
            if is_up:  # the caller's own files
                raise
            say(f"error: the lab could not start: {error_text(error)}")
            return LAB_FAILED
        except KeyboardInterrupt:
            say("interrupted; the lab is down")
            return INTERRUPTED


def _run_imports(wiring: Wiring, *, many_runs: bool) -> Sequence[str]:
    of_subject = _AGENT_IMPORTS if wiring.is_lab else _TAP_IMPORTS if wiring.intercept else ()
    return (RUN_PROCESS, *of_subject, *(_OF_MANY_RUNS if many_runs else ()))


def _end(agent: Process) -> None:
    agent.signal(signal.SIGTERM)
    agent.wait(_RUN_STOP_BOUND_S)
