"""A request sent again sooner than the server had asked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from wirefault.history.events import ToolTry
from wirefault.judging.findings.finding import Observation, Rule, span_in_words, times
from wirefault.judging.requests import EpisodeTrace, Request, SameKey

# Clocks differ, and clients round: what comes a tenth too early was meant to wait.
_ENOUGH = 0.9


def _observe(trace: EpisodeTrace) -> Iterator[Observation]:
    for group in trace.repeated:
        for first, again in pairwise(group):
            wanted = _wanted(first)
            waited = _waited(first, again)
            if wanted and waited is not None and 0 <= waited < _ENOUGH * wanted:
                text = (
                    f"{first.name} was sent again {span_in_words(waited)} after a {first.status} whose "
                    f"Retry-After asked for {wanted:g} s"
                )
                yield Observation(text, first.ids + again.ids)


def _wanted(sent: Request) -> float | None:
    """The seconds that the reply asked for; None if it did not, or did not reach the caller."""
    if sent.exchange is None or sent.status is None or sent.status < 300:
        return None
    return sent.exchange.retry_after


def _waited(first: Request, again: Request) -> float | None:
    """At most so many seconds, as the gateway saw it; None for what was sent by another's right.

    The caller has seen the reply later and sent the next earlier than that, so it waited no longer.
    """
    if first.exchange is None or again.exchange is None:
        return None
    if first.exchange.credential != again.exchange.credential:
        return None
    return again.exchange.start - (first.exchange.start + first.exchange.ms / 1000)


HASTY_RETRY = Rule(
    name="hasty_retry",
    severity="risky",
    title="Retry-After not respected",
    fires=(
        "A reply of 300 or more carried a Retry-After, the caller saw it, and the same request came to the "
        "gateway again before nine tenths of that time were over."
    ),
    silent=(
        "at least 90 % of the time was waited",
        "another request goes to the same server meanwhile: only the same one counts",
        "the next one has another credential",
        "it was under way before the reply came, or the reply was lost",
        "the Retry-After is a date, or not recorded",
    ),
    mistaken=("a server whose Retry-After is a standing phrase, and which takes the next request at once",),
    observe=_observe,
)


# of 4xx those of which RFC 9110 and its kin say nothing about another time; 408, 409, 421, 423, 424, 425 and
# 429 do
_OF_REQUEST = frozenset({400, 404, 405, 406, 410, 411, 413, 414, 415, 416, 417, 422, 428, 431, 451})
_OF_CREDENTIAL = frozenset({401, 402, 403})
# A thing that is not there yet may come: who reads it again is polling.
_MAY_COME = frozenset({404, 410})
# A model writes something else the next time, unless it is the request that was too long.
_OF_MODELS_WORDS = frozenset({400, 422})
_TOO_LONG = ("context_length", "context length", "too long", "token count")


def _useless_retry_observe(trace: EpisodeTrace) -> Iterator[Observation]:
    for group in trace.repeated:
        refused = [sent for sent in group if _is_final(sent)]
        if refused:
            repeated = list(_repetitions(trace, refused[0], group))
            if repeated and not _passed_by_itself(refused, repeated):
                yield _told(refused[0], repeated)


def _repetitions(trace: EpisodeTrace, refused: Request, group: Sequence[Request]) -> Iterator[Request]:
    """Those sent after the refusal, as long as nothing has changed since that could make one pass."""
    before = refused
    for again in group:
        if again is refused or again.start < refused.end:
            continue
        if _something_changed(trace, before, again) or not _same_credential(refused, again):
            return
        yield again
        before = again


def _is_final(sent: Request) -> bool:
    if sent.status in _OF_CREDENTIAL:
        return bool(sent.exchange and sent.exchange.dialect)  # else the history does not tell credentials
    if sent.status not in _OF_REQUEST:
        return False
    if sent.of_model and sent.status in _OF_MODELS_WORDS:
        body = (sent.exchange.reply_body if sent.exchange else None) or ""
        return "context_length" in sent.fault_kinds or any(words in body for words in _TOO_LONG)
    return sent.of_model or not (sent.is_read and sent.status in _MAY_COME)


def _something_changed(trace: EpisodeTrace, before: Request, again: Request) -> bool:
    """Whether another call may have changed the state since, in which the request was refused."""
    return any(
        sent.link_name == before.link_name
        and not sent.of_model
        and not sent.is_read
        and sent.same != before.same
        and sent.executed != "no"
        for sent in trace.between(before, again)
    )


def _same_credential(refused: Request, again: Request) -> bool:
    if refused.exchange is None or again.exchange is None:
        return refused.status not in _OF_CREDENTIAL
    return refused.exchange.credential == again.exchange.credential


def _passed_by_itself(refused: Sequence[Request], repeated: Sequence[Request]) -> bool:
    """Whether the upstream itself, not a fault, refused what it then took."""
    return any(sent.succeeded for sent in repeated) and not all(_is_of_fault(sent) for sent in refused)


def _is_of_fault(sent: Request) -> bool:
    faults = sent.exchange.faults if sent.exchange else []
    return any(met.injected and met.shows and met.shows.get("status") == sent.status for met in faults)


def _told(refused: Request, repeated: Sequence[Request]) -> Observation:
    text = f"{refused.name} was sent again {times(len(repeated))}, unchanged, after a {refused.status}"
    if any(sent.succeeded for sent in repeated):
        text += "; it passed since the lab had made the error: of a server, that status stays"
    else:
        text += "; none passed"
    return Observation(text, tuple(id for sent in (refused, *repeated) for id in sent.ids))


USELESS_RETRY = Rule(
    name="useless_retry",
    severity="wasteful",
    title="a 4xx retried that no retry can pass",
    fires=(
        "A request was refused with a 4xx which says that the request itself is at fault (400 to 406, 410, "
        "411, 413 to 417, 422, 428, 431, 451), and was sent again unchanged in the attempt, by whichever "
        "layer. Of a model's 400 and 422 only those that say that the request is too "
        "long count, since a model does not write the same again."
    ),
    silent=(
        "the status is 408, 409, 421, 423, 424, 425 or 429: another time may be better",
        "a GET of what is not there (404, 410) is repeated: it may be polling",
        "the credential is another one (401, 402, 403), or the history does not tell credentials",
        "another call that may change state was carried out on that link in between",
        "the repetition passed, and the refusal was the server's own",
        "it is not known whether the caller saw the refusal",
    ),
    mistaken=(
        "a right that is granted, or a thing that is made, by somebody else in between",
        "a header that the repetition has and the first had not: the history has no headers",
    ),
    observe=_useless_retry_observe,
)


def _layered_retries_observe(trace: EpisodeTrace) -> Iterator[Observation]:
    for group in trace.repeated:
        if any(sent.succeeded or sent.reply_lost is None for sent in group[:-1]):
            continue
        asked = _asked(trace, group)
        layers = [(who, count) for who, count in _counted(asked) if count > 1]
        if len(layers) > 1 and _multiplied(asked):
            up_to = "" if prod(count for _, count in layers) == len(group) else "up to "
            product = " x ".join(f"{up_to}{count} by {who}" for who, count in layers)
            failed = "until the last" if group[-1].succeeded else "each time"
            text = f"{group[0].name} was sent {len(group)} times and failed {failed}: {product}"
            yield Observation(text, tuple(id for sent in group for id in sent.ids))


def _asked(trace: EpisodeTrace, group: Sequence[Request]) -> list[list[list[Request]]]:
    """The requests as the model asked for them, in these as the framework did, in these the SDK's tries."""
    by_model = _split(group, lambda before, sent: _is_asked_anew(trace, before, sent))
    return [_split(tries, lambda _, sent: not _is_sdk_retry(sent)) for tries in by_model]


