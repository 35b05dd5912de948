"""Rules about repeated requests: too early, useless, multiplied by layers, or without a new answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from wirefault.dialects.http import data_of
from wirefault.dialects.json_values import compact, parsed
from wirefault.dialects.mcp import INITIALIZE
from wirefault.dialects.stream_forms import recorded_events
from wirefault.judging.checker import Observation
from wirefault.judging.findings.finding import SENT_ANYWAY, Rule, span_in_words, times
from wirefault.judging.layers import BY_LAYER, LAYERS, Layer, layer_of
from wirefault.judging.requests import Request, SameKey, is_refused_model
from wirefault.judging.trace import EpisodeTrace

# Clocks differ and clients round, so a wait may be up to 10 % too short.
_ENOUGH = 0.9
_SECONDS_A_DAY = 86400


def kept_retry_after(trace: EpisodeTrace) -> tuple[int, int]:
    """Return how many requests that were refused with Retry-After were sent again, not too early; and of how
    many.
    """
    waits = list(_waits(trace))
    return sum(waited >= _ENOUGH * wanted for _, _, wanted, waited in waits), len(waits)


def _waits(trace: EpisodeTrace) -> Iterator[tuple[Request, Request, float, float]]:
    """Yield each refused request and the next one for the same, with the wanted and the actual wait in
    seconds.
    """
    for first, again in _next_for_the_same(trace):
        wanted, waited = _retry_after(first), _waited(first, again)
        if wanted and waited is not None and waited >= 0:
            yield first, again, wanted, waited


def _next_for_the_same(trace: EpisodeTrace) -> Iterator[tuple[Request, Request]]:
    """Yield each repeated request with the next one; a model's refusal with whatever it is asked next."""
    refused_models = set()
    for place, first in enumerate(trace.requests):
        if first.exchange is None or not is_refused_model(first.exchange):
            continue
        later = trace.requests[place + 1 :]
        again = next((r for r in later if trace.asks_model_again(first, r)), None)
        if again is not None:
            refused_models.add(first.ids)
            yield first, again
    for group in trace.repeated:
        yield from ((first, again) for first, again in pairwise(group) if first.ids not in refused_models)


def _hasty_retry(trace: EpisodeTrace) -> Iterator[Observation]:
    for first, again, wanted, waited in _waits(trace):
        if waited < _ENOUGH * wanted:
            span = f"{'of' if wanted < _SECONDS_A_DAY else 'in'} {span_in_words(wanted)}"
            # the caller's own record beside it has other times
            clock = ", by the gateway's clock" if again.caller_record is not None else ""
            text = (
                f"{first.name} was sent again after {span_in_words(waited)}, "
                f"before a Retry-After {span} ended ({first.status}{clock})"
            )
            yield Observation(text, first.ids + again.ids)


def _retry_after(request: Request) -> float | None:
    """Return the seconds of the reply's Retry-After; None without one, or if it did not reach the caller."""
    if request.exchange is None or request.status is None or request.status < 300:
        return None
    return request.exchange.retry_after


def _waited(first: Request, again: Request) -> float | None:
    """Return an upper bound of the wait in seconds; None if the credential differs.

    The caller saw the reply later and sent the next request earlier than that, so it waited no longer.
    """
    if first.exchange is None or again.exchange is None:
        return None
    if first.exchange.credential != again.exchange.credential:
        return None
    return again.exchange.start - (first.exchange.start + first.exchange.ms / 1000)


HASTY_RETRY = Rule(
    name="hasty_retry",
    headline="{agent} sent {call} again before Retry-After allowed it",
    severity="risky",
    title="Retry-After not respected",
    fires=(
        "A reply with status 300 or higher had a Retry-After header, the caller received it, and the same "
        "request reached the gateway again before 90 % of that time had passed. After a 429 or 503 of a "
        "model, any request for that model counts, whatever its prompt."
    ),
    silent=(
        "the caller waited for at least 90 % of the time",
        "another request went to the same server meanwhile: only the same request counts, or the same model",
        "the repetition has another credential",
        *SENT_ANYWAY,
        "the reply was lost",
        "the Retry-After is a date, or was not recorded",
    ),
    mistaken=(
        "a server that always sends the same Retry-After and accepts the next request at once",
        "equal requests of two threads, without a control, if the second thread connected only after the "
        "first request had failed",
    ),
    observe=_hasty_retry,
)


