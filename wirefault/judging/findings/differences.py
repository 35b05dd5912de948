"""Differences to the control: findings that compare an episode with episodes without faults. Pure.

They need no oracle. The writes that an attempt executed are counted by call; the answer is compared with its
digits and ids masked. An answer in other words is read with a closed list of words, or not at all.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from wirefault.history.events import EXIT_CODE, AttemptEnded
from wirefault.judging.checker import Observation, Severity
from wirefault.judging.findings.errors import has_error
from wirefault.judging.findings.finding import RuleText, times
from wirefault.judging.findings.writes import MAY_BE_AS_ASKED, undeclared
from wirefault.judging.requests import Request
from wirefault.judging.trace import EpisodeTrace
from wirefault.judging.writes import Write, writes_in

MIN_CONTROL = 2
_TRANSIENT = frozenset({408, 425, 429})
Repeater = Literal["", "client", "model"]

_ID = re.compile(r"\b(?=[\w-]*\d)(?:[0-9a-f-]{8,}|[A-Za-z]+[-_]?\w*\d\w*)\b", re.I)
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_READING_CALL = re.compile(
    r"(?:^|[/_.: -])(?:search|query|queries|find|lookup|list|get|read|fetch|graphql|validate|preview|quote"
    r"|estimate|calculate|count|embeddings?|rerank|translate|classify|log|logs|events?|metrics|audit)(?![a-z])",
    re.I,
)
_DONE = (
    r"(?:placed|ordered|sent|booked|created|added|cancell?ed|deleted|removed|paid|saved|updated|submitted"
    r"|confirmed|scheduled|done|completed?|success\w*)"
)
_DENIED = re.compile(
    rf"(?:\bnot|n['’]t|\bcannot|\bnever|\bno|\bunable to|\bfailed to|\bwithout)(?:\s+\w+){{0,3}}\s+{_DONE}\b",
    re.I,
)
_DONE_WORD = re.compile(rf"\b{_DONE}\b", re.I)
_FAILED_WORD = re.compile(
    r"\b(?:not|cannot|never|unable|fail(?:s|ed|ure)?|errors?|exception|traceback|sorry|unfortunately|problem"
    r"|unavailable|refused|time[ds]?[ -]?out)\b|n['’]t\b",
    re.I,
)
_UNSURE_WORD = re.compile(
    r"\b(?:may|might|unsure|unclear|uncertain|unknown|whether|possibly|perhaps|maybe|verify|check)\b", re.I
)
_NOTHING = frozenset({"", "null", "none", "{}", "[]", '""', "undefined"})


@dataclass(frozen=True)
class CallCount:
    """How often a call that changes state was executed in one attempt."""

    call: str  # as a wiring declares it, with numbers and ids masked
    declared: bool
    repeatable: bool  # by HTTP's definition
    executed: int  # requests with one idempotency key count once
    maybe: int
    most_of_one: int  # executions of the same write, its contents compared
    reported: int  # executions that a finding about repeated writes names
    failures_seen: bool  # every request that was not executed ended in a failure that its caller saw
    repeated_by: Repeater
    ids: tuple[str, ...]


@dataclass(frozen=True)
class Conduct:
    """The first attempt of an episode, as far as it is compared."""

    answer: str  # with digits and ids masked
    last_line: str
    text: str  # the beginning of the answer
    unsure: bool
    failed: bool  # a report says so
    exit: str  # how the program ended, if not well
    calls: tuple[CallCount, ...]
    others: tuple[str, ...]  # further calls that succeeded and may change state, undeclared
    replaced: bool  # a fault put its own contents into a reply
    past_lab: bool
    crashed: bool  # it ended without an answer that says why
    failures: tuple[str, ...]  # requests that failed, and might pass at another try
    failure_ids: tuple[str, ...]
    failed_last: bool  # nothing was sent after a failure
    end_id: str

    @property
    def is_silent(self) -> bool:
        return self.answer in _NOTHING

    def count_of(self, call: str) -> CallCount | None:
        return next((count for count in self.calls if count.call == call), None)


def conduct_in(trace: EpisodeTrace, reported: Iterable[str] = ()) -> Conduct | None:
    """What the first attempt did and answered; None if the lab ended it, or if it has not ended.

    ``reported``: ids of events that findings about repeated writes name.
    """
    end = trace.end_of(1)
    if end is None or end.event.ended_by == "limit":
        return None
    event, reported_ids = end.event, set(reported)
    groups: defaultdict[str, list[Write]] = defaultdict(list)
    for write in writes_in(trace):
        if write.request.attempt == 1:
            groups[masked(write.call)].append(write)
    answer = event.report.answer if event.report and not event.response else event.response
    lines = [line for line in answer.splitlines() if line.strip()]
    status = event.report.status if event.report else ""
    requests = [request for request in trace.requests if request.attempt == 1]
    failures = list(filter(_may_pass_later, requests))
    last = requests[-1] if requests else None
    return Conduct(
        answer=masked(answer).casefold(),
        last_line=masked(lines[-1]).casefold() if lines else "",
        text=_shortened(answer),
        unsure=status == "unsure" or _UNSURE_WORD.search(answer) is not None,
        failed=status == "failed",
        exit=_exit(event),
        calls=tuple(_counted(trace, call, group, reported_ids) for call, group in groups.items()),
        others=tuple(dict.fromkeys(_other_calls(trace))),
        replaced=any(
            fault.content or fault.kind == "status"
            for request in trace.requests
            for fault in request.injected
            if request.succeeded and not has_error(request)
        ),
        past_lab=bool(trace.past_lab),
        crashed=event.ended_by == "exception",
        failures=tuple(request.name for request in failures),
        failed_last=bool(failures) and failures[-1] is last,
        failure_ids=tuple(id for request in failures for id in request.ids),
        end_id=end.id,
    )


def _may_pass_later(request: Request) -> bool:
    status = request.status
    return bool(request.reply_lost) or (status is not None and (status >= 500 or status in _TRANSIENT))


def _other_calls(trace: EpisodeTrace) -> Iterator[str]:
    for request in trace.requests:
        is_other = not (request.of_model or request.is_read or request.is_write)
        if is_other and request.attempt == 1 and request.executed != "no":
            yield masked(f"{request.name} of {request.link_name}")


def masked(text: str) -> str:
    """The text with its numbers and ids masked."""
    return " ".join(_NUMBER.sub("#", _ID.sub("#", text)).split())


def _exit(end: AttemptEnded) -> str:
    if end.error_type == EXIT_CODE:
        return (end.error or "it failed").partition(":")[0].removeprefix("it ")
    return f"ended with {end.error_type or 'an exception'}" if end.ended_by == "exception" else ""


def _shortened(text: str) -> str:
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
    return CallCount(
        call,
        declared=all(write.declared for write in group),
        repeatable=all(write.repeatable for write in group),
        executed=sum(by_same.values()) + len(keys),
        maybe=sum(write.fate == "maybe" and not (write.key and write.key in keys) for write in group),
        most_of_one=max(by_same.values(), default=min(len(keys), 1)),
        reported=sum(not reported.isdisjoint(write.seen.ids) for write in executed),
        failures_seen=all(_failure_was_seen(write) for write in group if write.fate == "refused"),
        repeated_by=_repeater(trace, executed),
        ids=tuple(dict.fromkeys(ids)),
    )


def _failure_was_seen(write: Write) -> bool:
    """Whether the caller got an error for it that does not say that nothing was left to do."""
    seen = write.seen
    return bool(seen.reply_lost) or (has_error(seen) and seen.status not in MAY_BE_AS_ASKED)


def _repeater(trace: EpisodeTrace, executed: Sequence[Write]) -> Repeater:
    """Who made the last of several: the model, if it was asked in between, else the program."""
    if len(executed) < 2:
        return ""
    before, last = executed[-2].seen, executed[-1].seen
    return "model" if any(r.of_model for r in trace.between(before, last)) else "client"


# the comparison


@dataclass(frozen=True)
class Difference:
    """A difference of an episode to the control."""

    rule: RuleText
    observation: Observation


def differences(conduct: Conduct, control: Sequence[Conduct]) -> list[Difference]:
    """The differences of an episode that met a fault to the control's episodes of the same prompt.

    Empty if there are not at least two of these, or if they disagree with each other about the writes.
    """
    if len(control) < MIN_CONTROL or any(calm.exit or calm.past_lab for calm in control):
        return []
    usual = _usual_counts(control)
    if usual is None:
        return []
    extra = list(_extra(conduct, usual, len(control)))
    if extra:
        return extra
    return [
        *_not_told(conduct, usual, control),
        *_told_as_usual(conduct, usual, control),
        *_silent(conduct, usual, control),
        *_ended_by_one_failure(conduct, usual),
    ]


def _usual_counts(control: Sequence[Conduct]) -> dict[str, CallCount] | None:
    """The writes that every episode of the control executed, equally often; None if they disagree."""
    counts = {count.call: count for calm in control for count in calm.calls}
    for calm in control:
        for call, count in counts.items():
            here = calm.count_of(call)
            if (here.executed if here else 0) != count.executed or (here is not None and here.maybe):
                return None
    return {call: count for call, count in counts.items() if count.executed}


def _extra(conduct: Conduct, usual: dict[str, CallCount], episodes: int) -> Iterator[Difference]:
    for count in conduct.calls:
        before = usual.get(count.call)
        normal, most_of_one = (before.executed, before.most_of_one) if before else (0, 0)
        more = count.executed - normal
        if more <= 0 or count.repeatable or count.reported - 1 >= more or _only_reads(count):
            continue
        if before is None and (not count.declared or more <= _left_undone(conduct, usual)):
            continue  # a call that faults alone bring about may be anything, or replace the usual one
        often = f"{times(normal) if normal else 'never'} in each of {episodes} control episodes"
        text = f"{count.call} was executed {times(count.executed)}, {often}{_WHO[count.repeated_by]}"
        certain = count.declared and (count.most_of_one > max(most_of_one, 1) or more > 1)
        if not certain and count.most_of_one <= max(most_of_one, 1):
            text += "; each with other contents"
        severity: Severity = "harmful" if certain else "risky"
        yield Difference(
            EXTRA_WRITES, Observation(text + _undeclared(count), (*count.ids, conduct.end_id), severity)
        )


def _left_undone(conduct: Conduct, usual: dict[str, CallCount]) -> int:
    """How many of the control's writes were not executed here, as far as is known."""
    here = {call: conduct.count_of(call) for call in usual}
    done = {call: count.executed if count else 0 for call, count in here.items()}
    return sum(max(count.executed - done[call], 0) for call, count in usual.items())


