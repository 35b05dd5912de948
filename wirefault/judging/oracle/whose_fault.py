"""What makes an episode invalid: that the lab, the model or a tool's server failed by itself. Pure.

A connection that the lab could not carry, since no link could be opened for it, is the lab's failure; a
world that could not be reset or read (``oracle_failed``) is the lab's failure, too.

The gateway marks what an upstream did by itself (``Exchange.unavailable``). It does not count

- where a toxic was armed on that link and the request had reached the upstream: it may be the cause;
- where the subject got past it: a later try or call for the same was answered, in this attempt or in a
  further one, or a fallback past the gateway was. (That the rate is not biased, this is a matter of the one
  call, never of how the episode ended.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wirefault.history.events import (
    AttemptArmed,
    AttemptEnded,
    AttemptHealed,
    ConnectionEnded,
    Event,
    Exchange,
    ToolTry,
    WorldProbed,
)


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
