"""Synthetic histories written with the real writer, for charts and reports."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.planned_errors import PlannedError, plan_error
from tests.judging.oracle.histories import fault_met, judge_episode
from tests.support import replace
from wirefault.history.events import (
    AttemptArmed,
    AttemptEnded,
    AttemptHealed,
    EpisodeStarted,
    Event,
    Exchange,
    FaultMet,
    ModelCall,
    Report,
    RunFinished,
    RunSealed,
    RunStarted,
    ToolTry,
)
from wirefault.history.reader import Tail
from wirefault.history.writer import Writer, history_file
from wirefault.settings.settings import Settings
from wirefault.toxiproxy.planned import PlannedToxic, plan_toxics
from wirefault.wiring.links import lab_links

LINKS = ("search", "weather", "movie", "calendar", "calculator", "message", "translator")
START = 1_800_000_000.0
SEEN = {"timeout": "connection_closed", "reset_peer": "connection_reset", "limit_data": "bad_reply"}


@dataclass
class SyntheticRun:
    """Writes one run. ``settings`` as in ``Settings``; ``start`` in seconds since the epoch.

    ``outcomes``: drawn from these instead of following from the faults.
    """

    logs: Path
    run_id: str = "run-a"
    prompts: int = 24
    start: float = START
    settings: dict[str, Any] = field(default_factory=dict)
    outcomes: tuple[str, ...] = ()
    finish: bool = True

    def write(self) -> None:
        self.config = Settings(**{"seed": 7, "toxic_prob": 0.3, "tool_limit": 2, **self.settings})
        self.random = random.Random(self.config.seed)
        self.now = self.start
        self.agent: list[Event] = []
        self.gateway: list[Event] = []
        subject = "langchain agent, self-test subject: scripted model (diligent)"
        settings = self.config.model_dump()
        self.agent.append(
            RunStarted(self.now, self.run_id, "lab", 0, self.config.seed, settings, subject, self.prompts)
        )
        for number in range(1, self.prompts + 1):
            self._episode(f"e{number:03}")
        self._write("gateway", self.gateway)
        if self.finish:
            gateway = Tail(history_file(self.logs, self.run_id, "gateway", 0))
            gateway.read()
            self.agent += [RunFinished(self.now, True, "", 0), RunSealed({gateway.name: gateway.sealed()})]
        self._write("agent", self.agent)

    def _write(self, process: str, events: list[Event]) -> None:
        writer = Writer(history_file(self.logs, self.run_id, process, 0))
        for event in events:
            writer.write(event)
        writer.close()

    def _wait(self, ms: float) -> float:
        self.now += ms / 1000
        return ms

    def _episode(self, name: str) -> None:
        self.agent.append(EpisodeStarted(self.now, name, f"prompt {name}", {"values": []}))
        toxics = plan_toxics(
            self.config.seed, self.config.toxic_prob, self.config.toxic_specs, lab_links().tool_names, name, 1
        )
        self._wait(self.random.uniform(4, 12))
        self.agent.append(AttemptArmed(self.now, name, 1, 9.0, toxics))
        begun = self.now
        lost = [not self._call(name, link, toxics) for link in self.random.sample(LINKS, self._calls())]
        self._model(name, len(lost) + 1)
        outcome = self.random.choice(self.outcomes) if self.outcomes else self._judge(any(lost))
        ended, ms = self.now, (self.now - begun) * 1000
        report = Report("done", "answer")
        self.agent.append(AttemptEnded(name, 1, begun, ended, ms, "report", "answer", report=report))
        self._wait(self.random.uniform(8, 20))
        self.agent.append(AttemptHealed(self.now, name, 1, True, None))
        events = [each for each in (*self.agent, *self.gateway) if getattr(each, "episode", None) == name]
        drawn = {"outcome": outcome, "first_attempt_outcome": outcome}
        self.agent.append(replace(judge_episode([self.agent[0], *events]), t=self.now, **drawn))

    def _calls(self) -> int:
        return self.random.choice((0, 1, 1, 1, 2, 3))

    def _judge(self, lost: bool) -> str:
        if not lost:
            return "success"
        return self.random.choice(("honest_failure", "honest_failure", "unconfirmed", "crash", "duplicate"))

    def _model(self, episode: str, ordinal: int) -> None:
        ms = self._wait(self.random.lognormvariate(1.6, 0.3))
        self.agent.append(ModelCall(self.now, episode, 1, ordinal, ms, 200))

    def _call(self, episode: str, link: str, toxics: list[PlannedToxic]) -> bool:
        """Write all tries of one call; return whether any succeeded."""
        self._model(episode, 1)
        toxic = next((toxic for toxic in toxics if toxic.link == link), None)
        for number in range(1, self.config.tool_limit + 1):
            key = (self.config.seed, self.config.error_prob, episode, 1, link, "f", 1, number)
            if self._try(episode, link, number, toxic, plan_error(*key)):
                return True
            self._wait(50)
        return False

    def _try(
        self, episode: str, link: str, number: int, toxic: PlannedToxic | None, error: PlannedError | None
    ) -> bool:
        started = self.now
        ms, seen, status = self._answer(toxic, error)
        self._wait(ms)
        self.agent.append(
            ToolTry(
                episode,
                1,
                f"use_{link}",
                link,
                "f",
                1,
                started,
                self.now,
                ms,
                1000.0,
                status,
                120 if status else 0,
                try_=number,
                error=seen,
            )
        )
        faults = [_fault_met(error)] if error and status != 200 and status else []
        # an upstream toxic stops the request before it is complete; behind a downstream one it was answered
        reached = status is not None or bool(toxic and toxic.stream == "downstream")
        forwarded = reached and not faults
        self.gateway.append(
            Exchange(
                started,
                episode,
                1,
                link,
                "GET",
                "/x",
                1,
                min(ms, 4.0),
                status or (200 if reached else None),
                80,
                120,
                fingerprint="f",
                try_=number,
                request_complete=reached,
                reply_complete=reached,
                forwarded=forwarded,
                faults=faults,
            )
        )
        return seen is None

    def _answer(
        self, toxic: PlannedToxic | None, error: PlannedError | None
    ) -> tuple[float, str | None, int | None]:
        base = self.random.lognormvariate(1.2, 0.35)
        delay = toxic.attributes.get("latency", 0) if toxic else 0
        if delay >= 1000:
            return 1001.0, "read_timeout", None
        if toxic and toxic.kind in SEEN:
            return toxic.attributes.get("timeout", 0) + base, SEEN[toxic.kind], None
        if error:
            return delay + base, f"http_{error.status}", error.status
        return delay + base, None, 200


def _fault_met(error: PlannedError) -> FaultMet:
    return fault_met(error.kind, error.status)
