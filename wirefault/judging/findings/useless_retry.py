"""A request sent again unchanged after a refusal that says that the request itself is at fault."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wirefault.judging.findings.finding import Observation, Rule
from wirefault.judging.findings.sent import Sent, times
from wirefault.judging.findings.trace import EpisodeTrace

# of 4xx those of which RFC 9110 and its kin say nothing about another time; 408, 409, 421, 423, 424, 425 and
# 429 do
_OF_REQUEST = frozenset({400, 404, 405, 406, 410, 411, 413, 414, 415, 416, 417, 422, 428, 431, 451})
_OF_CREDENTIAL = frozenset({401, 402, 403})
# A thing that is not there yet may come: who reads it again is polling.
_MAY_COME = frozenset({404, 410})
# A model writes something else the next time, unless it is the request that was too long.
_OF_MODELS_WORDS = frozenset({400, 422})
_TOO_LONG = ("context_length", "context length", "too long", "token count")


def _observe(trace: EpisodeTrace) -> Iterator[Observation]:
    for group in trace.repeated:
        refused = [sent for sent in group if _is_final(sent)]
        if refused:
            repeated = list(_repetitions(trace, refused[0], group))
            if repeated and not _passed_by_itself(refused, repeated):
                yield _told(refused[0], repeated)


def _repetitions(trace: EpisodeTrace, refused: Sent, group: Sequence[Sent]) -> Iterator[Sent]:
    """Those sent after the refusal, as long as nothing has changed since that could make one pass."""
    before = refused
    for again in group:
        if again is refused or again.start < refused.end:
            continue
        if _something_changed(trace, before, again) or not _same_credential(refused, again):
            return
        yield again
        before = again


def _is_final(sent: Sent) -> bool:
    if sent.status in _OF_CREDENTIAL:
        return bool(sent.exchange and sent.exchange.dialect)  # else the history does not tell credentials
    if sent.status not in _OF_REQUEST:
        return False
    if sent.of_model and sent.status in _OF_MODELS_WORDS:
        body = (sent.exchange.reply_body if sent.exchange else None) or ""
        return "context_length" in sent.faults or any(words in body for words in _TOO_LONG)
    return sent.of_model or not (sent.is_read and sent.status in _MAY_COME)


def _something_changed(trace: EpisodeTrace, before: Sent, again: Sent) -> bool:
    """Whether another call may have changed the state since, in which the request was refused."""
    return any(
        sent.link_name == before.link_name
        and not sent.of_model
        and not sent.is_read
        and sent.same != before.same
        and sent.executed != "no"
        for sent in trace.between(before, again)
    )


def _same_credential(refused: Sent, again: Sent) -> bool:
    if refused.exchange is None or again.exchange is None:
        return refused.status not in _OF_CREDENTIAL
    return refused.exchange.credential == again.exchange.credential


def _passed_by_itself(refused: Sequence[Sent], repeated: Sequence[Sent]) -> bool:
    """Whether the upstream itself, not a fault, refused what it then took."""
    return any(sent.succeeded for sent in repeated) and not all(_is_of_fault(sent) for sent in refused)


def _is_of_fault(sent: Sent) -> bool:
    faults = sent.exchange.faults if sent.exchange else []
    return any(met.injected and met.shows and met.shows.get("status") == sent.status for met in faults)


def _told(refused: Sent, repeated: Sequence[Sent]) -> Observation:
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
    observe=_observe,
)
