"""A lab whose subject is code of this process: a function, or the body of a test."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from types import TracebackType

from wirefault.core.errors import UserError
from wirefault.core.interrupts import INTERRUPTED_LINE, Interrupted
from wirefault.judging.judge import EpisodeJudgement
from wirefault.lab.launcher import Lab
from wirefault.lab.process import LabError
from wirefault.lab.toxiproxy import Choice
from wirefault.runner.run import ProgressListener, PromptsRun, new_run_id, run_prompts
from wirefault.settings.configuration import Configuration, load_configuration
from wirefault.settings.settings import Settings
from wirefault.subjects.results import answer_result, crash_result
from wirefault.subjects.subject import AttemptContext, Subject, SubjectResult
from wirefault.subjects.surroundings import make_surroundings, original_variables
from wirefault.subjects.taps.opening import open_tap
from wirefault.wiring.prompts import Prompt, Prompts
from wirefault.wiring.topology import Topology
from wirefault.wiring.wiring import Wiring

_LAB_PREFIX = "WIREFAULT_"


class LabFailedError(UserError):
    """The lab failed, not the code under test; the message says how."""


class SilentListener:
    """Follows a run without output."""

    def say(self, message: str) -> None:
        """Ignore it: the history has it too."""

    def attempt_started(self, index: int, total: int, prompt: str, attempt: int) -> None:
        """Ignore it."""

    def episode_judged(self, index: int, total: int, judgement: EpisodeJudgement) -> None:
        """Ignore it."""


class InProcessLab:
    """A lab that is up within the block, for code of this process.

    Clients of this process reach it by the variables of the wiring's links, and by the proxy tap if the
    wiring intercepts: a network namespace would be a process of its own. Raises ``LabFailedError`` and
    ``SettingsError``.
    """

    def __init__(self, configuration: Configuration, toxiproxy: Choice, lanes: int = 1) -> None:
        self._configuration = configuration
        self._lab = Lab(configuration, toxiproxy, lanes=lanes)
        self._stack = ExitStack()
        self._changes: list[Mapping[str, str | None]] = []
        self._before: Mapping[str, str | None] | None = None

    def __enter__(self) -> InProcessLab:
        with ExitStack() as stack:
            try:
                stack.enter_context(self._lab)
            except LabError as error:
                raise LabFailedError(f"the lab could not start: {error}") from None
            for lane in range(len(self._lab.lanes)):
                running = self._in_lane(self._configuration.settings, lane)
                tap = stack.enter_context(open_tap(_by_proxy(running.wiring), running))
                subject = make_surroundings(running.wiring, running, tap)
                self._changes.append(_changes(running, subject.environ))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        self._stack.close()

    def topology(self, lane: int = 0) -> Topology:
        """The addresses of that lane."""
        return self._lab.lanes[lane]

    def variables(self, lane: int = 0) -> Mapping[str, str | None]:
        """The changes of the environment that lead clients to the lane; None removes a variable."""
        return self._changes[lane]

    @contextmanager
    def environment(self, lane: int = 0) -> Iterator[None]:
        """Make the changes in ``os.environ`` within the block. Clients read it when they are created."""
        if self._before is not None:  # an outer block has made them
            yield
            return
        changes = self._changes[lane]
        before = self._before = {name: os.environ.get(name) for name in changes}
        _apply(changes)
        try:
            yield
        finally:
            _apply(before)
            self._before = None

    @contextmanager
    def outside(self, lane: int = 0) -> Iterator[None]:
        """Undo the changes of ``environment`` within the block, for code that is not under test."""
        if self._before is None:
            yield
            return
        _apply(self._before)
        try:
            yield
        finally:
            _apply(self._changes[lane])

    def run(
        self,
        prompts: Prompts,
        settings: Settings,
        subject: Subject,
        *,
        run_id: str = "",
        lane: int = 0,
        listener: ProgressListener | None = None,
        control_in: str = "",
    ) -> PromptsRun:
        """Run the prompts in this thread, as ``run_prompts`` does. Raises ``LabFailedError``."""
        self.check()
        running = self._in_lane(settings, lane)
        return run_prompts(
            run_id or new_run_id(), running, subject, prompts, listener or SilentListener(), control_in
        )

    @contextmanager
    def episode(self, prompt: Prompt, settings: Settings, *, lane: int = 0) -> Iterator[Episode]:
        """Make the block the only attempt at that prompt, with its faults armed.

        The block stays in its thread and task; the run waits for it in another thread. After the block
        ``episode.run`` is the finished run. Raises ``LabFailedError`` if the block could not run.
        """
        settings = settings.model_copy(update={"prompt_limit": 1})
        episode = Episode(new_run_id(), prompt)
        begun, over = threading.Event(), threading.Event()
        subject = _Block(episode, begun, over)
        failures: list[BaseException] = []

        def carry_out() -> None:
            try:
                episode.finished_run = self.run(
                    Prompts([prompt]), settings, subject, run_id=episode.run_id, lane=lane
                )
            except BaseException as error:  # noqa: BLE001 - raised in the block's thread
                failures.append(error)
            finally:
                begun.set()

        thread = threading.Thread(target=carry_out, name="wirefault run", daemon=True)
        thread.start()
        try:
            begun.wait()
            if not subject.was_called:
                thread.join()
                raise failures[0] if failures else LabFailedError(_why_not_begun(episode.finished_run))
            yield episode
        except KeyboardInterrupt:
            subject.interrupted = True
            raise
        except BaseException as error:
            episode.error = error
            raise
        finally:
            over.set()
            thread.join()
        if failures:
            raise failures[0]

    def check(self) -> None:
        """Raise ``LabFailedError`` if a process of the lab has ended."""
        try:
            self._lab.check()
        except LabError as error:
            raise LabFailedError(str(error)) from None

    def _in_lane(self, settings: Settings, lane: int) -> Configuration:
        return load_configuration(self._lab.environ(lane=lane), decided=settings.model_dump(mode="json"))


@dataclass
class Episode:
    """One attempt in this process."""

    run_id: str
    prompt: Prompt
    answer: object = None
    """The answer of the code under test, if it has one: a text or a JSON value."""
    error: BaseException | None = None
    """The exception that ended the block."""
    finished_run: PromptsRun | None = None

    @property
    def run(self) -> PromptsRun:
        """The finished run; only after the block."""
        assert self.finished_run is not None, "the block has not ended"
        return self.finished_run


class _Block(Subject):
    """Waits in the run's thread until the block has ended."""

    kind = "python"

    def __init__(self, episode: Episode, begun: threading.Event, over: threading.Event) -> None:
        self.name = episode.prompt.text
        self.was_called = self.interrupted = False
        self._episode = episode
        self._begun = begun
        self._over = over

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult:
        self.was_called = True
        self._begun.set()
        self._over.wait()
        if self.interrupted:
            raise Interrupted(INTERRUPTED_LINE)
        return block_result(self._episode)


def block_result(episode: Episode) -> SubjectResult:
    """How the block's attempt ended; without an answer, it is the empty text of a quiet program."""
    if isinstance(episode.error, Exception):
        return crash_result(episode.error)
    if episode.answer is None:
        return SubjectResult("text")
    return answer_result(episode.answer)


def _why_not_begun(run: PromptsRun | None) -> str:
    return (run.failure if run else "") or "the episode could not begin"


def _by_proxy(wiring: Wiring) -> Wiring:
    if wiring.intercept is None:
        return wiring
    return replace(wiring, intercept=wiring.intercept.model_copy(update={"tap": "proxy"}))


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


def _apply(changes: Mapping[str, str | None]) -> None:
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
