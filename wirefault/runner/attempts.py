"""One attempt: arm the faults, run the subject, heal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future, wait
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import NoReturn

from wirefault.core.identity import Identity
from wirefault.core.plugins import load_function
from wirefault.faults.sets.fault_set import FaultSet
from wirefault.faults.sets.presets import read_canonical
from wirefault.history.events import AttemptArmed, AttemptEnded, AttemptHealed, ShadowToxic, TurnStarted
from wirefault.runner.manager_client import ManagerClient
from wirefault.runner.record import Recorder
from wirefault.settings.episode_faults import plan_attempt, shadow_arms
from wirefault.settings.settings import Settings
from wirefault.state.tables import ConfigurationRow
from wirefault.subjects.budgeted import BUDGET_SPENT
from wirefault.subjects.killing import SubjectKills
from wirefault.subjects.results import crash_result
from wirefault.subjects.subject import AttemptContext, ChatMessage, LabFailed, MakeTurn, Subject, crashed
from wirefault.wiring.links import Links
from wirefault.wiring.prompts import NextTurn, Prompt
from wirefault.wiring.topology import Topology

_MAX_REASON_LENGTH = 300


class TurnMakers:
    """The turn functions of a run, each loaded once, so that its module may keep state."""

    def __init__(self, load: Callable[[str], Callable[..., object]] = load_function) -> None:
        self._load = cache(load)
        self._worker = _Worker()
        self._hanging: dict[str, Future[object]] = {}

    def of(self, next_turn: NextTurn | None, seconds: float) -> MakeTurn | None:
        """A function that makes the turns of one prompt; None if all turns are known.

        It raises ``LabFailed`` if the user's function raises or is too slow, since the agent is not to blame.
        """
        if next_turn is None:
            return None

        def make_turn(conversation: list[ChatMessage]) -> str | None:
            if len(conversation) >= 2 * next_turn.max_turns:  # each turn has two messages
                return None
            # a copy: the function may change it
            text = self._made(next_turn, [message.copy() for message in conversation], seconds)
            if text is not None and (not isinstance(text, str) or not text.strip()):
                _fail(next_turn, f"returned {text!r:.80}, where a text or None is wanted")
            return text.strip() if text else None

        return make_turn

    def _made(self, next_turn: NextTurn, conversation: list[ChatMessage], seconds: float) -> object:
        """The function's result. A hanging call is abandoned, since a thread cannot be ended."""
        name = next_turn.function
        if name in self._hanging and not self._hanging[name].done():
            _fail(next_turn, "still hangs in an earlier turn, and is not asked again")
        with redirect_stdout(sys.stderr):  # standard output may be for a JSON object
            call = self._worker.begin(lambda: self._load(name)(conversation))
            wait([call], seconds)
        if not call.done():
            self._hanging[name], self._worker = call, _Worker()
            _fail(next_turn, f"has not returned within {seconds:g} s (ATTEMPT_TIME)")
        try:
            return call.result()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a user's function may do anything
            _fail(next_turn, f"raised {type(error).__name__}: {error}")


