"""``windtunnel demo``: a lab, one run of a subject in it, and the lab gone again."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from windtunnel.lab.launcher import Lab, LabError
from windtunnel.lab.process import Process, python, start
from windtunnel.lab.toxiproxy import Choice
from windtunnel.settings.configuration import Configuration
from windtunnel.settings.settings import NAMES, Settings

_RUN_STOP_BOUND_S = 12.0
_INTERRUPTED = 130


def _as_environment(settings: Settings) -> dict[str, str]:
    """Every setting as the variable that the run reads."""
    values = settings.model_dump()
    return {name.upper(): str(values[name]) for name in NAMES}


def run_demo(
    configuration: Configuration,
    toxiproxy: Choice,
    arguments: Sequence[str],
    say: Callable[[str], None],
) -> int:
    """Starts the lab, runs ``windtunnel run`` with the arguments in it, takes the lab down; the exit code."""
    with _interruptible() as interruption:
        started = time.monotonic()
        try:
            with Lab(configuration, toxiproxy, lambda: interruption.requested) as lab:
                took = time.monotonic() - started
                say(f"lab {lab.topology.lab_id} ready in {took:.1f} s (Toxiproxy: {toxiproxy})")
                return _run_subject(lab, configuration, arguments, interruption, say)
        except LabError as error:
            say(f"error: {error}")
            return 1
        except OSError as error:
            say(f"error: the lab could not start: {error}; is the disk full, or a folder not writable?")
            return 1
        except KeyboardInterrupt:
            say("interrupted; the lab is down")
            return _INTERRUPTED


def _run_subject(
    lab: Lab,
    configuration: Configuration,
    arguments: Sequence[str],
    interruption: _Interruption,
    say: Callable[[str], None],
) -> int:
    environ = lab.environ(
        {**_as_environment(configuration.settings), "PROMPTS_FILE": str(configuration.prompts)}
    )
    agent = start("agent", python("windtunnel", "run", *arguments), environ, [lab.lifeline_descriptor], None)
    try:
        while agent.poll() is None:
            if interruption.requested:
                say("interrupted: healing and stopping")
                _end(agent)
                return _INTERRUPTED
            try:
                lab.check()
            except LabError as error:
                lab.leave_reason(error)
                _end(agent)
                raise
            time.sleep(0.02)
    finally:
        agent.stop()
    code = agent.popen.returncode
    if code < 0:
        raise LabError(
            f"the agent was killed by signal {-code}; its run is kept under {configuration.logs}/runs"
        )
    return code


def _end(agent: Process) -> None:
    agent.signal(signal.SIGTERM)
    agent.wait(_RUN_STOP_BOUND_S)


class _Interruption:
    """Whether SIGINT or SIGTERM came. They only set it, so that no process is lost while it is started."""

    def __init__(self) -> None:
        self.requested = False


@contextmanager
def _interruptible() -> Iterator[_Interruption]:
    interruption = _Interruption()

    def handle(_number: int, _frame: FrameType | None) -> None:
        interruption.requested = True

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