_STORM_REQUESTS = 5
_STORM_PAUSE_S, _STORM_INTERVAL_S = 0.1, 1.0
_OVERLOADED = frozenset({408, 429})


def _retry_storm(trace: EpisodeTrace) -> Iterator[Observation]:
    for group in trace.repeated:
        # one for all bursts: a busy machine's longer pause splits one
        burst = max(_bursts(group), key=len)
        if len(burst) >= _STORM_REQUESTS:
            pauses = [again.start - first.end for first, again in pairwise(burst)]
            text = (
                f"{burst[0].name} was sent {times(len(burst))} in a row after failures, with pauses of at"
                f" most {span_in_words(max(*pauses, 0.001))}"
            )
            yield Observation(text, tuple(id for request in burst for id in request.ids))


def _bursts(group: Sequence[Request]) -> Iterator[Sequence[Request]]:
    """Split the requests for the same into bursts: each was sent at once after the one before had failed."""
    burst: list[Request] = []
    for request in group:
        if burst and not (_may_recover(burst[-1]) and _is_at_once(burst[-1], request)):
            yield burst
            burst = []
        burst.append(request)
    yield burst


def _is_at_once(first: Request, again: Request) -> bool:
    in_time = 0 <= again.start - first.end < _STORM_PAUSE_S
    return in_time and again.start - first.start < _STORM_INTERVAL_S


def _may_recover(request: Request) -> bool:
    """Whether the caller got an error that passes when the server is left in peace."""
    status = request.status
    return request.reply_lost is True or (status is not None and (status >= 500 or status in _OVERLOADED))


RETRY_STORM = Rule(
    name="retry_storm",
    headline="{agent} sent {call} again and again, with hardly a pause",
    severity="risky",
    title="retries without a pause",
    fires=(
        f"The same request was sent at least {_STORM_REQUESTS} times in a row in an attempt, each within "
        f"{_STORM_PAUSE_S * 1000:.0f} ms of the failure before (408, 429, 5xx, no complete reply). Many "
        "clients that do this together keep an overloaded server down."
    ),
    silent=(
        "there was a longer pause before one of them, so that fewer came in a row",
        "each failed only after a second or more, as at a time limit: that is a pause, too",
        "the request was refused with another 4xx: `useless_retry` covers that",
        *SENT_ANYWAY,
        "it is unknown whether a reply reached the caller",
        "the requests differ: they may be for different things",
    ),
    mistaken=("a server that is known to recover within milliseconds",),
    observe=_retry_storm,
)


# The 4xx for which RFC 9110 and related RFCs do not suggest another try; they do for 408, 409, 421, 423, 424,
# 425 and 429.
_BAD_REQUEST = frozenset({400, 404, 405, 406, 410, 411, 413, 414, 415, 416, 417, 422, 428, 431, 451})
_BAD_CREDENTIAL = frozenset({401, 402, 403})
# The object may be created later: a client that reads it again is polling.
_MAY_APPEAR = frozenset({404, 410})
# The model's next output may be valid, unless the request is too long.
_MODEL_OUTPUT = frozenset({400, 422})
# These 429s do not pass after a wait. Gemini's RESOURCE_EXHAUSTED is also a rate limit, so it is not listed.
_QUOTA = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")
_TOO_LONG = ("context_length", "context length", "too long", "token count")


def _useless_retry(trace: EpisodeTrace) -> Iterator[Observation]:
    for group in trace.repeated:
        refused = [request for request in group if _is_final(request)]
        if refused:
            repeated = list(_repetitions(trace, refused[0], group))
            if repeated and not _passed_later(refused, repeated):
                yield _repeated_in_vain(refused[0], repeated)
    yield from _dead_sessions(trace)


