"""Run an experiment from Python: in place, if its subject is a function of this process.

report = Experiment(
    subject=my_agent, prompts=["Order one apple"], faults=["lose_reply"], checks=["no duplicate"]
).run()
assert report.verdict == "held"
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

from wirefault.core.errors import LAB_FAILED, UNKNOWN
from wirefault.core.identity import new_run_id
from wirefault.core.interrupts import INTERRUPTED
from wirefault.core.signing import take_key_variable
from wirefault.experiments.engine import LocalEngine, RunArm, RunControl, deal, settings_of_run
from wirefault.experiments.experiment import Experiment as ExperimentModel
from wirefault.experiments.experiment_file import ExperimentFile, python_experiment
from wirefault.experiments.plan import PlannedArm
from wirefault.experiments.plan_experiment import plan_experiment
from wirefault.experiments.report import ExperimentReport
from wirefault.experiments.run_experiment import ExperimentResult, run_experiment
from wirefault.experiments.saved import SavedExperiment, save
from wirefault.history.events import EpisodeJudged, Event
from wirefault.history.reader import Tail
from wirefault.judging.oracle.expect import expect_check
from wirefault.lab.extra import require_packages
from wirefault.lab.own_lab import Halt, RunningLab, with_own_lab
from wirefault.lab.process import LabError, print_to_stderr
from wirefault.lab.toxiproxy import Choice, choose_toxiproxy
from wirefault.runner.in_process import InProcessLab, open_tap_here
from wirefault.runner.run import run_prompts
from wirefault.settings.configuration import Configuration, load_configuration
from wirefault.subjects.function import FunctionSubject, Probe
from wirefault.subjects.functions.frameworks import watch as watch_frameworks
from wirefault.subjects.subject import Subject
from wirefault.wiring.prompts import Prompt, load_prompts

# tools that the frameworks of this process make from now on
watch_frameworks()

Say = Callable[[str], None]
OnEvent = Callable[[Event], object]


_Options = ParamSpec("_Options")
_Run = Callable[Concatenate[Any, _Options], ExperimentReport]
_RunAsync = Callable[Concatenate[Any, _Options], Coroutine[Any, Any, ExperimentReport]]


def _with_options_of(
    run: _Run[_Options],
) -> Callable[[Callable[..., Coroutine[Any, Any, ExperimentReport]]], _RunAsync[_Options]]:
    """Let a method show the options of ``run``, to type checkers, editors and ``help``."""

    def decorate(method: Callable[..., Coroutine[Any, Any, ExperimentReport]]) -> _RunAsync[_Options]:
        method.__signature__ = inspect.signature(run)  # type: ignore[attr-defined]
        return method

    return decorate


class Experiment(ExperimentModel):
    """An experiment that runs from Python. Paths are relative to the folder that it runs in."""

    def run(
        self,
        *,
        folder: Path | str = ".",
        workers: int = 1,
        toxiproxy: str = "auto",
        say: Say = print_to_stderr,
        on_event: OnEvent | None = None,
        before_attempt: Probe | None = None,
        after_attempt: Probe | None = None,
    ) -> ExperimentReport:
        """Run it in its own lab and judge it; a function as the subject is called in this process.

        ``workers`` episodes run at once, for a function one; ``toxiproxy`` is ``auto``, ``embedded`` or a
        server's URL; ``say`` receives progress messages. ``on_event`` receives each event of the history.
        ``before_attempt(context)`` and ``after_attempt(context, answer)`` are called around each attempt of a
        function. Raises ``InputError`` for an experiment that cannot run, ``LabError`` if the lab failed,
        ``KeyboardInterrupt`` if it was interrupted.
        """
        options = InPlaceOptions(folder, workers, toxiproxy, say, on_event, before_attempt, after_attempt)
        return _run(self, options)

    @_with_options_of(run)
    async def run_async(self, **options: Any) -> ExperimentReport:
        """Run it as ``run`` does, while this event loop continues; coroutines of the subject run in it.

        The run ends early if this task is cancelled.
        """
        call = inspect.signature(Experiment.run).bind(self, **options)
        call.apply_defaults()
        chosen = InPlaceOptions(**{name: value for name, value in call.arguments.items() if name != "self"})
        halt, loop = Halt(), asyncio.get_running_loop()
        run = asyncio.ensure_future(asyncio.to_thread(_run, self, chosen, halt, loop))
        try:
            return await asyncio.shield(run)
        except asyncio.CancelledError:
            halt.end_now = "the task was cancelled"
            await asyncio.wait([run])
            raise


@dataclass(frozen=True)
class InPlaceOptions:
    """The options of ``Experiment.run``, which describes them."""

    folder: Path | str
    workers: int
    toxiproxy: str
    say: Say
    on_event: OnEvent | None
    before_attempt: Probe | None
    after_attempt: Probe | None


def _run(
    experiment: Experiment,
    options: InPlaceOptions,
    halt: Halt | None = None,
    loop: asyncio.AbstractEventLoop | None = None,
) -> ExperimentReport:
    """Run the experiment; its coroutines run in ``loop``, by default in a new one."""
    loaded = python_experiment(experiment, Path(options.folder))
    model = loaded.experiment
    if model.is_in_place and options.workers > 1:
        raise loaded.file.error(
            ("workers",),
            "must be 1 for a function of this process, which has one set of connections;"
            ' name it in the wiring, {"subject": {"python": "module:function"}}, to run more at once',
        )
    if not model.is_in_place and (options.before_attempt or options.after_attempt):
        raise loaded.file.error(("before_attempt",), "needs a function of this process as the subject")
    take_key_variable()
    saved = _saved(loaded, os.environ)
    require_packages(saved.plan.configuration.wiring, saved.plan.subject)
    choice = choose_toxiproxy(options.toxiproxy, saved.plan.configuration.environ)
    sink, messages = EventSink(saved, options.on_event), _Messages(options.say)
    control = RunControl(choice, messages.say, options.workers, halt=halt or Halt())
    if model.is_in_place:
        engine = InPlaceEngine(
            model.subject,
            sink,
            before=options.before_attempt,
            after=options.after_attempt,
            loop=loop,
        )
        return _reported(run_experiment(saved, control, engine), messages, engine.probed)
    result = run_experiment(saved, control, LocalEngine())
    sink.read()
    return _reported(result, messages, {})


def run_in_lab(experiment: Experiment, folder: Path, lab: InProcessLab) -> ExperimentReport:
    """Run an experiment on a function of this process in a lab that is up, which must have its wiring.

    Raises ``InputError`` and ``LabError``.
    """
    loaded = python_experiment(experiment, folder)
    saved, messages = _saved(loaded, lab.configuration.environ), _Messages(lambda _: None)
    engine = InPlaceEngine(experiment.subject, EventSink(saved, None), lab=lab)
    control = RunControl(Choice("embedded"), messages.say)
    with lab.tap.paused():
        return _reported(run_experiment(saved, control, engine), messages, engine.probed)


def _saved(loaded: ExperimentFile, environ: Mapping[str, str]) -> SavedExperiment:
    """Plan the experiment and save it."""
    plan = plan_experiment(loaded, environ)
    configuration = plan.configuration
    files = {name: getattr(configuration, name).absolute() for name in ("logs", "state", "effects")}
    # the function may change the folder, and the report may be read in another
    plan = replace(plan, configuration=replace(configuration, **files))
    return save(plan, new_run_id())


class _Messages:
    """Passes progress on, and remembers the last error."""

    def __init__(self, say: Say) -> None:
        self.error = ""
        self._say = say

    def say(self, message: str) -> None:
        if message.startswith("error: "):
            self.error = message.removeprefix("error: ")
        self._say(message)


def _reported(
    result: ExperimentResult, messages: _Messages, probed: dict[tuple[str, str, int], object]
) -> ExperimentReport:
    if result.code == INTERRUPTED:
        raise KeyboardInterrupt
    if result.judged is None:
        why = messages.error or f"see {result.saved.folder}"
        raise LabError(f"the experiment {result.saved.experiment_id} did not complete: {why}")
    return ExperimentReport(result, probed)


class EventSink:
    """Passes the events of an experiment's runs on, each once, in the order of each writer."""

    def __init__(self, saved: SavedExperiment, on_event: OnEvent | None) -> None:
        self._saved = saved
        self._on_event = on_event
        self._tails: dict[Path, Tail] = {}

    def read(self) -> None:
        """Pass on what is new."""
        if self._on_event is None:
            return
        for arm in self._saved.plan.arms:
            for run_id in self._saved.run_ids(arm):
                for path in sorted((self._saved.logs / "runs" / run_id).glob("*.jsonl")):
                    for event in self._tails.setdefault(path, Tail(path)).read():
                        self._on_event(event)


