"""Turns of sessions as attempts of one run: a session is an episode, and each of its turns an attempt.

So each turn's faults are counted in the run's history like any other's, and a session keeps its world.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from wirefault._version import __version__
from wirefault.core.redaction import Redaction
from wirefault.faults.sets.fault_set import FaultSet
from wirefault.history.events import AttemptEnded, EpisodeStarted, Event, Exchange, RecoveryTried, RunStarted
from wirefault.history.writer import history_file
from wirefault.judging.both_sides import both_sides
from wirefault.judging.usage import costs_of
from wirefault.runner.attempts import AttemptRunner
from wirefault.runner.manager_client import ManagerClient
from wirefault.runner.record import Recorder
from wirefault.settings.configuration import Configuration
from wirefault.state.state import State
from wirefault.subjects.lab_process import needs_process
from wirefault.subjects.subject import Subject
from wirefault.wiring.prompts import Prompt

TurnStatus = Literal["success", "failure", "timeout", "error"]


class SetFaults(Protocol):
    """Sets the lab's faults, such as ``LiveFaultsClient``."""

    def set(self, faults: str, source: str) -> dict[str, Any]: ...
    def clear(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class TurnResult:
    """How one turn ended.

    ``natural``: what the model said before a fault changed its reply, None if it was not asked. ``applied``:
    whether a fault of the mode was delivered. ``ms``: the processing time.
    """

    attempt: int
    status: TurnStatus
    response: str
    natural: str | None
    natural_status: str
    applied: bool
    recovered: bool
    ms: float
    tokens: int
    model: str
    error: str = ""
    recoveries: Sequence[RecoveryTried] = field(default_factory=list)
    time_line: Sequence[Mapping[str, Any]] = field(default_factory=list)
    """The turn's requests and attempts to recover, as in ``time_line``."""


class ConversationRun:
    """The run of one server. Use it from one thread. Raises ``RunAborted`` and ``OSError``.

    ``subject`` returns the agent for a RECOVERY text, a model's name and its bound of tokens, which may be
    empty and 0, and whether it has its own process. ``faults`` sets the lab's faults for a turn.
    """

    def __init__(
        self,
        run_id: str,
        configuration: Configuration,
        subject: Callable[[str, str, int, bool], Subject],
        faults: SetFaults,
        say: Callable[[str], None],
    ) -> None:
        self.run_id = run_id
        self.settings = configuration.settings.model_copy(update={"bodies": "on"})
        self._configuration, self._subject, self._faults = configuration, subject, faults
        topology = configuration.topology
        self._gateway = history_file(configuration.logs, run_id, "gateway", topology.lane)
        is_new = not history_file(configuration.logs, run_id, "agent", topology.lane).exists()
        self._recorder = Recorder(run_id, topology.lane, configuration.logs, Redaction(configuration.environ))
        with State(configuration.state) as state:
            state.remove_run(run_id)
        self._manager = ManagerClient(lambda: State(configuration.state), time.time, time.sleep)
        self._runners: dict[tuple[Any, ...], AttemptRunner] = {}
        self._set = FaultSet()
        if is_new:
            self._recorder.emit(self._started())
        self._manager.lease(run_id, topology.lab_id, topology.lane, self.settings, say)

    def _started(self) -> RunStarted:
        topology, settings = self._configuration.topology, self.settings
        return RunStarted(
            *(time.time(), self.run_id, topology.lab_id, topology.lane, settings.seed),
            *(settings.model_dump(), "langchain agent in conversation", 0, 0),
            links=list(topology.links),
            versions={"wirefault": __version__},
        )

    def begin_session(self, session: str) -> None:
        """Record a new session."""
        self._recorder.emit(EpisodeStarted(time.time(), session, "", None, True))

    def turn(
        self,
        session: str,
        attempt: int,
        message: str,
        faults: FaultSet,
        recovery: str = "",
        model: str = "",
        max_tokens: int = 0,
    ) -> TurnResult:
        """Answer one message under these faults."""
        self._in_force(faults)
        settings = self.settings.model_copy(update={"recovery": recovery})
        prompt = Prompt(session, message, None)
        runner = self._runner(recovery, model, max_tokens, needs_process(faults))
        ended = runner.carry_out(settings, faults, attempt, prompt)
        self._recorder.take_from_others()
        events = [
            event
            for event in self._recorder.record.of_episode(session)
            if getattr(event, "attempt", None) == attempt
        ]
        if ended is None:
            return TurnResult(attempt, "error", "", None, "unknown", False, False, 0.0, 0, "", runner.why_not)
        return result_of(ended, events, faults)

    def _runner(self, *agent: Any) -> AttemptRunner:
        if agent not in self._runners:
            self._runners[agent] = AttemptRunner(
                *(self._recorder, self._manager, self._configuration.topology),
                *(self._subject(*agent), self._gateway),
            )
        return self._runners[agent]

    def _in_force(self, faults: FaultSet) -> None:
        # a fault of the first requests has had them after one turn: set anew, it counts from 1 again
        if not faults.faults and faults == self._set:
            return
        if faults.faults:
            self._faults.set(faults.dump(), ", ".join(faults.ids))
        else:
            self._faults.clear()
        self._set = faults

    def close(self) -> None:
        """Return the lane. The run stays open: the next server continues it."""
        self._manager.release()
        self._recorder.close()
        self._manager.close()


def result_of(ended: AttemptEnded, events: Sequence[Event], faults: FaultSet) -> TurnResult:
    """Return the turn's result from the events of its attempt. Pure."""
    exchanges = [event for event in events if isinstance(event, Exchange)]
    of_model = [exchange for exchange in exchanges if exchange.of_model]
    sides = both_sides(exchanges, faults.ids)
    recoveries = [event for event in events if isinstance(event, RecoveryTried)]
    response = ended.report.answer if ended.report else ended.response
    failed = ended.ended_by in ("exception", "limit", "empty")
    natural = response if sides is None else sides.natural
    natural_status = "failure" if failed else "success"
    if sides is not None:
        answered = sides.natural_status
        natural_status = "unknown" if answered is None else "success" if answered < 400 else "failure"
    status: TurnStatus = "success"
    if failed:
        status = "timeout" if is_timeout(ended) or _hung_up(of_model) else "error"
    elif (sides is not None and sides.is_answer and natural != response) or (
        ended.report is not None and ended.report.status != "done"
    ):
        status = "failure"
    return TurnResult(
        *(ended.attempt, status, response, natural, natural_status),
        *(sides is not None, sides is not None and status == "success", ended.ms),
        costs_of(of_model, {}).tokens or 0,
        next((each.model for each in reversed(of_model) if each.model), ""),
        "" if not failed else f"{ended.error_type}: {ended.error}" if ended.error_type else "no answer",
        recoveries,
        time_line(ended.start, exchanges, recoveries),
    )


def time_line(
    start: float, exchanges: Sequence[Exchange], recoveries: Sequence[RecoveryTried]
) -> list[dict[str, Any]]:
    """Return requests and attempts to recover in order, with milliseconds since ``start``. Pure.

    A request begins at ``at_ms``; an attempt to recover ended then.
    """
    rows: list[dict[str, Any]] = [
        {
            "at_ms": round((each.start - start) * 1000, 1),
            "kind": "request",
            "link": each.link,
            "ms": round(each.ms, 1),
            "status": each.status,
            "faults": [fault.id for fault in each.faults if fault.injected],
        }
        for each in exchanges
    ]
    rows += [
        {
            "at_ms": round((each.t - start) * 1000, 1),
            "kind": "recovery",
            "link": each.link,
            "ms": round(each.seconds * 1000, 1),
            "strategy": each.strategy,
            "number": each.number,
            "success": each.success,
        }
        for each in recoveries
    ]
    return sorted(rows, key=lambda row: row["at_ms"])


def _hung_up(of_model: Sequence[Exchange]) -> bool:
    """Return whether the last request to the model waited for a reply until its connection was closed."""
    return bool(of_model) and any("closed_after_s" in fault.evidence for fault in of_model[-1].faults)


def is_timeout(ended: AttemptEnded) -> bool:
    """Return whether the attempt ended because something took too long."""
    return "Timeout" in (ended.error_type or "") or (
        ended.ended_by == "limit" and "ATTEMPT_TIME" in (ended.error or "")
    )
