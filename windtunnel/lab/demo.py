"""A lab for the time of one flight or of several: started, flown in, and gone again."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from threading import Event, Lock

from windtunnel.core.exit_codes import LAB_FAILED
from windtunnel.core.interrupts import INTERRUPTED
from windtunnel.lab.launcher import Lab, LabError
from windtunnel.lab.process import Process, ProcessLog, interruptible, python, start
from windtunnel.lab.toxiproxy import Choice
from windtunnel.settings.configuration import SETTINGS_VARIABLE, Configuration

_RUN_STOP_BOUND_S = 12.0


class Airspace:
    """A lab that is up, in which runs are flown."""

    def __init__(self, lab: Lab, interrupted: Event, say: Callable[[str], None]) -> None:
        self._lab = lab
        self._interrupted = interrupted
        self._say = say
        self._looking = Lock()  # of runs side by side one at a time mends what a part of the lab has lost

    def run(
        self,
        configuration: Configuration,
        arguments: Sequence[str],
        log: ProcessLog | None = None,
        lane: int = 0,
    ) -> int:
        """``windtunnel run`` with these settings, prompts and arguments on that lane; its exit code.

        Runs of several lanes may be flown at once, by threads. What it prints goes into the ``log``, else to
        the console. Raises ``LabError``.
        """
        lab = self._lab
        settings = configuration.settings.model_dump_json()
        environ = lab.environ({SETTINGS_VARIABLE: settings, "PROMPTS_FILE": str(configuration.prompts)}, lane)
        agent = start("agent", python("windtunnel", "run", *arguments), environ, [lab.lifeline_end], log)
        try:
            while (code := agent.poll()) is None:
                if self._interrupted.is_set():
                    self._say("interrupted: healing and stopping")
                    _end(agent)
                    return INTERRUPTED
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
        if code < 0:
            raise LabError(
                f"the agent was killed by signal {-code}; its run is kept under {configuration.logs}/runs"
            )
        return code


def in_own_lab(
    configuration: Configuration,
    toxiproxy: Choice,
    say: Callable[[str], None],
    fly: Callable[[Airspace], int],
    lanes: int = 1,
) -> int:
    """Starts the lab with so many lanes, flies in it, takes it down; the exit code."""
    with interruptible() as interrupted:
        started = time.monotonic()
        try:
            with Lab(configuration, toxiproxy, interrupted.is_set, lanes) as lab:
                took = time.monotonic() - started
                say(f"lab {lab.topology.lab_id} ready in {took:.1f} s (Toxiproxy: {toxiproxy})")
                return fly(Airspace(lab, interrupted, say))
        except LabError as error:
            say(f"error: {error}")
            return LAB_FAILED
        except OSError as error:
            say(f"error: the lab could not start: {error}; is the disk full, or a folder not writable?")
            return LAB_FAILED
        except KeyboardInterrupt:
            say("interrupted; the lab is down")
            return INTERRUPTED


def run_demo(
    configuration: Configuration,
    toxiproxy: Choice,
    arguments: Sequence[str],
    say: Callable[[str], None],
) -> int:
    """One ``windtunnel run`` with the arguments in a lab of its own; the exit code."""
    return in_own_lab(configuration, toxiproxy, say, lambda lab: lab.run(configuration, arguments))


def _end(agent: Process) -> None:
    agent.signal(signal.SIGTERM)
    agent.wait(_RUN_STOP_BOUND_S)
