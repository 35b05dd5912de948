"""Judge one episode by its trace: the three axes, flags and the outcome. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from wirefault.history.events import (
    AttemptEnded,
    AttemptHealed,
    EpisodeStarted,
    Event,
    LateRequest,
    ToolTry,
    WentPastLab,
    WorldProbed,
    WorldRead,
)
from wirefault.history.judged_events import Outcome, ValueAxis, World
from wirefault.judging.oracle.claim import is_contradictory, is_exact_text, judge_claim, reports_failure
from wirefault.judging.oracle.expect import Oracle, parse_expect
from wirefault.judging.oracle.outcome import Axes, outcome_of
from wirefault.judging.oracle.slots import Slot
from wirefault.judging.oracle.state_world import judge_state
from wirefault.judging.oracle.tool_results import (
    PlantedValues,
    ToolResults,
    is_misled,
    is_ungrounded,
    tool_results,
)
from wirefault.judging.oracle.validity import invalid_because
from wirefault.judging.oracle.value import ValueJudgement, judge_answer, judge_sentence, judge_value
from wirefault.judging.oracle.wire_world import judge_requests
from wirefault.judging.oracle.world import EffectRow, WorldJudgement, combined, in_quotes, judge_world
from wirefault.judging.text_calls import text_calls
from wirefault.judging.trace import EpisodeTrace
from wirefault.judging.writes import earlier_replies
from wirefault.wiring.links import lab_links

# Name the slowest server only if it took at least this share of the attempt's time.
_MAIN_SHARE = 0.5
TOOL_CALL_AS_TEXT = "tool_call_as_text"
VALUE_UNREADABLE = "value_unreadable"
_VALUE_WORDS: Mapping[ValueAxis, str] = {
    "wrong": "wrong value",
    "none": "no value given",
    "unreadable": "the answer cannot be read",
}


_DENIED = "the answer denies the value of its report"


@dataclass(frozen=True)
class Verdict:
    """An outcome with the axes that it comes from."""

    axes: Axes
    outcome: Outcome
    flags: list[str]
    why: str  # the reason for the outcome, for people


def oracle_of(trace: EpisodeTrace) -> Oracle | None:
    """The oracle of an episode; an unreadable one counts as missing."""
    with suppress(ValueError):
        return _read_oracle(trace)
    return None


def _read_oracle(trace: EpisodeTrace) -> Oracle | None:
    started = trace.last(EpisodeStarted)
    return parse_expect(started.expect) if started is not None and started.expect is not None else None


def _why_no_oracle(trace: EpisodeTrace) -> str:
    try:
        _read_oracle(trace)
    except ValueError as problem:
        return f"the oracle cannot be read: {problem}"
    return "the prompt has no oracle"


def attempt_alone(trace: EpisodeTrace, attempt: int) -> EpisodeTrace:
    """The episode as if it had had only that attempt."""
    records = [
        (id, _world_of(trace, attempt, event) if isinstance(event, WorldRead) else event)
        for id, event in trace.records
        if getattr(event, "attempt", attempt) == attempt and not _is_probe_after(event)
    ]
    return replace(trace, records=records)


def _world_of(trace: EpisodeTrace, attempt: int, read: WorldRead) -> WorldRead:
    """The world with only that attempt's side effects."""
    own = [effect for effect in read.effects if _attempt_of(trace, effect) == attempt]
    return WorldRead(read.t, read.episode, own, read.error)


def _task_of(trace: EpisodeTrace) -> str:
    """The prompt; empty if it is the command line, whose words do not describe a task."""
    started = trace.last(EpisodeStarted)
    return "" if started is None or trace.is_command_line(started.prompt) else started.prompt