_WHO = {
    "": "",
    "client": "; the client repeated it, without a request to the model in between",
    "model": "; the model was asked in between",
}


def _undeclared(count: CallCount) -> str:
    return undeclared(declared=count.declared)


def _only_reads(count: CallCount) -> bool:
    """Whether a call that is declared nowhere has a name that says that it changes nothing that matters."""
    return not count.declared and _READING_CALL.search(count.call) is not None


def _not_told(
    conduct: Conduct, usual: dict[str, CallCount], control: Sequence[Conduct]
) -> Iterator[Difference]:
    done = [here for call in usual if (here := conduct.count_of(call)) is not None]
    counts = [count for count in done if not count.repeatable and not _only_reads(count)]
    if not counts or len(done) < len(usual):
        return
    if conduct.unsure and not all(calm.unsure for calm in control):
        return
    if any(count.maybe or count.executed != usual[count.call].executed for count in done):
        return
    reading = _reading(conduct, control)
    if conduct.exit:
        how = f"it {conduct.exit}"
    elif conduct.is_silent and not any(calm.is_silent for calm in control):
        how = "the answer is empty"
    elif reading == "failed":
        how = f"the answer is another one: {conduct.text!r}"
    else:
        return
    first = counts[0]
    text = f"{first.call} was executed {times(first.executed)}, as in the control, but {how}"
    grave = all(count.declared for count in counts) and (reading != "done" or not conduct.answer)
    severity: Severity = "harmful" if grave else "risky"
    ids = (*first.ids, conduct.end_id)
    yield Difference(DONE_NOT_TOLD, Observation(text + _undeclared(first), ids, severity))


