"""The same call asked again and again, although its answer does not change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from wirefault.judging.findings.finding import Observation, Rule
from wirefault.judging.findings.sent import SameKey, Sent, times
from wirefault.judging.findings.trace import EpisodeTrace

_LEAST_ANSWERED = 3
_LEAST_FAILED = 4


@dataclass(frozen=True)
class _Asked:
    """A call that the subject asked for, however often it was tried. ``answer``: None if it failed."""

    name: str
    ids: tuple[str, ...]
    at: float
    answer: str | None


def _observe(trace: EpisodeTrace) -> Iterator[Observation]:
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


def _answer(sent: Sent) -> str | None:
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
        for sent in trace.sent
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
    observe=_observe,
)