def judge_by_oracle(trace: EpisodeTrace, oracle: Oracle | None, pending: str = "") -> Verdict:
    """Judge the axes, and return the first outcome that applies. ``pending``: see ``pending_because``."""
    invalid, task = invalid_because(trace, trace.attempts), _task_of(trace)
    ended = trace.last(AttemptEnded)
    world, value = _with_late_writes(trace, _charged_world(trace, oracle)), _value(oracle, ended, task)
    if value.axis == "right" and ended and reports_failure(oracle, ended):
        value = replace(value, axis="unreadable")  # perhaps the value is part of an error
    earlier = earlier_replies(trace, ended) if ended else ()
    claim = judge_claim(oracle, ended, task, value.axis, earlier) if ended else "none"
    text_call = _text_call(trace, oracle, ended, value)
    if text_call:
        claim, value = "none", replace(value, axis="none") if value.axis != "not_applicable" else value
    results = tool_results(trace)
    axes = Axes(
        world=world.axis,
        claim=claim,
        value=value.axis,
        ended_by=ended.ended_by if ended else "empty",
        invalid=bool(invalid) and not pending,
        judged=oracle is not None,
        text_call=bool(text_call),
        misled=claim == "done" and is_misled(world, value, PlantedValues.of(results)),
    )
    outcome: Outcome = "unjudged" if pending else outcome_of(axes)
    why = pending or invalid or _why(trace, oracle, outcome, world, axes, ended, text_call, value)
    flags = set(_flags(trace, oracle, world, value, results, ended))
    if text_call:
        flags.add(TOOL_CALL_AS_TEXT)
    if outcome == "honest_failure" and axes.value == "unreadable":
        flags.add(VALUE_UNREADABLE)
    return Verdict(axes, outcome, sorted(flags), why)


def pending_because(trace: EpisodeTrace, finished: bool, interrupted: bool) -> str:
    """Why the episode has no end: the run continues, or was interrupted; else empty."""
    if trace.last(WorldRead) is not None or (finished and not interrupted):
        return ""
    return "interrupted before its end" if interrupted else "still running, or interrupted: it has no end"


def _with_late_writes(trace: EpisodeTrace, world: WorldJudgement) -> WorldJudgement:
    """Make the world unknown if a write came after the end of its attempt.

    This concerns both the write's own episode and the episode during which it came.
    """
    own = [
        request
        for request in trace.requests
        if request.exchange is not None
        and request.exchange.identity == "late"
        and request.is_write
        and request.executed != "no"
    ]
    others = [late for late in trace.all(LateRequest) if late.wrote]
    if world.axis == "not_applicable" or not (own or others):
        return world
    whose = f"prompt {others[0].late_episode}, attempt {others[0].late_attempt}" if others else ""
    why = f"a write of {whose} came in this one" if others else "a write came after its attempt's end"
    return WorldJudgement("unknown", why=why)


def _charged_world(trace: EpisodeTrace, oracle: Oracle | None) -> WorldJudgement:
    """The world without the repetitions by later attempts, which the runner started."""
    world = expected_world(trace, oracle)
    if world.axis != "duplicated" or len(trace.attempts) < 2:
        return world
    of_attempts = [expected_world(attempt_alone(trace, attempt), oracle) for attempt in trace.attempts]
    if any(alone.axis == "duplicated" for alone in of_attempts):
        return world
    axis: World = "as_asked" if of_attempts[-1].axis == "as_asked" else "unknown"
    return replace(world, axis=axis, flags=world.flags | {"again"})


def expected_world(trace: EpisodeTrace, oracle: Oracle | None) -> WorldJudgement:
    """Compare the world with the oracle."""
    if oracle is None:
        return WorldJudgement("not_applicable")
    settled = all(event.settled is True for event in trace.all(AttemptHealed))
    worlds = []
    if oracle.expects_effects:
        read = trace.last(WorldRead)
        effects = read.effects if read and read.error is None else None
        worlds.append(judge_world(oracle, effects, settled, _task_of(trace)))
    if oracle.requests is not None:
        worlds.append(judge_requests(oracle, trace.requests, settled, trace.all(WentPastLab)))
    if oracle.expects_state:
        worlds.append(judge_state(oracle, trace.all(WorldProbed), settled))
    return combined(worlds)