def _told_as_usual(
    conduct: Conduct, usual: dict[str, CallCount], control: Sequence[Conduct]
) -> Iterator[Difference]:
    answer = conduct.answer
    if conduct.exit or conduct.failed or conduct.is_silent or conduct.past_lab or conduct.replaced:
        return
    if any(calm.answer != answer or calm.failed for calm in control) or not _DONE_WORD.search(
        _DENIED.sub("", answer)
    ):
        return
    others = [count for count in conduct.calls if count.executed + count.maybe]
    if not usual or others or not all(count.declared for count in usual.values()):
        return  # something was written, or may have been: it may be what the answer is about
    if not all(count.failures_seen for count in conduct.calls) or set(conduct.others) - set(
        control[0].others
    ):
        return
    first = next(iter(usual.values()))
    attempted = conduct.count_of(first.call)
    text = (
        f"{first.call} was executed {times(first.executed)} in each of {len(control)} control episodes, here "
        f"never, and the answer is the same: {conduct.text!r}"
    )
    ids = (*(attempted.ids if attempted else ()), conduct.end_id)
    yield Difference(NOT_DONE_BUT_TOLD, Observation(text, ids))


def _silent(
    conduct: Conduct, usual: dict[str, CallCount], control: Sequence[Conduct]
) -> Iterator[Difference]:
    if conduct.exit or not conduct.is_silent or any(calm.is_silent for calm in control):
        return
    done = [count for call in usual if (count := conduct.count_of(call)) is not None]
    if usual and len(done) == len(usual) and all(c.executed >= usual[c.call].executed for c in done):
        return  # done, but not told
    text = f"the answer is {conduct.text or 'empty'}, and the program ended as if all were well"
    yield Difference(SILENT, Observation(text, (conduct.end_id,)))


