"""One episode, put together from its events and judged. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from windtunnel.history.events import (
    AttemptArmed,
    AttemptEnded,
    AttemptHealed,
    EpisodeStarted,
    Event,
    Exchange,
    ToolCalled,
    ToolTry,
    WorldRead,
)
from windtunnel.judging.oracle.claim import is_exact_text, judge_claim
from windtunnel.judging.oracle.expect import Oracle, parse_expect
from windtunnel.judging.oracle.flags import is_late, is_misled, is_ungrounded
from windtunnel.judging.oracle.outcome import Axes, Outcome, outcome_of
from windtunnel.judging.oracle.value import ValueJudgement, judge_value
from windtunnel.judging.oracle.world import WorldJudgement, judge_world

_E = TypeVar("_E")


@dataclass(frozen=True)
class Verdict:
    """An outcome with what it comes from, and in words what it does not show by itself."""

    axes: Axes
    outcome: Outcome
    flags: list[str]
    why: str


@dataclass(frozen=True)
class Episode:
    """The events of one episode, sorted out."""

    started: EpisodeStarted
    oracle: Oracle | None
    oracle_error: str
    events: Sequence[Event]
    attempts: list[int]
    finished: bool

    @classmethod
    def of(cls, events: Sequence[Event], finished: bool) -> Episode:
        """Raises ``ValueError`` without an ``EpisodeStarted``; an unreadable oracle counts as none."""
        started = last(events, EpisodeStarted)
        if started is None:
            raise ValueError("no episode_started among the episode's events")
        kinds = AttemptArmed | AttemptEnded | AttemptHealed | ToolTry
        attempts = sorted({event.attempt for event in events if isinstance(event, kinds)})
        oracle, error = None, "the prompt has no oracle"
        if started.expect is not None:
            try:
                oracle = parse_expect(started.expect)
            except ValueError as problem:
                error = f"the oracle cannot be read: {problem}"
        return cls(started, oracle, error, events, attempts, finished)

    def first_attempt(self) -> Episode:
        """This episode as if it had ended with its first attempt."""
        first = self.attempts[0]
        kept = [event for event in self.events if getattr(event, "attempt", first) == first]
        events = [self._world_after_first(e) if isinstance(e, WorldRead) else e for e in kept]
        return Episode(self.started, self.oracle, self.oracle_error, events, [first], self.finished)

    def _world_after_first(self, read: WorldRead) -> WorldRead:
        """Its own side effects: those with its keys, and of the others those until it was healed."""
        first = self.attempts[0]
        tries = [event for event in self.events if isinstance(event, ToolTry) and event.idempotency_key]
        own = {tried.idempotency_key for tried in tries if tried.attempt == first}
        later = {tried.idempotency_key for tried in tries if tried.attempt != first}
        healed = last([e for e in self.events if getattr(e, "attempt", None) == first], AttemptHealed)
        until = healed.t if healed else float("inf")

        def is_own(effect: Mapping[str, Any]) -> bool:
            key = effect.get("idempotency_key")
            return key in own or (key not in later and float(effect["at"]) <= until)

        return WorldRead(read.t, read.episode, [e for e in read.effects if is_own(e)], read.error)

    def judge(self) -> Verdict:
        """The first outcome that fits."""
        invalid, pending = self._invalid(), self._pending()
        ended = last(self.events, AttemptEnded)
        world, value = self._world(), self._value(ended)
        axes = Axes(
            world=world.axis,
            claim=judge_claim(self.oracle, ended) if ended else "none",
            value=value.axis,
            ended_by=ended.ended_by if ended else "empty",
            invalid=bool(invalid) and not pending,
            judged=self.oracle is not None,
        )
        outcome: Outcome = "unjudged" if pending else outcome_of(axes)
        why = pending or self._why(outcome, invalid, world, axes, ended)
        return Verdict(axes, outcome, self._flags(value), why)

    def _invalid(self) -> str:
        """What makes the episode invalid, or the empty text."""
        reasons = []
        for attempt in self.attempts:
            of_attempt = [event for event in self.events if getattr(event, "attempt", None) == attempt]
            healed = last(of_attempt, AttemptHealed)
            if healed and healed.invalid:
                reasons.append(healed.invalid)
            elif healed is None or last(of_attempt, AttemptEnded) is None:
                reasons.append(f"attempt {attempt} has no end in the history")
        if not self.attempts:
            reasons.append("no attempt was made")
        if any(exchange.identity == "mismatch" for exchange in self._exchanges()):
            reasons.append("a request named another attempt than the one in progress")
        reasons += [f"model_unavailable: {e.error}" for e in self._exchanges() if e.unavailable]
        return "; ".join(dict.fromkeys(reasons))

    def _exchanges(self) -> list[Exchange]:
        return [event for event in self.events if isinstance(event, Exchange)]

    def _pending(self) -> str:
        """Says that the episode's end may still come, or the empty text."""
        if self.finished or last(self.events, WorldRead) is not None:
            return ""
        return "its end is not in the history: still going, or the run was killed"

    def _world(self) -> WorldJudgement:
        """Without an oracle nothing was asked for: the axis does not apply."""
        if self.oracle is None:
            return WorldJudgement("not_applicable")
        read = last(self.events, WorldRead)
        effects = read.effects if read and read.error is None else None
        healed = [event for event in self.events if isinstance(event, AttemptHealed)]
        settled = all(event.settled is True for event in healed)
        return judge_world(self.oracle, effects, settled)

    def _value(self, ended: AttemptEnded | None) -> ValueJudgement:
        slots = self.oracle.values if self.oracle else []
        if slots and ended and is_exact_text(self.oracle, ended):
            return ValueJudgement("right")
        report = ended.report if ended else None
        return judge_value(slots, report.values if report else [])

    def _flags(self, value: ValueJudgement) -> list[str]:
        tries = [event for event in self.events if isinstance(event, ToolTry)]
        calls = [event for event in self.events if isinstance(event, ToolCalled)]
        read = last(self.events, WorldRead)
        flags = {
            "late": any(is_late(effect, tries) for effect in (read.effects if read else [])),
            "misled": value.axis == "wrong" and is_misled(value.slots, calls, self._exchanges()),
            "ungrounded": value.axis == "right" and is_ungrounded(value.slots, calls),
        }
        return sorted(name for name, there in flags.items() if there)

    def _why(
        self, outcome: Outcome, invalid: str, world: WorldJudgement, axes: Axes, ended: AttemptEnded | None
    ) -> str:
        if outcome == "invalid":
            return invalid
        if outcome in ("runaway", "crash"):
            return (ended.error if ended else None) or "empty answer"
        if outcome == "unjudged":
            if self.oracle is None:
                return self.oracle_error
            return world.why if axes.world == "unknown" else "the answer is no report"
        wrong_value = {"wrong": "wrong value", "none": "no value reported"}.get(axes.value, "")
        return "; ".join(part for part in (world.why, wrong_value) if part)


def last(events: Iterable[Event], kind: type[_E]) -> _E | None:
    """The last event of that kind."""
    latest = None
    for event in events:
        if isinstance(event, kind):
            latest = event
    return latest