def _dead_sessions(trace: EpisodeTrace) -> Iterator[Observation]:
    """Report other MCP calls in a session after the client saw that the server does not know the session."""
    sessions: defaultdict[tuple[int, str, str], list[Request]] = defaultdict(list)
    for request in trace.requests:
        if request.exchange is not None and request.exchange.session and request.exchange.tool:
            sessions[request.attempt, request.link_name, request.exchange.session].append(request)
    for calls in sessions.values():
        unknown = [call for call in calls if _is_unknown_session(call)]
        later = [
            call for call in unknown if call.same != unknown[0].same and trace.may_repeat(unknown[0], call)
        ]
        if later and unknown[-1] is calls[-1]:
            count = "another call was" if len(later) == 1 else f"{len(later)} other calls were"
            text = f"{unknown[0].name} got a {unknown[0].status} for its MCP session, and {count} sent in it"
            yield Observation(text, tuple(id for call in (unknown[0], *later) for id in call.ids))


def _is_unknown_session(call: Request) -> bool:
    if call.status not in (400, 404):
        return False
    body = (call.exchange.reply_body if call.exchange else None) or ""
    return "unknown_session" in call.fault_kinds or "session" in body.lower()


def _repetitions(trace: EpisodeTrace, refused: Request, group: Sequence[Request]) -> Iterator[Request]:
    """Yield the repetitions after the refusal, up to a change after which one might succeed."""
    before = refused
    for again in group:
        if again is refused or again.start < refused.end:
            continue
        if _state_may_have_changed(trace, before, again) or not _same_credential(refused, again):
            return
        yield again
        before = again


def _is_final(request: Request) -> bool:
    if request.status in _BAD_CREDENTIAL:
        return request.exchange is not None
    if request.status == 429:
        body = (request.exchange.reply_body if request.exchange else None) or ""
        return "quota" in request.fault_kinds or any(code in body for code in _QUOTA)
    if request.status not in _BAD_REQUEST:
        return False
    if request.of_model and request.status in _MODEL_OUTPUT:
        body = (request.exchange.reply_body if request.exchange else None) or ""
        return "context_length" in request.fault_kinds or any(words in body for words in _TOO_LONG)
    return request.of_model or not (request.is_read and request.status in _MAY_APPEAR)


def _state_may_have_changed(trace: EpisodeTrace, before: Request, again: Request) -> bool:
    """Whether another call may have changed the state in which the request was refused."""
    between = [r for r in trace.between(before, again) if r.link_name == before.link_name]
    return any(_message(request) == INITIALIZE for request in between) or any(
        not request.of_model
        and not request.is_read
        and request.same != before.same
        and request.executed != "no"
        for request in between
    )


def _message(request: Request) -> str:
    """The method of the MCP message; empty without one."""
    return request.exchange.message if request.exchange else ""


def _same_credential(refused: Request, again: Request) -> bool:
    if refused.exchange is None or again.exchange is None:
        return refused.status not in _BAD_CREDENTIAL
    return refused.exchange.credential == again.exchange.credential


def _passed_later(refused: Sequence[Request], repeated: Sequence[Request]) -> bool:
    """Whether the upstream itself, not a fault, refused the request and then accepted it."""
    return any(request.succeeded for request in repeated) and not all(map(_is_of_fault, refused))


def _is_of_fault(request: Request) -> bool:
    return any(fault.shows and fault.shows.get("status") == request.status for fault in request.injected)


def _repeated_in_vain(refused: Request, repeated: Sequence[Request]) -> Observation:
    text = f"{refused.name} was sent again {times(len(repeated))}, unchanged, after a {refused.status}"
    if any(request.succeeded for request in repeated):
        text += "; it succeeded only because the lab had injected the error: a server would refuse it again"
    else:
        text += "; none succeeded"
    return Observation(text, tuple(id for request in (refused, *repeated) for id in request.ids))


