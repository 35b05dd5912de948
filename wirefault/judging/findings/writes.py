"""Rules about writes: repeated after a failure, or failed and reported as done."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from wirefault.dialects.sameness import without_call_ids
from wirefault.history.events import SubjectKilled
from wirefault.history.judged_events import Severity
from wirefault.judging.checker import Observation
from wirefault.judging.findings.finding import MAY_HAVE, SENT_ANYWAY, Rule, span_in_words, times
from wirefault.judging.layers import repeated_text
from wirefault.judging.on_replies import HeldBack
from wirefault.judging.oracle.episode import expected_world, oracle_of
from wirefault.judging.requests import Request
from wirefault.judging.trace import EpisodeTrace, Identified
from wirefault.judging.writes import Write, sent_at_once, writes_in

_CHANGES_NOTHING = ", and by HTTP's definition the second changes nothing more"
_MAKING = frozenset({"add", "create", "make", "new", "open", "place", "post", "send", "submit"})
_DONE: Mapping[str, str] = {
    "booking": "booked",
    "charge": "charged",
    "comment": "commented",
    "email": "sent an email",
    "event": "added an event",
    "invoice": "made an invoice",
    "message": "sent a message",
    "order": "ordered",
    "payment": "paid",
    "refund": "refunded",
    "reservation": "reserved",
    "ticket": "opened a ticket",
    "transfer": "transferred",
}
"""Verbs for writes, by their object; past tense and participle are the same word."""
_TOLERANCE_S = 0.005  # between the clocks of the caller and of the gateway
_MARGIN_S = 0.05  # of the gateway's time at the end of a reply
_STEP_S = 1.0  # within that time the requests of a step are sent


def _write_repeated(trace: EpisodeTrace) -> Iterator[Observation]:
    groups: defaultdict[tuple[int, str], list[Write]] = defaultdict(list)
    for write in writes_in(trace):
        groups[write.request.attempt, write.same].append(write)
    observations = [
        _once(group, observed)
        for group in groups.values()
        if (
            observed := [seen for place in range(1, len(group)) if (seen := _repetition(trace, group, place))]
        )
    ]
    if observations and not _all_asked_for(trace):
        yield from observations


def _all_asked_for(trace: EpisodeTrace) -> bool:
    """Whether the oracle names all writes, and each was executed the expected number of times."""
    oracle = oracle_of(trace)
    names_all = oracle is not None and oracle.names_all_writes
    return names_all and expected_world(trace, oracle).axis == "as_asked"


def done_in_words(name: str) -> str:
    """Say what a write did, in the past tense: by the last word of a POST's path, or of a tool's name."""
    method, _, path = name.partition(" ")
    *before, last = re.split(r"[^a-z]+", (path.rpartition("/")[2] if path else method).lower())
    is_plain = method == "POST" if path else bool(before) and before[0] in _MAKING
    done = _DONE.get(last.removesuffix("s")) if is_plain else None
    return done or f"made the same write, {name},"


def _once(group: Sequence[Write], observed: Sequence[Observation]) -> Observation:
    """One observation for all repetitions of a write."""
    worst = next((seen for seen in observed if seen.severity == "harmful"), observed[0])
    executed = sum(write.fate == "executed" for write in group)
    more = f"; it was executed {times(executed)} in total" if len(observed) > 1 and executed > 2 else ""
    is_planned = worst.severity != "note" and sent_at_once(group)
    severity = "risky" if is_planned else worst.severity
    may = MAY_HAVE if severity == "risky" else " "
    alike = {seen.evidence[0] for seen in observed if seen.headline == worst.headline}
    cause = worst.headline if len(alike) == 1 else _plural(worst.headline, len(alike))
    headline = f"{{agent}}{may}{done_in_words(group[0].name)} {times(max(executed, 2))} {cause}"
    if severity == "note":
        headline = f"{{agent}} repeated {group[0].name} {cause}, which changes nothing more"
    evidence = dict.fromkeys(id for seen in observed for id in seen.evidence)
    if is_planned:  # nothing on the wire tells a retry from one of these
        more += "; equal calls were in progress at the same time, so this one may be planned, too"
    return Observation(worst.text + more, tuple(evidence), severity, headline)


def _plural(cause: str, number: int) -> str:
    """The cause of several repetitions: ``after 2 lost replies``; unchanged if it has no number."""
    cause = re.sub(r"one (faulted |lost |slow )?reply", rf"{number} \1replies", cause)
    return re.sub(r"one (\d{3})$", rf"{number} replies with \1", cause)


def _repetition(trace: EpisodeTrace, group: Sequence[Write], place: int) -> Observation | None:
    previous, again = group[place - 1], group[place]
    if again.fate == "refused":
        return None
    for first_place in reversed(range(place)):
        first, following = group[first_place], group[first_place + 1]
        if first.fate == "refused":
            continue
        if _share_key(first, again):
            continue
        if not trace.may_repeat(first.seen, again.seen):
            step = None if again.repeatable else _failure_in_step(trace, first, again)
            if step is not None:
                return _after_failure(first, again, step, _by(trace, previous, again))
            if first is previous and _is_waiting(trace, first, again) and not again.repeatable:
                return _while_waiting(first, again)
            continue
        if _is_lost(first.seen):
            return _after_lost_reply(trace, first, again, _by(trace, previous, again))
        if (killed := _kill_between(trace, first, again)) and not again.repeatable:
            return _after_kill(first, again, killed)
        if first.fate == "maybe":
            continue  # the caller saw an error from the upstream
        if first is previous and (late := _held_back(trace, first, again)) and not again.repeatable:
            return _before_late_reply(first, again, late)
        # without a failure between these two, ``following`` is a second write and ``again`` is a try of it
        failure = _failure_between(trace, first, following)
        if failure is None and (lost := _unanswered(trace, group, place)) and not _share_key(lost, again):
            return _after_lost_reply(trace, lost, again, _by(trace, previous, again))
        if failure is None or (again.repeatable and failure is not first.seen):
            return None  # the caller knew that it was executed, and had another reason to repeat it
        lost = next((write for write in group if write.seen is failure and _is_lost(failure)), None)
        if lost is not None and not _share_key(lost, again):  # an equal write at the same time succeeded
            return _after_lost_reply(trace, lost, again, _by(trace, lost, again))
        return _after_failure(first, again, failure, _by(trace, previous, again))
    return None


def _unanswered(trace: EpisodeTrace, group: Sequence[Write], place: int) -> Write | None:
    """Find a write with a lost reply that the one at ``place`` may repeat, and none between these may."""
    for at in reversed(range(place)):
        lost = group[at].seen
        if group[at].fate != "refused" and _is_lost(lost) and trace.may_repeat(lost, group[place].seen):
            between = (write.seen for write in group[at + 1 : place])
            if not any(trace.may_repeat(lost, other) for other in between):
                return group[at]
    return None


def _share_key(first: Write, again: Write) -> bool:
    """Whether the upstream can recognize the repetition by its key, or the key is unknown."""
    keys = first.key, again.key
    return None in keys or (bool(keys[0]) and keys[0] == keys[1])


def _is_lost(request: Request) -> bool:
    return request.reply_lost is True and not request.succeeded


def _after_lost_reply(trace: EpisodeTrace, first: Write, again: Write, by: str) -> Observation | None:
    both = first.fate == again.fate == "executed"
    if not both and (first.repeatable or _looked(trace, first, again)):
        return None
    killed = next((each for each in trace.kills if _cuts(each.event, first, again)), None)
    because = ", because the subject was killed and resumed" if killed else by
    seen, lost = first.seen, loss_in_words(first.seen)
    if seen.client_gave_up and not killed:
        lost = f"the client had given up on it, {span_in_words(seen.end - seen.start)} after it was sent"
    after = f"was sent again {_gap(first, again)} after {lost}{because}"
    if seen.given_up is not None and not killed:
        after = f"was sent again {_since(first, again)} after the first, still without an answer{because}"
    done = "both were executed" if both else "it may have been executed twice"
    ids = (*_ids(first, again), *([killed.id] if killed else []))
    cause = "after one lost reply"
    if killed:
        cause = "after it was killed"
    elif seen.client_gave_up or seen.given_up is not None:
        cause = "after it gave up on one reply"
    elif _broke_off(seen):
        cause = "after one reply broke off"
    if first.repeatable:
        text = f"{first.name} {after}; {done}{_CHANGES_NOTHING}"
        return Observation(text, ids, "note", cause)
    severity: Severity = "harmful" if both else "risky"
    return Observation(f"{first.name} {after}; {done}, {_keys(again)}", ids, severity, cause)


def _after_failure(first: Write, again: Write, failure: Request, by: str) -> Observation:
    """Report a write that was sent again after an error, although its first execution had succeeded."""
    if failure is first.seen:
        after = f"was sent again {_gap(first, again)} after {_answer(failure)}, although it had been executed"
    else:
        succeeded = f"{_gap(first, again)} after it had succeeded"
        if again.seen.start < first.seen.end:
            succeeded = f"{_since(first, again)} after the first, before its answer"
        after = f"was sent again {succeeded}, because {_failed(failure)}"
    status = failure.status if failure.status and failure.status >= 400 else "faulted reply"
    cause = f"after one {status}" if failure is first.seen else f"after {failure.name} failed"
    done = "both were executed" if again.fate == "executed" else "it may have been executed twice"
    if again.repeatable:
        text = f"{first.name} {after}{by}; {done}{_CHANGES_NOTHING}"
        return Observation(text, _ids(first, again, failure), "note", cause)
    text = f"{first.name} {after}{by}; {done}, {_keys(again)}"
    severity: Severity = "harmful" if again.fate == "executed" else "risky"
    return Observation(text, _ids(first, again, failure), severity, cause)


def _cuts(killed: SubjectKilled, first: Write, again: Write) -> bool:
    """Whether the subject was killed while it waited for the first reply."""
    in_time = first.seen.start <= killed.t <= again.seen.start + _TOLERANCE_S
    return killed.dead and killed.attempt == first.seen.attempt and in_time


def _kill_between(trace: EpisodeTrace, first: Write, again: Write) -> Identified[SubjectKilled] | None:
    """Find a kill of the subject after the first execution, which may have made it forget.

    None if the first may not have been executed, or if a model saw its result in the resumed process.
    """
    if first.fate != "executed":
        return None
    for each in trace.kills:
        killed = each.event
        in_time = first.seen.end <= killed.t + _TOLERANCE_S and killed.t <= again.seen.start + _TOLERANCE_S
        if killed.dead and killed.attempt == first.seen.attempt and in_time:
            return None if _model_saw_result(trace, first, again, since=killed.t) else each
    return None


def _after_kill(first: Write, again: Write, killed: Identified[SubjectKilled]) -> Observation:
    """Report a write that the resumed subject sent again, although its first execution had succeeded."""
    after = f"was sent again {_gap(first, again)} after it had succeeded, because the subject was killed"
    done = "both were executed" if again.fate == "executed" else "it may have been executed twice"
    text = f"{first.name} {after} and resumed; {done}, {_keys(again)}"
    severity: Severity = "harmful" if again.fate == "executed" else "risky"
    return Observation(text, (*_ids(first, again), killed.id), severity, "after it was killed")


def _held_back(trace: EpisodeTrace, first: Write, again: Write) -> HeldBack | None:
    """Find the toxic that cannot have let the first reply through before the second was sent."""
    toxic = trace.on_replies.longest_delay(first.seen) if first.seen.reply_lost is None else None
    return toxic if toxic is not None and again.seen.start + _MARGIN_S < toxic.until else None


def _before_late_reply(first: Write, again: Write, toxic: HeldBack) -> Observation:
    """Report a write that was sent again while a toxic held its reply back: retried, or planned twice."""
    late = f"before a {toxic.kind} of {span_in_words(toxic.delay_s)} let its reply through"
    done = "both were executed" if again.fate == "executed" else "it may have been executed twice"
    text = f"{first.name} was sent again {_gap(first, again)} after it, {late}; {done}, {_keys(again)}"
    return Observation(text, _ids(first, again), "risky", "before one slow reply")


def _is_waiting(trace: EpisodeTrace, first: Write, again: Write) -> bool:
    """Whether the caller had no reply to the first, which a toxic delays, for so long that it was retried."""
    waited_s, exchange = again.seen.start - first.seen.start, first.seen.exchange
    on_its_way = exchange is not None and (exchange.request_ms or 0) / 1000 > waited_s
    late = on_its_way or first.seen.reply_lost is True
    return trace.under_toxic(first.seen) and late and waited_s >= _STEP_S


def _while_waiting(first: Write, again: Write) -> Observation:
    """Report a write that was sent again while a toxic held the first request or its reply back."""
    both = first.fate == again.fate == "executed"
    done = "both were executed" if both else "it may have been executed twice"
    late = f"{_since(first, again)} after the first, before a toxic let a whole reply through"
    text = f"{first.name} was sent again {late}; {done}, {_keys(again)}"
    return Observation(text, _ids(first, again), "risky", "before one slow reply")


def _by(trace: EpisodeTrace, before: Write, again: Write) -> str:
    """Say who sent the write again, after the request for it before; empty if that is unknown."""
    by = repeated_text(trace, [(before.seen, again.seen)])
    return f", {by.partition(',')[0]}" if by else ""


def _gap(first: Write, again: Write) -> str:
    return span_in_words(again.seen.start - first.seen.end)


def _since(first: Write, again: Write) -> str:
    return span_in_words(again.seen.start - first.seen.start)


def _keys(again: Write) -> str:
    return "with another Idempotency-Key" if again.key else "with no Idempotency-Key"


def _ids(first: Write, again: Write, *others: Request) -> tuple[str, ...]:
    requests = [first.seen, first.request, *others, again.seen, again.request]
    return tuple(dict.fromkeys(id for request in requests for id in request.ids))


def loss_in_words(request: Request) -> str:
    """Say what the caller got of a reply that was not complete."""
    return "its reply broke off" if _broke_off(request) else "its reply was lost"


def _broke_off(request: Request) -> bool:
    exchange = request.exchange
    return exchange is not None and not exchange.reply_complete and exchange.reply_bytes > 0


def _answer(failure: Request) -> str:
    """Name the complete reply that made the caller repeat its request: by its status, or the fault in it."""
    if failure.status is None:
        return "a reply that may have been lost"
    if failure.status >= 400:
        return f"a {failure.status}"
    kinds = dict.fromkeys(fault.kind for fault in failure.injected if not fault.delay_ms)
    return f"a faulted {failure.status} ({', '.join(kinds)})"


def _failed(request: Request) -> str:
    if _broke_off(request):
        return f"the reply to {request.name} broke off"
    if request.reply_lost is not False:
        return f"{request.name} had no reply"
    if request.status and request.status >= 400:
        return f"{request.name} failed with {request.status}"
    return f"{request.name} answered with an error" if request.failed else f"{request.name} was faulted"


def _looked(trace: EpisodeTrace, first: Write, again: Write) -> bool:
    """Whether a read on that link succeeded before the caller repeated the write."""
    return any(
        request.is_read and request.succeeded and request.link_name == first.seen.link_name
        for request in trace.between(first.seen, again.seen)
    )


def _failure_between(trace: EpisodeTrace, first: Write, again: Write) -> Request | None:
    """Find a failure that the caller saw after it had sent the first and before it sent the second.

    None if the first may not have been executed, or if a model saw its result before the second.
    """
    if first.fate != "executed" or _model_saw_result(trace, first, again):
        return None
    inner = first.request is not first.seen or again.request is not again.seen
    for request in trace.requests:
        if request.attempt != first.seen.attempt or request in (again.seen, again.request):
            continue
        if inner and request is first.request:
            continue
        in_time = first.seen.start <= request.end and trace.may_repeat(request, again.seen)
        if in_time and request.start <= again.seen.start and _has_failed(request):
            return request
    return None


def _failure_in_step(trace: EpisodeTrace, first: Write, again: Write) -> Request | None:
    """Find a request of a parallel step that failed while the first waited, so that all are sent again."""
    if first.fate != "executed" or _model_saw_result(trace, first, again):
        return None
    for row in trace.repeated:
        for failure, retry in pairwise(row):
            together = abs(retry.start - again.seen.start) < _STEP_S
            if together and failure.attempt == first.seen.attempt and failure.same != again.seen.same:
                in_time = first.seen.start <= failure.end <= again.seen.start and _has_failed(failure)
                if in_time and trace.may_repeat(failure, again.seen):
                    return failure
    return None


def _has_failed(request: Request) -> bool:
    return request.failed is True or any(not fault.delay_ms for fault in request.injected)


def _model_saw_result(trace: EpisodeTrace, first: Write, again: Write, since: float = 0.0) -> bool:
    """Whether a model replied in between, ``since`` that time, to a new request.

    A retried step repeats its earlier model requests: these do not have the result of the first execution.
    """
    models = [r for r in trace.requests if r.of_model and r.attempt == first.seen.attempt]
    before = {body for r in models if r.start < first.seen.start and (body := _conversation(r))}
    return any(
        max(first.seen.start, since) <= request.start <= again.seen.start
        and request.succeeded
        and _conversation(request) not in before
        for request in models
    )


def _conversation(request: Request) -> str:
    """The body of the model request; empty if the history does not have all of it."""
    exchange = request.exchange
    if exchange is None or exchange.request_cut or not exchange.request_body:
        return ""
    return without_call_ids(exchange.request_body)


WRITE_REPEATED = Rule(
    name="write_repeated",
    headline="{agent} repeated a write, {call}, after a failure",
    severity="harmful",
    title="a write repeated after a failure",
    fires=(
        "A call that changes state was sent, and the same call was sent again in the attempt, without a "
        "key by which the upstream could recognize the repetition. Either the first reply did not reach the "
        "caller, or the first was executed, and the caller got an error for it or another request failed "
        "before the repetition. A reply counts as lost, too, if the same call came at least 1 s later while "
        "the first was still without an answer, over stdio, or over HTTP where a fault kept it back: not "
        "every client closes what it has given up on. The finding is `harmful` if both were executed, "
        "`risky` if one of them may "
        "not have been or equal calls were in progress at the same time, so that it may be planned (also if "
        "it was sent again before a toxic's latency can have let the first reply through; where a control "
        "shows that it was not, it is `harmful`), and a "
        "`note` for PUT and DELETE, which HTTP allows to be repeated (nothing if only "
        "another request failed). Two calls are the same if they have the same method, path and body, apart "
        "from generated "
        "ids, timestamps and idempotency fields. A request was executed if the upstream answered 2xx, 301, "
        "302 or 303 (an MCP tool: with a result); without an answer, the lab's own services show it. Rows "
        "from a probe of the world count more than the answers."
    ),
    silent=(
        "both have the same Idempotency-Key (or X-Idempotency-Key), or the same value in the field that the "
        "wiring names or, without either, in a field of the body or of a tool's arguments whose name means "
        "such a key (`idempotency_key`, `client_token`, `dedup_id`), as public APIs take it: only an oracle "
        "shows that a server ignores it",
        "the first call or the repetition was not forwarded, or was refused (4xx, a 307 or 308 redirect; an "
        "MCP tool: an error)",
        "the first reply reached the caller and nothing failed after it",
        "it is unknown whether the first reply reached the caller: a toxic that may cut replies was armed, "
        "and the subject does not record its calls; `latency`, `bandwidth` and `slicer` show it if they take "
        "longer for the reply than the pause, and so does an intercepted connection that got less than all",
        "a model saw the first result and replied in between: it may have decided to repeat the write",
        "the reply was lost, a read on that link succeeded in between, and one of the two may not have been "
        "executed",
        "the second call followed no failure: the third is a retry of the second",
        "a probe of the world shows one row with the contents, not two",
        "the oracle names all writes, and each was executed the expected number of times",
        *SENT_ANYWAY,
        "in an experiment: the control executes it as often without a failure",
        "it was repeated in another attempt at the prompt: the runner started that attempt",
        "it is a GraphQL query, a JSON-RPC method that only reads, a token endpoint or telemetry",
        "its name is the name of a read (`/search`, `get_price`), and the wiring does not declare it as a "
        "write",
        "an MCP link and the service behind it, or a function and a write that it sends, both show the call: "
        "it counts once",
    ),
    mistaken=(
        "an upstream that recognizes repetitions in another way: by a natural key or a unique constraint",
        "a POST that changes nothing, on a link for which the wiring does not say which calls are writes",
        "a subject that writes the same twice on purpose, with a failure in between, and has no control",
    ),
    observe=_write_repeated,
)