class InPlaceEngine:
    """Calls a function of this process, in the lab or in a new one with one lane."""

    def __init__(
        self,
        function: object,
        sink: EventSink,
        *,
        before: Probe | None = None,
        after: Probe | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        lab: InProcessLab | None = None,
    ) -> None:
        self.probed: dict[tuple[str, str, int], object] = {}
        """The results of ``after``, by run, episode and attempt."""
        self._function = function
        self._sink = sink
        self._before, self._after = before, after
        self._loop = loop
        self._lab = lab

    def run(self, saved: SavedExperiment, how: RunControl, run_arms: Callable[[RunArm], int]) -> int:
        """See ``Engine``."""

        def in_lab(lab: RunningLab) -> int:
            with ExitStack() as stack:
                subject, inner = self._opened(lab, saved, stack)
                code = run_arms(
                    lambda grown, arm, left: self._run_arm(lab, grown, arm, left, how, subject, inner)
                )
                if lab.lost is not None:
                    raise lab.lost
                saved.note_end(rollback=lab.verify_rollback())
                return code

        if self._lab is not None:
            return in_lab(self._lab.running(how.say, how.halt))
        return with_own_lab(saved.plan.configuration, how.toxiproxy, how.say, in_lab, halt=how.halt)

    def _opened(
        self, lab: RunningLab, saved: SavedExperiment, stack: ExitStack
    ) -> tuple[Subject, FunctionSubject]:
        configuration = load_configuration(lab.environ(), wiring=saved.plan.configuration.wiring)
        tap = self._lab.tap if self._lab else stack.enter_context(open_tap_here(configuration))

        def poll() -> None:
            lab.look()
            self._sink.read()

        function = FunctionSubject(
            self._function,
            tap=tap,
            loop=self._loop,
            poll=poll,
            before=self._before,
            after=self._after,
        )
        stack.callback(function.stop)
        return tap.watched(function, lab.pids), function

    def _run_arm(
        self,
        lab: RunningLab,
        saved: SavedExperiment,
        arm: PlannedArm,
        left: Sequence[Prompt],
        how: RunControl,
        subject: Subject,
        function: FunctionSubject,
    ) -> int:
        [portions] = deal(left, 1) or [[]]
        for run_id, prompts in zip(saved.next_run_ids(arm, len(portions)), portions, strict=True):
            settings, control_in = settings_of_run(saved, arm)
            configuration = load_configuration(lab.environ(), decided=settings.model_dump(mode="json"))
            file = saved.write_prompts(prompts, run_id)
            check = expect_check(configuration.wiring.links)
            loaded = load_prompts(file, check_expect=check).without_places()
            code = self._run(lab, run_id, configuration, subject, loaded, how, control_in)
            for (episode, attempt), value in function.probed.items():
                self.probed[run_id, episode, attempt] = value
            function.probed.clear()
            saved.facts_of_run(arm, run_id)
            if code:
                return code
        return 0

    def _run(
        self,
        lab: RunningLab,
        run_id: str,
        configuration: Configuration,
        subject: Subject,
        prompts: Any,
        how: RunControl,
        control_in: str,
    ) -> int:
        listener = _Listener(how.say, lab.look)
        run = run_prompts(run_id, configuration, subject, prompts, listener, control_in)
        self._sink.read()
        if run.record.interrupted:
            return INTERRUPTED
        if run.failure:
            if how.halt.requested:
                return UNKNOWN
            how.say(f"error: {run.failure}")
            return LAB_FAILED
        if run.summary.servers_failed_because:
            how.say(f"error: {run.summary.servers_failed_because}")
            return UNKNOWN
        return 0


class _Listener:
    """Passes progress on, and looks after the lab between episodes."""

    def __init__(self, say: Say, look: Callable[[], None]) -> None:
        self._say = say
        self._look = look

    def say(self, message: str) -> None:
        self._say(message)

    def attempt_started(self, index: int, total: int, prompt: str, attempt: int) -> None:
        self._look()

    def episode_judged(self, index: int, total: int, judgement: EpisodeJudged) -> None:
        self._say(f"  {index}/{total} {judgement.outcome}")