USELESS_RETRY = Rule(
    name="useless_retry",
    headline="{agent} repeated {call} after a refusal that no retry changes",
    severity="wasteful",
    title="a 4xx retried although no retry can succeed",
    fires=(
        "A request was refused with a 4xx which means that the request itself is wrong (400 to 406, 410, "
        "411, 413 to 417, 422, 428, 431, 451), and some layer sent it again unchanged in the attempt. A "
        "400 or 422 from a model counts only if it says that the request is too long, because the model's "
        "next output may be valid. A 429 counts if the quota is used up (`insufficient_quota`). The rule "
        "also fires if a server did not know the session of an MCP call, and other calls were sent in that "
        "session afterwards."
    ),
    silent=(
        "the status is 408, 409, 421, 423, 424, 425, or 429 for a rate limit: a later try may succeed",
        "a GET of something that does not exist (404, 410) is repeated: it may be polling",
        "the repetition has another credential (401, 402, 403), or the history has no credentials",
        "another call that may change state was executed on that link in between, or a new MCP session began",
        *SENT_ANYWAY,
        "the calls after an unknown session are of another session, or were sent before its error came",
        "the repetition succeeded, and no fault had caused the refusal",
        "it is unknown whether the caller saw the refusal",
    ),
    mistaken=(
        "another party grants the permission or creates the object in between",
        "the repetition has other headers: the history has no headers",
    ),
    observe=_useless_retry,
)


def _layered_retries(trace: EpisodeTrace) -> Iterator[Observation]:
    for group in trace.repeated:
        if any(request.succeeded or request.reply_lost is None for request in group[:-1]):
            continue
        repeated_by = [layer_of(trace, before, request) for before, request in pairwise(group)]
        layers = [(layer, count) for layer in LAYERS if (count := _most_pieces(repeated_by, layer)) > 1]
        if len(layers) > 1 and _multiplied(repeated_by):
            up_to = "" if prod(count for _, count in layers) == len(group) else "up to "
            product = " x ".join(f"{up_to}{count} {BY_LAYER[layer]}" for layer, count in layers)
            failed = "until the last" if group[-1].succeeded else "each time"
            text = f"{group[0].name} was sent {len(group)} times and failed {failed}: {product}"
            yield Observation(text, tuple(id for request in group for id in request.ids))


def _pieces(repeated_by: Sequence[Layer], layer: Layer) -> list[list[Layer]]:
    """The repetitions by inner layers, split at each repetition by that layer or an outer one."""
    outer = LAYERS[: LAYERS.index(layer) + 1]
    pieces: list[list[Layer]] = [[]]
    for by in repeated_by:
        if by in outer:
            pieces.append([])
        else:
            pieces[-1].append(by)
    return pieces


def _most_pieces(repeated_by: Sequence[Layer], layer: Layer) -> int:
    """The largest number of tries by that layer for one try of the next outer layer."""
    place = LAYERS.index(layer)
    wholes = _pieces(repeated_by, LAYERS[place - 1]) if place else [list(repeated_by)]
    return max(1 + whole.count(layer) for whole in wholes)


def _multiplied(repeated_by: Sequence[Layer]) -> bool:
    """Whether an inner layer repeated the request in at least two tries of an outer layer."""
    return any(sum(map(bool, _pieces(repeated_by, layer))) > 1 for layer in LAYERS[:-1])


LAYERED_RETRIES = Rule(
    name="layered_retries",
    headline="{agent} retried {call} in several layers at once",
    severity="wasteful",
    title="retries multiplied by layers",
    fires=(
        "The same request failed, and at least two layers sent it again, so their tries multiply. The SDK "
        "marks its retries in a header. The client sends the same request again without that mark. A "
        "repeated step is a model request without the SDK's mark, the requests before it, too, or the "
        "conversation from an earlier model request: the code or a framework repeats it. The model repeated "
        "the call if it was asked in between, or if the subject's own record counts it as another call."
    ),
    silent=(
        "only one layer repeated it, or the inner layer did so for only one try of the outer layer",
        "one of the tries before the last succeeded",
        "it is unknown whether a reply reached the caller",
        "the model requests differ, or the history does not have their bodies",
    ),
    mistaken=("the user, or the tool's error, asked the model to try again",),
    observe=_layered_retries,
)


_MIN_ANSWERED = 3
_MIN_FAILED = 4


@dataclass(frozen=True)
class _Call:
    """A call of the subject with all its tries."""

    name: str
    ids: tuple[str, ...]
    at: float
    answer: str | None  # None if it failed


