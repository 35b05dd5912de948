"""The writes, failures and answer of an episode's first attempt, for comparison with the control. Pure.

Executed writes are counted by call. Digits and ids in the answer are masked. No oracle is needed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from wirefault.dialects.json_values import as_object, parsed
from wirefault.history.events import EXIT_CODE, AttemptEnded
from wirefault.history.judged_events import Finding
from wirefault.judging.findings.claimed import MAY_BE_AS_ASKED
from wirefault.judging.findings.damaged import model_text
from wirefault.judging.findings.errors import has_error
from wirefault.judging.layers import repeated_text
from wirefault.judging.requests import Request
from wirefault.judging.subject_name import YOUR_AGENT, agent_of
from wirefault.judging.trace import EpisodeTrace
from wirefault.judging.writes import Write, earlier_replies, writes_in

_TRANSIENT = frozenset({408, 425, 429})

_ID = re.compile(r"\b(?=[\w-]*\d)(?:[0-9a-f-]{8,}|[A-Za-z]+[-_]?\w*\d\w*)\b", re.I)
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
# a version of an API in a path, `/v1/`, is neither
_MASKED = re.compile(rf"((?<=/)v\d+(?:(?:alpha|beta)\d*)?(?=/))|{_ID.pattern}|{_NUMBER.pattern}", re.I)
_WORD = re.compile(r"\w")
_BORDERS = " \t|│┃╭╮╰╯┌┐└┘─━═"
_UNSURE_WORD = re.compile(
    r"\b(?:may|might|unsure|unclear|uncertain|unknown|whether|possibly|perhaps|maybe|verify|check)\b", re.I
)
_TRACE = "Traceback (most recent call last)"
_EXCEPTION = re.compile(
    r"(?:(?:an|the|agent|tool|run|fatal|internal|unexpected|unhandled|uncaught|error|exception|fail\w*|crash\w*"
    r"|with|in|occurred|raised)\b\W*)*"
    r"(?-i:(?:\w+\.)*[A-Z][A-Za-z0-9]+(?:Error|Exception)|(?:\w+\.)*(?:Connect|Read|Write|Pool)Timeout)\b",
    re.I,
)
_NOTHING = frozenset({"", "null", "none", "{}", "[]", '""', "undefined"})


@dataclass(frozen=True)
class CallCount:
    """The number of times that an attempt executed a call that changes state."""

    call: str  # as a wiring declares it, with numbers and ids masked
    name: str  # the same for readers: only its path is masked, not the link's name
    repeatable: bool  # idempotent by HTTP's definition
    executed: int  # requests with one idempotency key count once
    maybe: int
    refused: int
    most_of_one: int  # the largest number of executions with the same contents
    reported: int  # executions named in findings about repeated writes
    failures_seen: bool  # the caller saw the failure of every request that was not executed
    repeated: str  # a clause: who sent further executions; empty if unknown
    ids: tuple[str, ...]


@dataclass(frozen=True)
class Conduct:
    """The compared facts of an episode's first attempt."""

    answer: str  # with digits and ids masked
    lines: tuple[str, ...]  # of the answer, masked, without borders and empty lines
    plain_lines: tuple[str, ...]  # the same lines as they were printed
    fields: tuple[tuple[str, str], ...]  # texts of an answer that is a JSON object, masked; null is ""
    text: str  # the beginning of the answer
    earlier: tuple[str, ...]  # replies of a conversation from its first write on, before the answer
    unsure: bool
    is_exception: bool  # the answer is an exception's class and text, or a stack trace
    failed: bool  # by the report's status
    exit: str  # the error that ended the program; empty after a normal end
    reason: str  # the text of that error
    calls: tuple[CallCount, ...]
    others: tuple[str, ...]  # calls that count neither as reads nor as writes
    replaced: bool  # a fault replaced the contents of a reply, which may now report a success
    past_lab: bool
    crashed: bool  # the program ended without an answer that gives the reason
    failures: tuple[str, ...]  # requests that failed and might pass at another try
    failure_ids: tuple[str, ...]
    failed_last: bool  # the last request failed
    end_id: str
    agent: str = YOUR_AGENT  # its name, at the start of a sentence
    claim_reported: bool = False  # a rule reports as harmful that it took an error for a result

    @property
    def replies(self) -> tuple[str, ...]:
        """The replies that may report a write, masked; the answer is the last one."""
        return (*(masked(each).casefold() for each in self.earlier), self.answer)

    @property
    def is_silent(self) -> bool:
        return all(word in _NOTHING for word in self.answer.split())

    def count_of(self, call: str) -> CallCount | None:
        return next((count for count in self.calls if count.call == call), None)


def expresses_doubt(answer: str) -> bool:
    return _UNSURE_WORD.search(answer) is not None