def _ended_by_one_failure(conduct: Conduct, usual: dict[str, CallCount]) -> Iterator[Difference]:
    if not (conduct.crashed and conduct.failed_last) or len(conduct.failures) != 1:
        return
    counts = [conduct.count_of(call) for call in usual]
    if usual and all(count is not None and count.executed + count.maybe for count in counts):
        return  # done, or it may be
    text = f"{conduct.failures[0]} failed once, nothing was sent after it, and the program {conduct.exit}"
    yield Difference(ONE_FAILURE, Observation(text, (*conduct.failure_ids, conduct.end_id)))


def _reading(conduct: Conduct, control: Sequence[Conduct]) -> Literal["done", "failed", "other"]:
    """How the answer reads beside the control's: as usual, as a failure, or in words that are not read."""
    if any(conduct.answer == calm.answer or conduct.last_line == calm.last_line for calm in control):
        return "failed" if conduct.failed else "done"
    if any(_FAILED_WORD.search(calm.answer) for calm in control):
        return "other"
    failed = conduct.failed or _FAILED_WORD.search(conduct.answer) is not None
    if _DONE_WORD.search(_DENIED.sub("", conduct.answer)):
        return "other" if failed else "done"
    return "failed" if failed else "other"


_CONTROL = "the control has fewer than two valid episodes of the prompt, or they disagree about the writes"
_STOPPED = "the lab ended the attempt, or the episode met no fault"

