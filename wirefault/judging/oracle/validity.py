"""Determine whether an episode is valid, and who failed if it is not. Pure.

An episode is invalid if the lab, the model or a tool's server failed without a fault of the lab. The lab
failed if it could not open a link for a connection, or if the world could not be reset or read
(``oracle_failed``).

The gateway marks the failures of an upstream (``Exchange.unavailable``). Such a failure does not count

- if a toxic was armed on that link and the request had reached the upstream: the toxic may be the cause;
- if the subject recovered: a later try or call for the same was answered, in this attempt or in a later one,
  or a fallback past the gateway was. This looks only at the call, never at the end of the episode, so the
  rate is not biased.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from wirefault.dialects.outages import CASSETTE_MISS, SCRIPTED_FAILED
from wirefault.history.events import (
    AttemptHealed,
    Exchange,
    InterceptionFailed,
    ToolTry,
    WorldProbed,
)
from wirefault.judging.trace import EpisodeTrace

_MODEL_FAILED = "model_unavailable: "
_UPSTREAM_FAILED = "upstream_unavailable: "


def invalid_because(trace: EpisodeTrace, attempts: Collection[int]) -> str:
    """Why the episode with these attempts is invalid; empty if it is valid."""
    reasons = [reason for attempt in attempts for reason in _lab_failures(trace, attempt)]
    if not attempts:
        reasons.append("no attempt was made")
    reasons += [ended.not_intercepted for ended in trace.connections if ended.lab_failed]
    not_intercepted = _not_intercepted(trace)
    reasons += [f"interception_failed: {failed.text}" for failed in not_intercepted]
    reasons += [f"oracle_failed: {probe.error}" for probe in trace.all(WorldProbed) if probe.error]
    links = {failed.link for failed in not_intercepted}
    reasons += [_upstream_failure(failed) for failed in _unanswered(trace) if failed.link not in links]
    return "; ".join(dict.fromkeys(reasons))


def who_failed(reasons: Iterable[str]) -> str:
    """The party that made episodes invalid for these reasons: ``the model``, ``a server`` or ``the lab``."""
    parts = [part for reason in reasons for part in reason.split("; ")]
    if all(part.startswith(_MODEL_FAILED) for part in parts):
        return "the model"
    of_servers = (_MODEL_FAILED, _UPSTREAM_FAILED)
    return "a server" if any(part.startswith(of_servers) for part in parts) else "the lab"


def _lab_failures(trace: EpisodeTrace, attempt: int) -> list[str]:
    healed = [event for event in trace.all(AttemptHealed) if event.attempt == attempt]
    if healed and healed[-1].invalid:
        return [healed[-1].invalid]
    if not healed or trace.end_of(attempt) is None:
        return [f"attempt {attempt} has no end in the history"]
    return []


def _unanswered(trace: EpisodeTrace) -> list[Exchange]:
    """The exchanges that failed without a fault of the lab, and from which the subject did not recover."""
    answered = [exchange for exchange in trace.exchanges if _is_answer(exchange)]
    direct = [e for e in trace.all(ToolTry) if e.route == "direct" and e.error is None]
    return [
        failed
        for failed in trace.exchanges
        if failed.unavailable
        and not (failed.forwarded and (failed.attempt, failed.link) in trace.toxic_links)
        and not any(later.start > failed.start and _same_call(failed, later) for later in answered)
        and not any(later.end > failed.start and _same_call(failed, later) for later in direct)
    ]


def _not_intercepted(trace: EpisodeTrace) -> list[InterceptionFailed]:
    """The failed interceptions of an episode whose links had no later answer.

    A client that closes the connection silently may have another reason: a toxic, or a connection that it
    did not need, if it sends requests over TLS on the same link.
    """
    answered = [exchange for exchange in trace.exchanges if exchange.error is None]
    trusting = {exchange.link for exchange in trace.exchanges if exchange.tls}
    return [
        failed
        for failed in trace.all(InterceptionFailed)
        if not any(later.link == failed.link and later.start > failed.t for later in answered)
        and not (
            failed.why == "closed_at_certificate"
            and (failed.link in trusting or (failed.attempt, failed.link) in trace.toxic_links)
        )
    ]


def _is_answer(exchange: Exchange) -> bool:
    good = exchange.status is not None and exchange.status < 400
    return good and exchange.reply_complete and not exchange.unavailable


def _same_call(failed: Exchange, later: Exchange | ToolTry) -> bool:
    """Compare tool calls by fingerprint, model calls by link: any model answer resumes the conversation."""
    return failed.link == later.link and (failed.of_model or failed.fingerprint == later.fingerprint)


def _upstream_failure(failed: Exchange) -> str:
    refused = failed.forwarded and failed.status is not None and failed.status >= 400
    why = failed.outage or (f"it answered {failed.status}" if refused else failed.error)
    if failed.outage.startswith(SCRIPTED_FAILED):
        return failed.outage
    if failed.error and failed.error.startswith(CASSETTE_MISS):
        return f"cassette: {failed.error}"
    if failed.of_model:
        return f"{_MODEL_FAILED}{why}"
    return f"{_UPSTREAM_FAILED}{failed.link}: {why}"