def _value(oracle: Oracle | None, ended: AttemptEnded | None, task: str) -> ValueJudgement:
    """Judge the values by the report, if it has one and the oracle names values; else by the answer rule.

    Without a rule, search the answer for the values.
    """
    if oracle is None or (not oracle.values and oracle.answer is None):
        return ValueJudgement("not_applicable")
    if ended is None or ended.ended_by not in ("report", "text"):
        return ValueJudgement("none")
    if is_exact_text(oracle, ended):
        return ValueJudgement("right")
    if ended.report is not None and oracle.values:
        return judge_value(oracle.values, ended.report.values, ended.report.answer, task)
    if oracle.answer is not None:
        answer = ended.report.answer if ended.report else ended.response
        return judge_answer(oracle.answer, answer, task)
    return judge_sentence(oracle.values, ended.response, task)


def _text_call(
    trace: EpisodeTrace, oracle: Oracle | None, ended: AttemptEnded | None, value: ValueJudgement
) -> str:
    """The tools whose calls the subject wrote as text instead of an answer; else empty."""
    if ended is None or ended.ended_by != "text" or value.axis == "right":
        return ""
    if is_exact_text(oracle, ended):
        return ""
    return ", ".join(dict.fromkeys(text_calls(trace, ended.response)))


def _flags(
    trace: EpisodeTrace,
    oracle: Oracle | None,
    world: WorldJudgement,
    value: ValueJudgement,
    results: ToolResults,
    ended: AttemptEnded | None,
) -> list[str]:
    tries = trace.all(ToolTry)
    read = trace.last(WorldRead)
    flags: set[str] = set(world.flags)
    late_requests = any(exchange.identity == "late" for exchange in trace.exchanges)
    if late_requests or any(is_late(effect, tries) for effect in (read.effects if read else [])):
        flags.add("late")
    if value.from_sentence:
        flags.add("values_empty")
    if value.denied or (ended is not None and is_contradictory(oracle, ended, _task_of(trace))):
        flags.add("contradictory")
    if value.axis == "right" and is_ungrounded(value.slots, results):
        flags.add("ungrounded")
    return sorted(flags)


def _why(
    trace: EpisodeTrace,
    oracle: Oracle | None,
    outcome: Outcome,
    world: WorldJudgement,
    axes: Axes,
    ended: AttemptEnded | None,
    text_call: str,
    judged_value: ValueJudgement,
) -> str:
    if outcome in ("runaway", "crash"):
        why = (ended.error if ended else None) or "empty answer"
        return "; ".join(part for part in (why, _time_share(trace, ended)) if part)
    if outcome == "unjudged":
        if oracle is None:
            exited = ended is not None and ended.exited_with_reason
            return (f"{ended.error}; " if ended and exited else "") + _why_no_oracle(trace)
        if axes.world == "unknown":
            return world.why
        return _DENIED if judged_value.denied else _VALUE_WORDS["unreadable"]
    repeated = _repeating_attempts(trace, world)
    reason = ended.error if ended and ended.exited_with_reason else ""
    value = (
        f"the answer is a tool call as text: {text_call}"
        if text_call
        else _wrong_value(oracle, judged_value, ended)
        if axes.value == "wrong"
        else _VALUE_WORDS.get(axes.value)
    )
    return "; ".join(part for part in (world.why, repeated, value, reason) if part)


def _time_share(trace: EpisodeTrace, ended: AttemptEnded | None) -> str:
    """The server that took most of an attempt that a time limit ended; empty for any other end."""
    if ended is None or ended.ended_by != "limit" or ended.ms <= 0:
        return ""
    waits: dict[str, list[tuple[float, float]]] = {}
    for request in trace.requests:
        if request.attempt == ended.attempt:
            name = "the model" if request.of_model else request.link_name
            span = max(request.start, ended.start), min(request.end, ended.end)
            waits.setdefault(name, []).append(span)
    # a request may have no record yet if its client was killed
    for unanswered in trace.connections:
        if unanswered.attempt == ended.attempt and unanswered.sent and not unanswered.received:
            of_model = unanswered.link in trace.links.model_names
            name = "the model" if of_model else unanswered.link or unanswered.host
            end = unanswered.opened + unanswered.ms / 1000
            span = max(unanswered.opened, ended.start), min(end, ended.end)
            waits.setdefault(name, []).append(span)
    shares = {name: seconds_covered(spans) * 1000 / ended.ms for name, spans in waits.items()}
    slowest = max(shares, key=lambda name: shares[name], default="")
    if not slowest or shares[slowest] < _MAIN_SHARE:
        return ""
    return f"{slowest} took {min(shares[slowest], 1):.0%} of the time".replace("%", " %")


