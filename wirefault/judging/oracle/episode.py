"""One episode, put together from its events and judged. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from wirefault.history.events import (
    AttemptArmed,
    AttemptEnded,
    AttemptHealed,
    ConnectionEnded,
    EpisodeStarted,
    Event,
    Exchange,
    ToolTry,
    WorldProbed,
    WorldRead,
)
from wirefault.judging.oracle.answer import judge_answer
from wirefault.judging.oracle.expect import Oracle, parse_expect
from wirefault.judging.oracle.outcome import Axes, Outcome, is_exact_text, judge_claim, outcome_of
from wirefault.judging.oracle.state_world import judge_state
from wirefault.judging.oracle.tool_results import (
    Results,
    Told,
    is_late,
    is_misled,
    is_ungrounded,
    told_by_tools,
)
from wirefault.judging.oracle.value import ValueAxis, ValueJudgement, judge_value
from wirefault.judging.oracle.wire_world import judge_requests, proven_duplicates
from wirefault.judging.oracle.world import EffectRow, WorldJudgement, combined, judge_world


def invalid_because(events: Sequence[Event], attempts: Sequence[int]) -> str:
    """What makes the episode of these attempts invalid, or the empty text."""
    reasons = [reason for attempt in attempts for reason in _lab_failures(events, attempt)]
    if not attempts:
        reasons.append("no attempt was made")
    exchanges = [event for event in events if isinstance(event, Exchange)]
    if any(exchange.identity == "mismatch" for exchange in exchanges):
        reasons.append("a request named another attempt than the one in progress")
    connections = [event for event in events if isinstance(event, ConnectionEnded)]
    reasons += [ended.not_intercepted for ended in connections if ended.lab_failed]
    reasons += [f"oracle_failed: {e.error}" for e in events if isinstance(e, WorldProbed) and e.error]
    reasons += [_upstream_failure(exchange) for exchange in _unanswered(events, exchanges)]
    return "; ".join(dict.fromkeys(reasons))


def _lab_failures(events: Iterable[Event], attempt: int) -> list[str]:
    of_attempt = [event for event in events if getattr(event, "attempt", None) == attempt]
    healed = [event for event in of_attempt if isinstance(event, AttemptHealed)]
    if healed and healed[-1].invalid:
        return [healed[-1].invalid]
    if not healed or not any(isinstance(event, AttemptEnded) for event in of_attempt):
        return [f"attempt {attempt} has no end in the history"]
    return []


def _unanswered(events: Iterable[Event], exchanges: Sequence[Exchange]) -> list[Exchange]:
    """The exchanges that failed with no fault of the lab on them, and that nothing got past."""
    events = list(events)
    armed = {(e.attempt, toxic.link) for e in events if isinstance(e, AttemptArmed) for toxic in e.toxics}
    answered = [e for e in exchanges if _is_answer(e)]
    direct = [e for e in events if isinstance(e, ToolTry) and e.route == "direct" and e.error is None]
    return [
        failed
        for failed in exchanges
        if failed.unavailable
        and not (failed.forwarded and (failed.attempt, failed.link) in armed)
        and not any(later.start > failed.start and _same_call(failed, later) for later in answered)
        and not any(later.end > failed.start and _same_call(failed, later) for later in direct)
    ]


def _is_answer(exchange: Exchange) -> bool:
    good = exchange.status is not None and exchange.status < 400
    return good and exchange.reply_complete and not exchange.unavailable


def _same_call(failed: Exchange, later: Exchange | ToolTry) -> bool:
    """A tool's by what is asked. The model's by the link alone: an answer takes up the conversation again."""
    return failed.link == later.link and (failed.of_model or failed.fingerprint == later.fingerprint)


def _upstream_failure(failed: Exchange) -> str:
    refused = failed.forwarded and failed.status is not None and failed.status >= 400
    why = f"it answered {failed.status}" if refused else failed.error
    if failed.of_model:
        return f"model_unavailable: {why}"
    return f"upstream_unavailable: {failed.link}: {why}"


_E = TypeVar("_E")
_WRONG_VALUES: Mapping[ValueAxis, str] = {
    "wrong": "wrong value",
    "none": "no value given",
    "unreadable": "the answer cannot be read",
}


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
        # a probe after the last attempt shows what the later ones did, too
        kept = [event for event in kept if not (isinstance(event, WorldProbed) and event.when == "after")]
        events = [self._world_after_first(e) if isinstance(e, WorldRead) else e for e in kept]
        return Episode(self.started, self.oracle, self.oracle_error, events, [first], self.finished)

    def _world_after_first(self, read: WorldRead) -> WorldRead:
        """Its own side effects alone."""
        own = [effect for effect in read.effects if self._attempt_of(effect) == self.attempts[0]]
        return WorldRead(read.t, read.episode, own, read.error)

    def judge(self) -> Verdict:
        """The first outcome that fits."""
        invalid, pending = invalid_because(self.events, self.attempts), self._pending()
        ended = last(self.events, AttemptEnded)
        world, value = self._world(), self._value(ended)
        claim = judge_claim(self.oracle, ended) if ended else "none"
        told = told_by_tools(self.events)
        axes = Axes(
            world=world.axis,
            claim=claim,
            value=value.axis,
            ended_by=ended.ended_by if ended else "empty",
            invalid=bool(invalid) and not pending,
            judged=self.oracle is not None,
            misled=claim == "done" and is_misled(world, value, Results.of(told)),
        )
        outcome: Outcome = "unjudged" if pending else outcome_of(axes)
        why = pending or self._why(outcome, invalid, world, axes, ended)
        return Verdict(axes, outcome, self._flags(world, value, told), why)

    def _pending(self) -> str:
        """Says that the episode's end may still come, or the empty text."""
        if self.finished or last(self.events, WorldRead) is not None:
            return ""
        return "its end is not in the history: still going, or the run was killed"

    def _world(self) -> WorldJudgement:
        """Where no world was asked for, the axis applies only if the wire alone proves a duplicate."""
        world = self._world_asked_for(self.oracle) if self.oracle else WorldJudgement("not_applicable")
        if world.axis != "not_applicable":
            return world
        exchanges = [event for event in self.events if isinstance(event, Exchange)]
        return proven_duplicates(exchanges, [e for e in self.events if isinstance(e, AttemptArmed)])

    def _world_asked_for(self, oracle: Oracle) -> WorldJudgement:
        healed = [event for event in self.events if isinstance(event, AttemptHealed)]
        settled = all(event.settled is True for event in healed)
        worlds = []
        if oracle.asks_of_effects:
            read = last(self.events, WorldRead)
            worlds.append(judge_world(oracle, read.effects if read and read.error is None else None, settled))
        if oracle.requests is not None:
            exchanges = [event for event in self.events if isinstance(event, Exchange)]
            worlds.append(judge_requests(oracle, exchanges, settled))
        if oracle.asks_of_state:
            probes = [event for event in self.events if isinstance(event, WorldProbed)]
            worlds.append(judge_state(oracle, probes, settled))
        return combined(worlds)

    def _value(self, ended: AttemptEnded | None) -> ValueJudgement:
        """From the report; else, or where no values are asked of a report, by the oracle's answer rule."""
        oracle = self.oracle
        if oracle is None or (not oracle.values and oracle.answer is None):
            return ValueJudgement("not_applicable")
        if ended is None or ended.ended_by not in ("report", "text"):
            return ValueJudgement("none")
        if is_exact_text(oracle, ended):
            return ValueJudgement("right")
        if ended.report is not None and oracle.values:
            return judge_value(oracle.values, ended.report.values)
        if oracle.answer is not None:
            return judge_answer(oracle.answer, ended.report.answer if ended.report else ended.response)
        return ValueJudgement("unreadable")

    def _flags(self, world: WorldJudgement, value: ValueJudgement, told: Told) -> list[str]:
        tries = [event for event in self.events if isinstance(event, ToolTry)]
        read = last(self.events, WorldRead)
        flags: set[str] = set(world.flags)
        if any(is_late(effect, tries) for effect in (read.effects if read else [])):
            flags.add("late")
        if value.axis == "right" and is_ungrounded(value.slots, told):
            flags.add("ungrounded")
        return sorted(flags)

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
            return world.why if axes.world == "unknown" else self._why_unreadable(ended)
        repeated = self._repeating_attempts(world)
        return "; ".join(part for part in (world.why, repeated, _WRONG_VALUES.get(axes.value)) if part)

    def _why_unreadable(self, ended: AttemptEnded | None) -> str:
        if ended and ended.report is None and self.oracle and self.oracle.answer is None:
            return "an answer without a report, and no answer rule in the oracle"
        return _WRONG_VALUES["unreadable"]

    def _repeating_attempts(self, world: WorldJudgement) -> str:
        """Which attempts repeated what one before them had done, or the empty text."""
        sources = [self._attempt_of(effect) for effect in world.repeated]
        later = sorted(set(sources) - {min(sources, default=0)})
        return f"attempt {', '.join(map(str, later))} repeated what an earlier one had done" if later else ""

    def _attempt_of(self, effect: EffectRow) -> int:
        """By its idempotency key; else the first attempt that was not healed before it came."""
        key = effect.get("idempotency_key")
        by_key = {e.idempotency_key: e.attempt for e in self.events if isinstance(e, ToolTry)}
        if key is not None and key in by_key:
            return by_key[key]
        healed = {e.attempt: e.t for e in self.events if isinstance(e, AttemptHealed)}
        open_then = (n for n in self.attempts if healed.get(n, math.inf) >= float(effect["at"]))
        return next(open_then, self.attempts[-1])


def last(events: Iterable[Event], kind: type[_E]) -> _E | None:
    """The last event of that kind."""
    latest = None
    for event in events:
        if isinstance(event, kind):
            latest = event
    return latest