def _asked_again(trace: EpisodeTrace) -> Iterator[Observation]:
    groups = _by_record(trace) if trace.calls else _by_wire(trace)
    for same, group in groups:
        answers = {call.answer for call in group}
        answered = answers != {None}
        often = len(group) >= (_MIN_ANSWERED if answered else _MIN_FAILED)
        if often and len(answers) == 1 and not _state_changed(trace, same, group):
            how = "with the same answer each time" if answered else "and failed each time"
            text = f"{group[0].name} was called again {times(len(group) - 1)}, {how}"
            headline = f"{{agent}} called {group[0].name} again and again"
            yield Observation(text, tuple(id for call in group for id in call.ids), headline=headline)


def _by_record(trace: EpisodeTrace) -> Iterator[tuple[SameKey, Sequence[_Call]]]:
    """Group the model's calls by the subject's own record."""
    groups: defaultdict[SameKey, list[_Call]] = defaultdict(list)
    for id, call in ((call.id, call.event) for call in trace.calls):
        answer = call.result if call.ok else None
        groups[call.attempt, call.link, call.fingerprint].append(_Call(call.tool, (id,), call.t, answer))
    yield from groups.items()


def _by_wire(trace: EpisodeTrace) -> Iterator[tuple[SameKey, Sequence[_Call]]]:
    """Group requests with a model request in between. Without one, a repetition is a retry."""
    for group in trace.equal:
        same = group[0].same
        if (
            len(group) < 2
            or same is None
            or group[0].of_model
            or any(request.reply_lost is None for request in group)
        ):
            continue
        if _message(group[0]) == INITIALIZE or _message(group[0]).startswith("notifications/"):
            continue  # each session begins with these
        calls = [group[0]]
        for before, again in pairwise(group):
            if any(request.of_model and request.succeeded for request in trace.between(before, again)):
                calls.append(again)
        yield same, [_Call(request.name, request.ids, request.start, _answer(request)) for request in calls]


def _answer(request: Request) -> str | None:
    exchange = request.exchange
    if not request.succeeded or exchange is None:
        return None
    if exchange.reply_body is None or exchange.reply_cut:
        return f"{exchange.status} and {exchange.reply_bytes} bytes"
    return _without_message_id(exchange.reply_body) if exchange.message else exchange.reply_body


def _without_message_id(body: str) -> str:
    """The messages of an MCP reply without the ids of requests and events."""
    texts = [data_of(event).decode(errors="replace") for event in recorded_events(body)] or [body]
    try:
        messages = [parsed(text) for text in texts if text.strip()]
    except ValueError:
        return body
    return compact([{**one, "id": None} if isinstance(one, dict) else one for one in messages])


def _state_changed(trace: EpisodeTrace, same: SameKey, group: Sequence[_Call]) -> bool:
    """Whether another call on the link may have changed the answer."""
    own = {id for call in group for id in call.ids}
    return any(
        request.is_write
        and own.isdisjoint(request.ids)
        and request.executed != "no"
        and (request.attempt, request.link_name) == same[:2]
        and request.same != same
        and group[0].at <= request.start <= group[-1].at
        for request in trace.requests
    )


ASKED_AGAIN = Rule(
    name="asked_again",
    headline="{agent} made the same call again and again",
    severity="wasteful",
    title="the same call made again and again",
    fires=(
        "The same call with the same arguments was made at least three times in an attempt with the same "
        "answer, or at least four times and failed each time. Retries of one call count once. If the "
        "subject does not record its calls, only requests with a model request in between count."
    ),
    silent=(
        "the answers differ: the call was worth making",
        "a write on the same link may have changed the answer",
        "the model was not asked between the repetitions: they are retries, or the tool polls",
        "the call is repeated in another attempt at the prompt",
        "the call is `initialize` or a notification of MCP: each session begins with these",
    ),
    mistaken=(
        "a model that polls for a change that does not happen within the attempt",
        "different answers of the same length, if the history has no bodies",
    ),
    observe=_asked_again,
)

SENT_AGAIN = frozenset(rule.name for rule in (HASTY_RETRY, RETRY_STORM, USELESS_RETRY))
"""The rules about a request that was sent again. What the control sends as often is not."""