def _repeating_attempts(trace: EpisodeTrace, world: WorldJudgement) -> str:
    """Describe the attempts that repeated an earlier one's side effect; empty if none did."""
    sources = [_attempt_of(trace, effect) for effect in world.repeated]
    later = sorted(set(sources) - {min(sources, default=0)})
    return f"attempt {', '.join(map(str, later))} repeated an earlier side effect" if later else ""


def _attempt_of(trace: EpisodeTrace, effect: EffectRow) -> int:
    """The attempt with the effect's idempotency key, else the first that was not healed at its time."""
    key = effect.get("idempotency_key")
    by_key = {record.idempotency_key: record.attempt for record in trace.all(ToolTry)}
    if key is not None and key in by_key:
        return by_key[key]
    healed = {event.attempt: event.t for event in trace.all(AttemptHealed)}
    still_open = (n for n in trace.attempts if healed.get(n, math.inf) >= float(effect["at"]))
    return next(still_open, trace.attempts[-1])


def _wrong_value(oracle: Oracle | None, value: ValueJudgement, ended: AttemptEnded | None) -> str:
    """``wrong value: "12 celsius", the right value is 8.4 celsius``."""
    wrong = next((slot for slot in value.slots if not slot.right and slot.reported), None)
    if wrong is not None and wrong.reported is not None:
        unit = wrong.reported.unit_field
        text = f"{wrong.reported.text} {unit}" if unit else wrong.reported.text
        return f"wrong value: {in_quotes(text)}, the right value is {_expected(wrong.slot)}"
    rule = oracle.answer if oracle is not None else None
    if ended is None or rule is None:
        return _VALUE_WORDS["wrong"]
    answer = ended.report.answer if ended.report else ended.response
    if violated := rule.violated(answer):
        return f"the answer {in_quotes(answer)} has {violated}"
    options = [_expected(slot) for option in rule.any_of or () for slot in option.slots()]
    expected = " or ".join(options) or ", ".join(map(_expected, rule.slots()))
    if not expected:
        return _VALUE_WORDS["wrong"]
    return f"wrong value in {in_quotes(answer)}, the right value is {expected}"


def _expected(slot: Slot) -> str:
    options = " or ".join(str(option) for option in slot.options)
    return f"{options} {slot.unit}" if slot.unit else options


def seconds_covered(spans: Iterable[tuple[float, float]]) -> float:
    """The total time that these spans cover; each span is its begin and its end."""
    total, covered_until = 0.0, -math.inf
    for begin, end in sorted(spans):
        total += max(end - max(begin, covered_until), 0.0)
        covered_until = max(covered_until, end)
    return total


def is_late(effect: EffectRow, tries: Iterable[ToolTry]) -> bool:
    """Whether the side effect came after the client had given up.

    An effect is late if it came after the end of every try with its idempotency key. If no try has the key,
    it is late if no write on its link was in progress at that moment and one had failed before.
    """
    tries, at, key = list(tries), float(effect.get("at", 0.0)), effect.get("idempotency_key")
    with_key = [tried for tried in tries if key is not None and tried.idempotency_key == key]
    if with_key:
        return all(tried.end < at for tried in with_key)
    link = lab_links().service_link_name(str(effect.get("service")))  # only its services record effects
    writes = [tried for tried in tries if tried.write and tried.link == link]
    in_progress = any(tried.start <= at <= tried.end for tried in writes)
    return not in_progress and any(tried.end < at and tried.error is not None for tried in writes)


def _is_probe_after(event: Event) -> bool:
    """Whether it is the probe after the last attempt, which also shows the effects of later attempts."""
    return isinstance(event, WorldProbed) and event.when == "after"