def conduct_in(trace: EpisodeTrace, findings: Iterable[Finding] = ()) -> Conduct | None:
    """Read the conduct of the first attempt; None if the lab ended it, or if it has not ended.

    ``findings``: the rules' own in the episode, which already report some events.
    """
    end = trace.end_of(1)
    if end is None or end.event.ended_by == "limit":
        return None
    event, findings = end.event, list(findings)
    reported_ids = {id for each in findings if each.rule == "write_repeated" for id in each.evidence}
    groups: defaultdict[str, list[Write]] = defaultdict(list)
    for write in writes_in(trace):
        if write.request.attempt == 1:
            groups[masked(write.call)].append(write)
    answer = event.report.answer if event.report and not event.response else event.response
    plain = [line.strip(_BORDERS) for line in answer.splitlines()]
    lines = [(line, masked(line).casefold()) for line in plain]
    lines = [(line, same) for line, same in lines if _WORD.search(same)]
    status = event.report.status if event.report else ""
    requests = [request for request in trace.requests if request.attempt == 1]
    failures = list(filter(_may_pass_later, requests))
    last = requests[-1] if requests else None
    return Conduct(
        agent=agent_of(trace.run),
        answer=masked(answer).casefold(),
        lines=tuple(same for _, same in lines),
        plain_lines=tuple(line for line, _ in lines),
        fields=tuple(_fields(answer)),
        text=shortened(answer),
        earlier=tuple(earlier_replies(trace, event)),
        is_exception=_TRACE in answer or any(_EXCEPTION.match(line) for line, _ in (lines[:1] + lines[-1:])),
        unsure=status == "unsure" or expresses_doubt(answer),
        failed=status == "failed",
        exit=_exit(event),
        reason=masked(event.error or "") if event.ended_by == "exception" else "",
        calls=tuple(_counted(trace, call, group, reported_ids) for call, group in groups.items()),
        others=tuple(dict.fromkeys(_other_calls(trace))),
        replaced=any(
            fault.content or fault.kind == "status"
            for request in trace.requests
            for fault in request.injected
            if request.succeeded and not has_error(request) and model_text(request) != ""
        ),
        past_lab=bool(trace.past_lab),
        crashed=event.ended_by == "exception",
        failures=tuple(request.name for request in failures),
        failed_last=bool(failures) and failures[-1] is last,
        failure_ids=tuple(id for request in failures for id in request.ids),
        end_id=end.id,
        claim_reported=any(
            each.rule == "error_as_result" and each.severity == "harmful" for each in findings
        ),
    )


def _may_pass_later(request: Request) -> bool:
    status = request.status
    return bool(request.reply_lost) or (status is not None and (status >= 500 or status in _TRANSIENT))


def _other_calls(trace: EpisodeTrace) -> Iterator[str]:
    for request in trace.requests:
        is_other = not (request.of_model or request.is_read or request.is_write)
        if is_other and request.attempt == 1 and request.executed != "no":
            yield masked(f"{request.name} of {request.link_name}")


@lru_cache(maxsize=1024)  # the episodes of a run have many of these texts in common
def masked(text: str) -> str:
    """Mask the numbers and ids in a text."""
    return " ".join(_MASKED.sub(lambda match: match[1] or "#", text).split())


def _fields(answer: str) -> Iterator[tuple[str, str]]:
    try:
        value = as_object(parsed(answer))
    except ValueError:
        return
    for name, field in value.items():
        if field is None or isinstance(field, str):
            yield name, masked(field or "")


def _exit(end: AttemptEnded) -> str:
    if end.error_type == EXIT_CODE:
        return (end.error or "it failed").partition(":")[0].removeprefix("it ")
    return f"ended with {end.error_type or 'an exception'}" if end.ended_by == "exception" else ""


def shortened(text: str) -> str:
    """Return the text on one line of at most 80 characters."""
    line = " ".join(text.split())
    return line if len(line) <= 80 else f"{line[:79]}…"


def _counted(trace: EpisodeTrace, call: str, group: Sequence[Write], reported: set[str]) -> CallCount:
    executed = [write for write in group if write.fate == "executed"]
    keys = {write.key for write in executed if write.key}
    single = [write for write in executed if not write.key]
    by_same: defaultdict[str, int] = defaultdict(int)
    for write in single:
        by_same[write.same] += 1  # the network may deliver one request several times
    ids = tuple(id for write in group for id in write.seen.ids)
    path, _, link = group[0].call.rpartition(" of ")
    return CallCount(
        call,
        name=f"{masked(path)} of {link}" if path else call,
        repeatable=all(write.repeatable for write in group),
        executed=sum(by_same.values()) + len(keys),
        maybe=sum(write.fate == "maybe" and not (write.key and write.key in keys) for write in group),
        refused=sum(write.fate == "refused" for write in group),
        most_of_one=max(by_same.values(), default=min(len(keys), 1)),
        reported=sum(not reported.isdisjoint(write.seen.ids) for write in executed),
        failures_seen=all(_failure_was_seen(write) for write in group if write.fate == "refused"),
        repeated=_repeated(trace, group),
        ids=tuple(dict.fromkeys(ids)),
    )


def _repeated(trace: EpisodeTrace, group: Sequence[Write]) -> str:
    """A clause on who sent further executions; empty if unknown."""
    if any(write.fate == "executed" and _called_by_unknown_name(trace, write.seen) for write in group):
        return "the subject made one of them for a call of an unknown tool"
    by = repeated_text(trace, _repetitions(trace, group))
    return f"it was sent again {by}" if by else ""


def _called_by_unknown_name(trace: EpisodeTrace, request: Request) -> bool:
    """Whether the last model's reply before it calls, by a fault, a tool that the subject does not have."""
    earlier = [r for r in trace.requests if r.attempt == request.attempt and r.end <= request.start]
    model = next((other for other in reversed(earlier) if other.may_ask_model), None)
    return model is not None and "unknown_tool" in model.fault_kinds


def _failure_was_seen(write: Write) -> bool:
    """Whether the caller got an error, and the error does not mean that the write was already done."""
    seen = write.seen
    return bool(seen.reply_lost) or (has_error(seen) and seen.status not in MAY_BE_AS_ASKED)


def _repetitions(trace: EpisodeTrace, group: Sequence[Write]) -> Iterator[tuple[Request, Request]]:
    """Yield each executed repetition after the request before it: of the same contents, if there are any."""
    by_same: defaultdict[str, list[Write]] = defaultdict(list)
    for write in group:
        by_same[write.same].append(write)
    same = [pair for writes in by_same.values() for pair in pairwise(writes) if pair[1].fate == "executed"]
    for before, again in same or pairwise(group):
        if again.fate == "executed" and trace.may_repeat(before.seen, again.seen):
            yield before.seen, again.seen