def _counted(asked: list[list[list[Request]]]) -> Iterator[tuple[str, int]]:
    """Each layer from the outermost, and how often at most it asked the next."""
    yield "the model", len(asked)
    yield "the framework", max(map(len, asked))
    yield "the SDK", max(len(tries) for by_framework in asked for tries in by_framework)


def _multiplied(asked: list[list[list[Request]]]) -> bool:
    """Whether an outer layer has made an inner one repeat itself at least twice."""
    repeated = [by_framework for by_framework in asked if sum(map(len, by_framework)) > 1]
    by_sdk = [tries for by_framework in asked for tries in by_framework if len(tries) > 1]
    return len(repeated) > 1 or len(by_sdk) > 1


def _split(group: Sequence[Request], is_new: Callable[[Request, Request], bool]) -> list[list[Request]]:
    """The group in pieces; ``is_new`` tells of a request and the one before it whether it begins a piece."""
    pieces: list[list[Request]] = []
    for place, sent in enumerate(group):
        if not place or is_new(group[place - 1], sent):
            pieces.append([])
        pieces[-1].append(sent)
    return pieces


def _is_asked_anew(trace: EpisodeTrace, before: Request, sent: Request) -> bool:
    """Whether the model has asked for it once more: by the caller's count, or since it was asked itself."""
    if sent.of_model:
        return False
    if isinstance(before.caller_record, ToolTry) and isinstance(sent.caller_record, ToolTry):
        return before.caller_record.call != sent.caller_record.call
    return any(other.of_model and other.succeeded for other in trace.between(before, sent))


