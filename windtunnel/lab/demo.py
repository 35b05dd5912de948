"""``windtunnel demo``: a lab, one run of the agent in it, and the lab gone again."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from windtunnel.lab.launcher import Lab, LabError
from windtunnel.lab.process import Process, python, start
from windtunnel.lab.toxiproxy import Choice
from windtunnel.settings.configuration import Configuration
from windtunnel.settings.settings import NAMES, Settings

AGENT_STOP_BOUND_S = 12.0
INTERRUPTED = 130


def as_environment(settings: Settings) -> dict[str, str]:
    """Every setting as the variable that the agent reads."""
    values = settings.model_dump()
    return {name.upper(): str(values[name]) for name in NAMES}


def fly(
    configuration: Configuration,
    toxiproxy: Choice,
    arguments: Sequence[str],
    say: Callable[[str], None],
) -> int:
    """Starts the lab, runs ``python -m agent`` in it, takes the lab down; the exit code."""
    with _interruptible() as interrupted:
        started = time.monotonic()
        try:
            with Lab(configuration, toxiproxy, lambda: interrupted.raised) as lab:
                took = time.monotonic() - started
                say(f"lab {lab.topology.lab_id} ready in {took:.1f} s (Toxiproxy: {toxiproxy})")
                return _run_agent(lab, configuration, arguments, interrupted, say)
        except LabError as error:
            say(f"error: {error}")
            return 1
        except OSError as error:
            say(f"error: the lab could not start: {error}; is the disk full, or a folder not writable?")
            return 1
        except KeyboardInterrupt:
            say("interrupted; the lab is down")
            return INTERRUPTED


def _run_agent(
    lab: Lab,
    configuration: Configuration,
    arguments: Sequence[str],
    interrupted: Flag,
    say: Callable[[str], None],
) -> int:
    environ = lab.environ(
        {**as_environment(configuration.settings), "PROMPTS_FILE": str(configuration.prompts)}
    )
    command = python("agent", *arguments)
    agent = start("agent", command, environ, [lab.lifeline_descriptor], None)
    try:
        while agent.poll() is None:
            if interrupted.raised:
                _end(agent, say, "interrupted: healing and stopping")
                return INTERRUPTED
            try:
                lab.check()
            except LabError as error:
                lab.say_why(error)
                _end(agent, lambda _: None, "")
                raise error
            time.sleep(0.02)
    finally:
        agent.stop()
    code = agent.popen.returncode
    if code < 0:
        raise LabError(
            f"the agent was killed by signal {-code}; its run is kept under {configuration.logs}/runs"
        )
    return code


def _end(agent: Process, say: Callable[[str], None], message: str) -> None:
    say(message)
    agent.signal(signal.SIGTERM)
    agent.wait(AGENT_STOP_BOUND_S)


class Flag:
    """Set by SIGINT or SIGTERM, which interrupt nothing by themselves: no process is lost half started."""

    def __init__(self) -> None:
        self.raised = False


@contextmanager
def _interruptible() -> Iterator[Flag]:
    flag = Flag()

    def handle(_number: int, _frame: FrameType | None) -> None:
        flag.raised = True

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield flag
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def tell(message: str) -> None:
    """The launcher's own words go to standard error: standard output is the agent's."""
    if message:
        sys.stderr.write(message + "\n")
        sys.stderr.flush()
