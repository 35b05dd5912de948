"""An event stream of the model that was taken for whole although its end had not come."""

from __future__ import annotations

from collections.abc import Iterator

from wirefault.dialects.base import ModelDialect
from wirefault.dialects.http import split_events
from wirefault.dialects.json_values import as_text
from wirefault.dialects.registry import MODEL_DIALECTS
from wirefault.history.events import AttemptEnded, ModelCall
from wirefault.judging.findings.finding import Observation, Rule, span_in_words
from wirefault.judging.requests import EpisodeTrace, Request

_CUT_BY = frozenset({"stream_cut", "early_end"})
# A shorter piece of an answer may stand in another answer by chance.
_LEAST_TEXT = 12


def _observe(trace: EpisodeTrace) -> Iterator[Observation]:
    repeated = {id for group in trace.repeated for sent in group[:-1] for id in sent.ids}
    for sent in trace.requests:
        if not sent.of_model or sent.exchange is None or sent.ids[0] in repeated or not _has_no_end(sent):
            continue
        used = _use_by_record(trace, sent) or _use_by_answer(trace, sent)
        if used:
            how, ids = used
            text = f"the stream of {sent.name} ended without its finish reason, and {how}"
            yield Observation(text, (*sent.ids, *ids))


def _has_no_end(sent: Request) -> bool:
    """Whether the client got a stream that stopped in the midst, and stayed until then."""
    exchange = sent.exchange
    if exchange is None or exchange.client_left or exchange.status != 200:
        return False
    if any(met.injected and met.kind in _CUT_BY and not met.why_not for met in exchange.faults):
        return True
    dialect = MODEL_DIALECTS.get(exchange.dialect)
    body = exchange.reply_body or ""
    if dialect is None or exchange.reply_cut or not body.startswith(("data:", "event:")):
        return False
    kinds = {dialect.kind_of(event) for event in split_events(body.encode())}
    return not kinds & {"finish", "end"}


def _use_by_record(trace: EpisodeTrace, sent: Request) -> tuple[str, tuple[str, ...]] | None:
    """What a subject that keeps a record made of it: it saw no error, and called a tool or reported by it."""
    asked = sent.caller_record
    if not isinstance(asked, ModelCall) or asked.error is not None:
        return None
    made = [c for c in trace.calls if (c.event.attempt, c.event.reply) == (asked.attempt, asked.ordinal)]
    if made:
        return f"the call of {made[0].event.tool} in it was carried out", (made[0].id,)
    end = trace.end_of(asked.attempt)
    later = any(s.of_model and s.attempt == sent.attempt and s.start > sent.start for s in trace.requests)
    if end is None or later or end.event.ended_by not in ("report", "text"):
        return None
    return "was taken for the whole answer", (end.id,)


def _use_by_answer(trace: EpisodeTrace, sent: Request) -> tuple[str, tuple[str, ...]] | None:
    """The words of the stream stand in the subject's answer, and it did not ask the model again."""
    end = trace.end_of(sent.attempt)
    exchange = sent.exchange
    dialect = MODEL_DIALECTS.get(exchange.dialect) if exchange else None
    later = any(s.of_model and s.attempt == sent.attempt and s.start > sent.start for s in trace.requests)
    if exchange is None or sent.caller_record is not None or end is None or dialect is None or later:
        return None
    words = _words(dialect, exchange.reply_body or "")
    if exchange.reply_cut or len(words) < _LEAST_TEXT or words not in end.event.response:
        return None
    return "was taken for the whole answer", (end.id,)


def _words(dialect: ModelDialect, body: str) -> str:
    """The text that the stream brought; empty if it cannot be read."""
    try:
        return as_text(dialect.read_reply(dialect.collect(split_events(body.encode()))).text).strip()
    except ValueError:
        return ""


OPEN_STREAM = Rule(
    name="open_stream",
    severity="risky",
    title="a stream accepted without its end",
    fires=(
        "An event stream of the model stopped before its finish reason, the client stayed until then and did "
        "not ask again, and what had come was used: a tool call in it was carried out, or it became the "
        "answer. Of a subject that keeps no record, only an answer that holds the words of the stream counts."
    ),
    silent=(
        "the client left by itself: it had all that it wanted",
        "the client reported an error, or the same was asked again",
        "the history holds neither the stream's body nor the fault that cut it",
        "nothing shows that what had come was used",
    ),
    mistaken=("a server that never sends a finish reason and ends its streams by closing them",),
    observe=_observe,
)


# in seconds: a request that began shortly before the end had no time to reach a limit
_LEAST_WAIT = 5.0
_ABOUT_THE_END = 0.5


def _no_time_limit_observe(trace: EpisodeTrace) -> Iterator[Observation]:
    for end in trace.ends:
        if end.event.ended_by != "limit" or not _time_was_over(trace, end.event):
            continue
        for sent in trace.requests:
            if sent.attempt == end.event.attempt and _waited_to_the_end(sent, end.event):
                waited = end.event.end - sent.start
                text = (
                    f"{sent.name} had no answer for {span_in_words(waited)}, until the attempt's "
                    f"{end.event.ms / 1000:.0f} s were over: its client has no shorter time limit"
                )
                yield Observation(text, (*sent.ids, end.id))


def _time_was_over(trace: EpisodeTrace, end: AttemptEnded) -> bool:
    """Whether it was the time that ended the attempt, not the number of calls."""
    return trace.attempt_seconds > 0 and end.ms / 1000 >= trace.attempt_seconds - _ABOUT_THE_END


def _waited_to_the_end(sent: Request, end: AttemptEnded) -> bool:
    """Whether it was without any reply when the attempt ended; a caller that keeps a record has limits."""
    exchange = sent.exchange
    if exchange is None or sent.caller_record is not None or exchange.reply_bytes or exchange.reply_complete:
        return False
    return sent.end >= end.end - _ABOUT_THE_END and end.end - sent.start >= _LEAST_WAIT


NO_TIME_LIMIT = Rule(
    name="no_time_limit",
    severity="risky",
    title="no time limit: waited for a hang until the lab ended it",
    fires=(
        "The attempt's time was over while a request had been without a byte of an answer for 5 s or more, "
        "and its client was still there."
    ),
    silent=(
        "the client left before the attempt ended",
        "the attempt ended by itself, or by another limit",
        "a part of the reply had come: it is not known when the client left then",
        "the subject records its calls with their time limits, as the lab's own does",
    ),
    mistaken=(
        "a client whose time limit is longer than the attempt's (`ATTEMPT_TIME`)",
        "a request that nobody waits for: one in the background, or a long poll",
    ),
    observe=_no_time_limit_observe,
)
