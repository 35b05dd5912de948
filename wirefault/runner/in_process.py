"""A lab whose subject is code of this process: a function, or the body of a test."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import TracebackType

from wirefault.core.errors import UserError
from wirefault.core.identity import new_run_id
from wirefault.core.interrupts import INTERRUPTED_LINE, Interrupted, SignalFlag
from wirefault.history.events import EpisodeJudged
from wirefault.lab.launcher import Lab
from wirefault.lab.own_lab import Halt, RunningLab
from wirefault.lab.process import LabError
from wirefault.lab.toxiproxy import Choice
from wirefault.runner.run import PromptsRun, run_prompts
from wirefault.settings.configuration import Configuration, load_configuration
from wirefault.settings.settings import Settings
from wirefault.subjects.functions.connections import close_idle
from wirefault.subjects.results import answer_result, crash_result
from wirefault.subjects.subject import AttemptContext, Subject, SubjectResult
from wirefault.subjects.surroundings import make_surroundings, original_variables
from wirefault.subjects.taps.opening import authority_of, trust_files
from wirefault.subjects.taps.tap import proxy_tap
from wirefault.subjects.taps.this_process import Interception, ThisProcessTap
from wirefault.subjects.taps.watch import allowed
from wirefault.wiring.links import is_model_host
from wirefault.wiring.prompts import Prompt, Prompts
from wirefault.wiring.topology import Topology
from wirefault.wiring.wiring import InterceptSpec

_LAB_PREFIX = "WIREFAULT_"


class LabFailedError(UserError):
    """The lab failed, not the code under test; the message says how."""


class SilentListener:
    """Follows a run without output."""

    def say(self, message: str) -> None:
        """Ignore it: the history has it too."""

    def attempt_started(self, index: int, total: int, prompt: str, attempt: int) -> None:
        """Ignore it."""

    def episode_judged(self, index: int, total: int, judgement: EpisodeJudged) -> None:
        """Ignore it."""


@contextmanager
def open_tap_here(configuration: Configuration) -> Iterator[ThisProcessTap]:
    """Open the tap that leads this process to its running lab, with its files within the block.

    Raises ``SettingsError``.
    """
    wiring, topology = configuration.wiring, configuration.topology
    spec, ingress = wiring.intercept, topology.ingress
    if spec is None or ingress is None:
        variables = _changes(configuration, make_surroundings(wiring, configuration).environ)
        try:
            yield ThisProcessTap(variables)
        finally:
            close_idle()
        return
    authority, is_scripted = authority_of(topology.control), spec.models == "scripted"
    with trust_files(authority, os.environ) as trust:
        children = proxy_tap(ingress, trust)
        variables = _changes(configuration, make_surroundings(wiring, configuration, children).environ)
        interception = Interception(
            ingress,
            authority,
            children,
            proxies=topology.proxies.values(),
            is_of_lab=allowed(topology, InterceptSpec()),
            may_pass=allowed(topology, spec),
            answers_for=lambda host: is_scripted and is_model_host(host),
        )
        try:
            yield ThisProcessTap(variables, interception)
        finally:
            close_idle()


class InProcessLab:
    """A lab that is up within the block, for code of this process.

    Connections of this process are intercepted if the wiring intercepts, and the variables of the wiring's
    links are set. Raises ``LabFailedError`` and ``SettingsError``.
    """

    def __init__(self, configuration: Configuration, toxiproxy: Choice) -> None:
        self.configuration = configuration
        self._lab = Lab(configuration, toxiproxy)
        self._stack = ExitStack()
        self._tap: ThisProcessTap | None = None

    def __enter__(self) -> InProcessLab:
        with ExitStack() as stack:
            try:
                stack.enter_context(self._lab)
            except LabError as error:
                raise LabFailedError(f"the lab could not start: {error}") from None
            running = self._running(self.configuration.settings)
            self._tap = stack.enter_context(open_tap_here(running))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        self._stack.close()

    @property
    def tap(self) -> ThisProcessTap:
        """Leads this process to the lab while it is active."""
        assert self._tap is not None, "the lab is not up"
        return self._tap

    @property
    def topology(self) -> Topology:
        """Its addresses."""
        return self._lab.topology

    @contextmanager
    def episode(self, prompt: Prompt, settings: Settings) -> Iterator[BlockSubject]:
        """Make the block the only attempt at that prompt, with its faults armed and its connections recorded.

        The block stays in its thread and task; the run waits for it in another thread. After the block
        its ``run`` is the finished run. Raises ``LabFailedError`` if the block could not run.
        """
        self.check()
        configuration = self._running(settings.model_copy(update={"prompt_limit": 1}))
        block = BlockSubject(new_run_id(), prompt)
        subject = self.tap.watched(block, self._pids)
        failures: list[BaseException] = []

        def carry_out() -> None:
            try:
                block.finished_run = run_prompts(
                    block.run_id, configuration, subject, Prompts([prompt]), SilentListener()
                )
            except BaseException as error:  # noqa: BLE001 - raised in the block's thread
                failures.append(error)
            finally:
                block.begun.set()

        thread = threading.Thread(target=carry_out, name="wirefault run", daemon=True)
        thread.start()
        try:
            block.begun.wait()
            if not block.was_called:
                thread.join()
                raise failures[0] if failures else LabFailedError(_why_not_begun(block.finished_run))
            yield block
        except KeyboardInterrupt:
            block.interrupted = True
            raise
        except BaseException as error:
            block.error = error
            raise
        finally:
            block.over.set()
            thread.join()
        if failures:
            raise failures[0]

    def running(self, say: Callable[[str], None], halt: Halt) -> RunningLab:
        """The lab, for an experiment that runs in it."""
        return RunningLab(self._lab, SignalFlag(), say, halt=halt)

    def check(self) -> None:
        """Raise ``LabFailedError`` if a process of the lab has ended."""
        try:
            self._lab.check()
        except LabError as error:
            raise LabFailedError(str(error)) from None

    def _pids(self) -> list[int]:
        return list(self._lab.pids().values())

    def _running(self, settings: Settings) -> Configuration:
        return load_configuration(self._lab.environ(), decided=settings.model_dump(mode="json"))


class BlockSubject(Subject):
    """A block of code of this process as the subject of one attempt.

    The run's thread waits until the block has ended.
    """

    kind = "python"

    def __init__(self, run_id: str, prompt: Prompt) -> None:
        self.name = prompt.text
        self.run_id, self.prompt = run_id, prompt
        self.answer: object = None
        """The block's answer, if it has one: a text or a JSON value."""
        self.error: BaseException | None = None
        """The exception that ended the block."""
        self.finished_run: PromptsRun | None = None
        self.was_called = self.interrupted = False
        self.begun, self.over = threading.Event(), threading.Event()

    @property
    def run(self) -> PromptsRun:
        """The finished run; only after the block."""
        assert self.finished_run is not None, "the block has not ended"
        return self.finished_run

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult:
        """How the block ended; without an answer, it is the empty text of a quiet program."""
        self.was_called = True
        self.begun.set()
        self.over.wait()
        if self.interrupted:
            raise Interrupted(INTERRUPTED_LINE)
        if isinstance(self.error, Exception):
            return crash_result(self.error)
        return SubjectResult("text") if self.answer is None else answer_result(self.answer)


def _why_not_begun(run: PromptsRun | None) -> str:
    return (run.failure if run else "") or "the episode could not begin"


def _changes(running: Configuration, subject: Mapping[str, str]) -> dict[str, str | None]:
    """The difference between this process's environment and a subject's, without the lab's own variables."""
    own = os.environ
    changes: dict[str, str | None] = {
        name: value
        for name, value in subject.items()
        if own.get(name) != value and running.environ.get(name) != value
    }
    removed = [name for name in own if name not in subject and not name.startswith(_LAB_PREFIX)]
    own_again = original_variables(own)  # a subject in another process gets these back
    return changes | dict.fromkeys((name for name in removed if name not in own_again), None)