def _is_sdk_retry(sent: Request) -> bool:
    return bool(sent.exchange and sent.exchange.sdk_retry)


LAYERED_RETRIES = Rule(
    name="layered_retries",
    severity="wasteful",
    title="retries multiplied by layers",
    fires=(
        "The same request failed and was sent again by at least two layers: by the SDK (it says so in a "
        "header), by the code around it (the same again without that), and by the model (it was asked in "
        "between, or the subject's own count of its calls says so)."
    ),
    silent=(
        "only one layer repeated it, or the inner one only once: a call that passed at the second asking",
        "one of the tries before the last had succeeded",
        "it is not known whether a reply reached the caller",
        "a model's requests differ, or the history does not hold their bodies",
    ),
    mistaken=("a model that was told to try again by the user or by the tool's own error",),
    observe=_layered_retries_observe,
)


_LEAST_ANSWERED = 3
_LEAST_FAILED = 4


@dataclass(frozen=True)
class _Asked:
    """A call that the subject asked for, however often it was tried. ``answer``: None if it failed."""

    name: str
    ids: tuple[str, ...]
    at: float
    answer: str | None


def _asked_again_observe(trace: EpisodeTrace) -> Iterator[Observation]:
    groups = _by_record(trace) if trace.calls else _by_wire(trace)
    for same, group in groups:
        answers = {asked.answer for asked in group}
        answered = answers != {None}
        often = len(group) >= (_LEAST_ANSWERED if answered else _LEAST_FAILED)
        if often and len(answers) == 1 and not _state_changed(trace, same, group):
            how = "each time with the same answer" if answered else "and failed each time"
            text = f"{group[0].name} was asked again {times(len(group) - 1)}, {how}"
            yield Observation(text, tuple(id for asked in group for id in asked.ids))


def _by_record(trace: EpisodeTrace) -> Iterator[tuple[SameKey, Sequence[_Asked]]]:
    """The calls that the model asked for, by the record of a subject that keeps one."""
    groups: defaultdict[SameKey, list[_Asked]] = defaultdict(list)
    for id, call in ((call.id, call.event) for call in trace.calls):
        answer = call.result if call.ok else None
        groups[call.attempt, call.link, call.fingerprint].append(_Asked(call.tool, (id,), call.t, answer))
    yield from groups.items()


def _by_wire(trace: EpisodeTrace) -> Iterator[tuple[SameKey, Sequence[_Asked]]]:
    """The requests between two of which the model was asked: what is tried again at once is a retry."""
    for group in trace.repeated:
        same = group[0].same
        if same is None or group[0].of_model or any(sent.reply_lost is None for sent in group):
            continue
        asks = [group[0]]
        for before, again in pairwise(group):
            if any(sent.of_model and sent.succeeded for sent in trace.between(before, again)):
                asks.append(again)
        yield same, [_Asked(sent.name, sent.ids, sent.start, _answer(sent)) for sent in asks]


def _answer(sent: Request) -> str | None:
    exchange = sent.exchange
    if not sent.succeeded or exchange is None:
        return None
    whole = exchange.reply_body is not None and not exchange.reply_cut
    return exchange.reply_body if whole else f"{exchange.status} and {exchange.reply_bytes} bytes"


def _state_changed(trace: EpisodeTrace, same: SameKey, group: Sequence[_Asked]) -> bool:
    """Whether another call on the link may have changed what the answers tell of."""
    return any(
        sent.is_write
        and sent.executed != "no"
        and (sent.attempt, sent.link_name) == same[:2]
        and sent.same != same
        and group[0].at <= sent.start <= group[-1].at
        for sent in trace.requests
    )


ASKED_AGAIN = Rule(
    name="asked_again",
    severity="wasteful",
    title="the same call asked n times again",
    fires=(
        "The same call, argument by argument, was asked for three times or more in an attempt and answered "
        "the same each time, or four times or more and failed each time. Retries of one call count once: of "
        "a subject that keeps no record, only what was sent after the model had been asked in between."
    ),
    silent=(
        "the answers differ: it was worth asking",
        "a write on the same link may have changed the answer",
        "the repetitions come without the model in between: retries, or polling by the tool",
        "it is asked in another attempt at the prompt",
    ),
    mistaken=(
        "a model that polls for something which does not come within the attempt",
        "without bodies in the history, answers of one length that differ",
    ),
    observe=_asked_again_observe,
)