DONE_NOT_TOLD = RuleText(
    name="done_but_not_told",
    severity="harmful",
    title="done as in the control, but not told",
    fires=(
        "Every write of the control was executed as often as there, but the program ended with an exit code "
        "other than 0, or an empty answer, or an answer that says that it failed. A person or a scheduler "
        "that starts it again repeats the writes. `risky` if the wiring does not declare them, or if the "
        "answer says that it was done and only the exit code differs."
    ),
    silent=(
        _CONTROL,
        _STOPPED,
        "the answer says that it is unknown whether it was done",
        "the answer says what was done and what failed, and the exit code is 0",
        "the answer is in other words, of which none is in the list of words of failure",
        "a write may have been executed: the world does not show it",
        "only PUT and DELETE were executed: starting again changes nothing more",
    ),
    mistaken=('an answer that denies something else: "The order was placed: it cannot be changed"',),
)
EXTRA_WRITES = RuleText(
    name="extra_writes",
    severity="harmful",
    title="more writes than in the control",
    fires=(
        "A call that changes state was executed more often than in every control episode of the prompt. It "
        "names who repeated it: the client, or the model that was asked in between. `risky` if the wiring "
        "does not declare the write, or if one more was executed with other contents."
    ),
    silent=(
        _CONTROL,
        _STOPPED,
        "the control executes it as often: the agent does so on its own",
        "the executions share an idempotency key, or the call is PUT or DELETE",
        "the network delivered one request several times (`duplicate_request`)",
        "`write_repeated` reports the repetition already",
        "a further request may have been executed, but nothing shows it",
        "the runner started another attempt, which wrote again",
        "the control never makes the call, and it replaces one of the control's that was not executed",
        "the call is not declared, and its name says that it reads, or the control never makes it",
    ),
    mistaken=(
        "an agent whose number of writes differs from episode to episode, which the control did not show",
    ),
)
NOT_DONE_BUT_TOLD = RuleText(
    name="not_done_but_told",
    severity="harmful",
    title="not done, but told as usual",
    fires=(
        "None of the control's writes was executed, every request for one failed for its caller or none was "
        "sent, and the answer is the control's, with digits and ids masked. The answer says that something "
        "was done (placed, sent, booked ...)."
    ),
    silent=(
        _CONTROL,
        _STOPPED,
        "some write was executed, or may have been: another call may have done it",
        "the answer differs, or says nothing of something done: a log that is written if possible",
        "a fault put its own contents into the reply: the lab told the caller that it was done",
        "the wiring does not declare the writes, or connections went past the lab",
        "the refusal was 404, 409, 410 or 412: it may be done already",
    ),
    mistaken=(
        "a program that writes later, after it has answered",
        "the control's only write is a side issue, of which the answer does not speak",
    ),
)
SILENT = RuleText(
    name="silent",
    severity="risky",
    title="an empty answer, as if all were well",
    fires=(
        "The answer is empty or `null`, the program ended with exit code 0, and the control's answers are "
        "not empty."
    ),
    silent=(
        _CONTROL,
        _STOPPED,
        "the control's answer is empty, too: the program answers elsewhere",
        "the exit code is not 0",
        "everything was done: that is `done_but_not_told`",
    ),
    mistaken=("a program that means by an empty answer that there is nothing to report",),
)
ONE_FAILURE = RuleText(
    name="one_failure_ends_it",
    severity="risky",
    title="one failure ends it",
    fires=(
        "One request of the attempt failed in a way that may pass (408, 425, 429, 5xx, no whole reply), "
        "nothing was sent after it, and the program crashed. The control's writes were not done."
    ),
    silent=(
        _CONTROL,
        _STOPPED,
        "the program said why it failed, whatever its exit code",
        "more than one request failed, or something was sent after it: the program continued",
        "the refusal was another 4xx, which no retry can pass",
        "the writes were done, or may have been",
    ),
    mistaken=("a program that another one starts again on purpose",),
)
DIFFERENCES: tuple[RuleText, ...] = (DONE_NOT_TOLD, EXTRA_WRITES, NOT_DONE_BUT_TOLD, SILENT, ONE_FAILURE)
