"""An episode's verdict about a test: passed, failed, unknown, or a fault that was not drawn. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from wirefault.core.sockets import is_this_machine
from wirefault.dialects.registry import is_model_api
from wirefault.history.events import ConnectionEnded, Event, Exchange
from wirefault.history.judged_events import Finding
from wirefault.judging.account import FaultAccount
from wirefault.judging.checker import CheckResult
from wirefault.judging.ending import fails
from wirefault.judging.oracle.outcome import OUTCOMES
from wirefault.judging.summary import Summary
from wirefault.pytest_plugin.mark import Mark
from wirefault.wiring.links import LAB, SCRIPTED, STDIO, Link, is_model_host

Kind = Literal["passed", "failed", "unknown", "not drawn", "paid"]
BAD_TONES = ("harmful", "ended", "failed")


@dataclass(frozen=True)
class TestVerdict:
    """The verdict of one episode, with its reasons as sentences."""

    kind: Kind
    reasons: tuple[str, ...]
    findings: tuple[Finding, ...]
    """The findings that fail the test."""
    faults: tuple[FaultAccount, ...]


def judge_test(
    mark: Mark,
    summary: Summary,
    events: Sequence[Event],
    failure: str = "",
    *,
    repeated: bool = False,
    checked: Sequence[CheckResult] = (),
) -> TestVerdict:
    """Judge a test whose body passed.

    ``failure``: why the lab failed; empty if it did not. ``repeated``: the test has other repetitions, in
    which the fault may have been drawn. ``checked``: the results of the mark's checks.
    """

    def verdict(kind: Kind, *reasons: str, findings: Sequence[Finding] = ()) -> TestVerdict:
        return TestVerdict(kind, reasons, tuple(findings), tuple(summary.faults))

    if failure:
        return verdict("unknown", failure)
    if host := paid_host(events):
        return verdict("paid", f"it calls {host}, which costs money")
    invalid = [episode.why for episode in summary.episodes if episode.outcome == "invalid"]
    if invalid:
        return verdict("unknown", *invalid)
    names = {finding.rule for finding in summary.findings}
    if unexpected := grave_findings(mark, summary):
        sentences = [f"{each.rule} ({each.severity}): {each.text}" for each in unexpected]
        return verdict("failed", *sentences, findings=unexpected)
    named = (*mark.expect, *mark.allow)
    if bad := [
        each
        for each in summary.episodes
        if OUTCOMES[each.outcome].tone in BAD_TONES and each.outcome not in named
    ]:
        return verdict("failed", *(f"{each.outcome}: {each.why}".removesuffix(": ") for each in bad))
    if deviating := [result for result in checked if result.applies and result.passed is False]:
        return verdict("failed", *map(_sentence, deviating))
    if missing := _missing(mark, summary.faults):
        kind: Kind = "not drawn" if repeated and _only_undrawn(missing) else "unknown"
        return verdict(kind, *map(_why, missing), *_past_lab(summary))
    if absent := [rule for rule in mark.expect if rule not in names]:
        return verdict("failed", *(f"the finding {rule} was expected, and did not occur" for rule in absent))
    if open_checks := [result for result in checked if result.passed is None]:
        return verdict("unknown", *map(_sentence, open_checks))
    return verdict("passed")


def grave_findings(mark: Mark, summary: Summary) -> list[Finding]:
    """The findings that fail a test: harmful or risky, and not among those of the mark."""
    grave = [finding for finding in summary.findings if fails(finding.severity)]
    return [finding for finding in grave if finding.rule not in (*mark.expect, *mark.allow)]


def _past_lab(summary: Summary) -> list[str]:
    """The connections that no fault could act on, as sentences."""
    return list(dict.fromkeys(past.sentence for past in summary.went_past))


def _sentence(result: CheckResult) -> str:
    """A check that did not pass, in words."""
    parts = [result.measured, f"expected: {result.expected}" if result.expected else "", result.message]
    return f"{result.name}: {'; '.join(filter(None, parts)) or 'not fulfilled'}"


def paid_host(events: Sequence[Event]) -> str:
    """The model provider that the test called although money was not allowed; empty for none."""
    for event in events:
        if isinstance(event, ConnectionEnded) and event.why and not event.link and is_model_host(event.host):
            return event.host
    return ""


def paid_models(links: Iterable[Link]) -> list[str]:
    """The named links to models beyond this machine."""
    remote = (link for link in links if link.upstream not in (LAB, SCRIPTED, STDIO))
    return [
        link.name
        for link in remote
        if (is_model_api(link.dialect) or is_model_host(urlsplit(link.upstream).hostname or ""))
        and not is_this_machine(urlsplit(link.upstream).hostname or "")
    ]


def _missing(mark: Mark, rows: Sequence[FaultAccount]) -> list[FaultAccount]:
    """The faults that had to arrive and did not, or may not have."""
    if not mark.faults:
        return []
    late = [row for row in rows if row.source in ("fault", "toxic") and not row.injected]
    return late if mark.each_must_arrive or len(late) == len(rows) else []


def _only_undrawn(rows: Sequence[FaultAccount]) -> bool:
    """Whether chance alone kept the faults away."""
    return all(row.eligible and row.always_on is None and not row.drawn for row in rows)


def _why(row: FaultAccount) -> str:
    reasons = ", ".join(reason.replace("_", " ") for reason in row.why_not)
    if row.injected is None:
        return f"unknown whether the fault {row.label} arrived" + (f" ({reasons})" if reasons else "")
    if not row.eligible:
        return f"the fault {row.label} never arrived: no call of the test was eligible for it"
    if not row.drawn:
        return f"the fault {row.label} never arrived: it was not drawn for any of {row.eligible} calls"
    return f"the fault {row.label} never arrived" + (f": {reasons}" if reasons else "")


_REPETITION = re.compile(r"\[(?:(.*)-)?repeat(\d+)\]$")


def without_repetition(nodeid: str) -> tuple[str, int]:
    """The id of the test, and the number of the repetition; 0 for a test without repetitions."""
    repetition = _REPETITION.search(nodeid)
    if repetition is None:
        return nodeid, 0
    others = f"[{repetition[1]}]" if repetition[1] else ""
    return nodeid[: repetition.start()] + others, int(repetition[2])


def calls_seen(events: Sequence[Event]) -> int:
    """The number of requests that crossed the lab."""
    return sum(isinstance(event, Exchange) for event in events)


_BY_PORT = re.compile(r"port_\d+$")


def links_named_by_port(events: Sequence[Event]) -> list[str]:
    """The links with requests that were found at a port of this machine: draws depend on their names."""
    names = dict.fromkeys(event.link for event in events if isinstance(event, Exchange))
    return [name for name in names if _BY_PORT.match(name)]