class _Worker:
    """Makes all calls in one thread, since a user's module may have thread-bound state, such as a database.

    An executor of the standard library would keep the process alive until its calls return.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Future[object], Callable[[], object]]] = SimpleQueue()
        self._thread: Thread | None = None

    def begin(self, function: Callable[[], object]) -> Future[object]:
        call: Future[object] = Future()
        self._calls.put((call, function))
        if self._thread is None:  # most runs make no turns
            self._thread = Thread(target=self._work, name="next_turn", daemon=True)
            self._thread.start()
        return call

    def _work(self) -> None:
        while True:
            call, function = self._calls.get()
            try:
                call.set_result(function())
            except (Exception, SystemExit) as error:  # noqa: BLE001 - it is raised where the result is asked
                call.set_exception(error)


def _fail(next_turn: NextTurn, problem: str) -> NoReturn:
    raise LabFailed(f"next_turn: {next_turn.function} {problem}"[:_MAX_REASON_LENGTH]) from None


class AttemptRunner:
    """Carries out the attempts of one run.

    ``not_armed`` counts the latest attempts in a row that could not be armed; ``why_not`` is the last reason.
    """

    def __init__(
        self,
        recorder: Recorder,
        manager: ManagerClient,
        topology: Topology,
        subject: Subject,
        gateway: Path = Path(),
    ) -> None:
        self._gateway = gateway
        self.not_armed = 0
        self.why_not = ""
        self._recorder = recorder
        self._manager = manager
        self._topology = topology
        self._subject = subject
        self._turn_makers = TurnMakers()

    def carry_out(
        self, settings: Settings, faults: FaultSet, attempt: int, prompt: Prompt
    ) -> AttemptEnded | None:
        """Run one attempt and return its end; None if it could not be armed. Raises ``RunAborted``."""
        episode = prompt.key
        live = self._manager.faults_set_in_run()
        configuration = live.number if live else 0
        topology = self._topology
        links = topology.links.adding(self._manager.found_links(topology.lab_id, topology.lane))
        in_force = set_in_force(faults, live).on(links)
        plan = plan_attempt(
            settings, links.tool_names, episode, attempt, in_force.toxics, configuration, prompt.tool_links
        )
        armed = self._manager.arm(episode, attempt, plan, settings.arm_timeout)
        if armed.arming_ms is None:
            self._skip(settings, episode, attempt, armed.why_not)
            return None
        self.not_armed = 0
        emit = self._recorder.emit
        shadows = shadow_toxics(settings, links, episode, attempt, prompt.tool_links)
        emit(AttemptArmed(time.time(), episode, attempt, armed.arming_ms, plan, configuration, shadows))
        failures: list[str] = []
        identity = Identity(self._recorder.record.run_id, episode, attempt)
        kills = None
        if any(entry.fault.kills for entry in in_force.faults):
            kills = SubjectKills(self._manager.open_state, identity, emit)
        limit = memory_limit(in_force)
        ended = emit(self._run_subject(settings, armed.attempt_id, identity, prompt, kills, limit, failures))
        if kills is not None and (failure := kills.failure()):
            failures.append(failure)
        healed = self._manager.finish(armed.attempt_id, settings)
        reasons = [*failures, *healed.disturbed]
        if healed.state != "healed":
            reasons.append(f"not healed: its state is {healed.state}")
        emit(AttemptHealed(time.time(), episode, attempt, healed.settled, "; ".join(reasons) or None))
        return ended

    def _skip(self, settings: Settings, episode: str, attempt: int, why_not: str) -> None:
        why = f": {why_not}" if why_not else ""
        self.why_not = f"not armed within {settings.arm_timeout:g} s, not run{why}"
        self.not_armed += 1
        self._recorder.emit(AttemptHealed(time.time(), episode, attempt, None, self.why_not))

    def _run_subject(
        self,
        settings: Settings,
        attempt_id: int,
        identity: Identity,
        prompt: Prompt,
        kills: SubjectKills | None,
        memory_limit: int,
        failures: list[str],
    ) -> AttemptEnded:
        """Run the subject; failures of the lab are appended to ``failures``."""
        attempt = identity.attempt

        def begin_turn(turn: int, text: str) -> None:
            self._manager.begin_turn(attempt_id, turn, settings.arm_timeout)
            self._recorder.emit(TurnStarted(time.time(), prompt.key, attempt, turn, text))

        emit = self._recorder.emit
        make_turn = self._turn_makers.of(prompt.next_turn, settings.attempt_time)
        context = AttemptContext(
            identity,
            settings,
            self._topology,
            emit,
            prompt.turns,
            begin_turn,
            make_turn,
            gateway=self._gateway,
            kills=kills,
            memory_limit=memory_limit,
        )
        start, clock = time.time(), time.perf_counter()
        try:
            result = self._subject(prompt.text, context)
        except LabFailed as failure:
            failures.append(str(failure))
            result = crashed("LabFailed", str(failure), "none")
        except Exception as error:  # noqa: BLE001 - a subject of any kind may raise anything: its crash
            result = crash_result(error)
        return AttemptEnded(
            episode=prompt.key,
            attempt=attempt,
            start=start,
            end=time.time(),
            ms=round((time.perf_counter() - clock) * 1000, 3),
            ended_by=result.ended_by,
            report=result.report,
            response=result.response,
            error_type=result.error_type,
            error=result.error,
            error_class=result.error_class or ("agent" if result.error_type else "none"),
            answers=list(result.answers),
            turn_ends=None if result.turn_ends is None else list(result.turn_ends),
        )


def worth_another(ended: AttemptEnded) -> bool:
    """Whether another attempt follows: only for reasons that an agent can see, and within its budget."""
    if ended.error_type == BUDGET_SPENT:
        return False
    return (
        ended.ended_by in ("exception", "empty", "limit")
        or ended.exited_with_reason
        or (ended.report is not None and ended.report.status != "done")
    )


def shadow_toxics(
    settings: Settings, links: Links, episode: str, attempt: int, needed: Collection[str] | None = None
) -> list[ShadowToxic]:
    """The toxics that the shadowed arms would have in this attempt."""
    return [
        ShadowToxic(arm, toxic)
        for arm, shadow in shadow_arms(settings).items()
        for toxic in plan_attempt(
            shadow,
            links.tool_names,
            episode,
            attempt,
            read_canonical(shadow.faults, shadow.chaos_level).on(links).toxics,
            0,
            needed,
        )
    ]


def memory_limit(faults: FaultSet) -> int:
    """Return the bytes that the subject's process may take under these faults; 0: no limit."""
    return min((limit for entry in faults.faults if (limit := entry.fault.memory_limit)), default=0)


def set_in_force(own: FaultSet, set_since: ConfigurationRow | None) -> FaultSet:
    """The run's own fault set, or the one that was set on the lab after its start."""
    return own if set_since is None else read_canonical(set_since.faults)
