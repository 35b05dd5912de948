"""Assertions on how the subject reacts to failures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from wirefault.core.errors import nearest
from wirefault.experiments.assertions.assertion import Assertion
from wirefault.experiments.episode_view import EpisodeView, NothingToJudge, NotRecorded
from wirefault.experiments.expression import Duration
from wirefault.experiments.outages import outages_of
from wirefault.history.events import ToolTry
from wirefault.judging.checker import Checker, CheckResult, Observation
from wirefault.judging.findings.retries import HASTY_RETRY
from wirefault.judging.findings.rules import RULES
from wirefault.judging.requests import Request
from wirefault.judging.trace import EpisodeTrace

_RULES: Mapping[str, Checker[EpisodeTrace]] = {rule.name: rule for rule in RULES}


class RecoveredAfterFailure(Assertion):
    """Each failed request was repeated later and worked."""

    name = "recovered_after_failure"
    needs = "a failure, the contents of the requests, and whether their replies reached the subject"
    link_keys = ("link",)

    link: str = Field("", description="only requests on this link")

    @property
    def expected(self) -> str:
        return "each failure followed by a success"

    def check(self, view: EpisodeView) -> CheckResult:
        outages = outages_of(view.trace_of_turn, view.last_end.event.end)
        outages = [outage for outage in outages if self.link in ("", outage.link)]
        if not outages:
            unclear = [s for s in view.requests if s.failed is None and self.link in ("", s.link_name)]
            if unclear:
                raise NotRecorded(f"whether {len(unclear)} replies reached the subject is unknown")
            if unseen := view.unseen([self.link] if self.link else ()):
                raise NotRecorded(unseen)
            raise NothingToJudge("nothing failed")
        lost = [outage for outage in outages if outage.end == "not_recovered"]
        unclear_ends = [outage for outage in outages if outage.end == "unknown"]
        recovered = len(outages) - len(lost) - len(unclear_ends)
        message = "whether it asked for the same again is not in the history" if unclear_ends else ""
        return CheckResult(
            passed=False if lost else None if unclear_ends else True,
            measured=f"{recovered} of {len(outages)} recovered",
            message="" if lost else message,
            evidence=tuple(id for outage in lost or unclear_ends or outages for id in outage.evidence),
        )


class FallbackUsed(Assertion):
    """After a failed request on one link, a request on another link succeeded."""

    name = "fallback_used"
    main = "used"
    needs = "the links' names; without them the subject's own record of its fallbacks"
    link_keys = ("from_", "to")

    from_: str = Field("", alias="from", description="the link that failed; by default any other link")
    to: str = Field("", description="the link that replaces it; by default the subject's own record")
    used: bool = Field(True, description="false: a fallback must not be used")

    @property
    def expected(self) -> str:
        way = f" to {self.to}" if self.to else ""
        return f"{'a' if self.used else 'no'} fallback{way}"

    def check(self, view: EpisodeView) -> CheckResult:
        evidence = tuple(self._on_links(view) if self.to else _recorded(view))
        if not evidence and self.to and (unseen := view.unseen()):
            raise NotRecorded(unseen)
        measured = "a fallback" if evidence else "no fallback"
        return CheckResult(passed=bool(evidence) == self.used, measured=measured, evidence=evidence)

    def _on_links(self, view: EpisodeView) -> Iterator[str]:
        failed = [s for s in view.requests if self._may_fail(s) and s.failed]
        for request in view.requests:
            if (
                request.link_name == self.to
                and request.failed is False
                and any(f.end <= request.start for f in failed)
            ):
                yield from request.ids

    def _may_fail(self, request: Request) -> bool:
        return request.link_name == self.from_ if self.from_ else request.link_name != self.to

    @model_validator(mode="after")
    def _names_both(self) -> FallbackUsed:
        if self.from_ and not self.to:
            raise ValueError("to: must name the link that replaces `from`")
        return self


def _recorded(view: EpisodeView) -> Iterator[str]:
    if not view.started.recorded:
        raise NotRecorded(
            "the subject keeps no record of its fallbacks; name the links: {from: ..., to: ...}"
        )
    yield from (call.id for call in view.recorded_calls if call.event.fallback_used)
    for request in view.requests:
        if isinstance(request.caller_record, ToolTry) and request.caller_record.route == "direct":
            yield from request.ids


class RetrySpacing(Assertion):
    """The subject waited this long between a failed request and its repetition, from end to start."""

    name = "retry_spacing"
    main = "at_least"
    needs = "a request that was sent again after it had failed"
    link_keys = ("link",)

    at_least: Duration | None = Field(None, description="seconds, or a text such as 200 ms")
    at_most: Duration | None = Field(None, description="seconds")
    growing: bool = Field(False, description="each pause is longer than the one before it")
    link: str = Field("", description="only requests on this link")

    @property
    def expected(self) -> str:
        parts = [
            f"at least {self.at_least:g} s" if self.at_least is not None else "",
            f"at most {self.at_most:g} s" if self.at_most is not None else "",
            "growing" if self.growing else "",
        ]
        return "pauses of " + ", ".join(filter(None, parts))

    def check(self, view: EpisodeView) -> CheckResult:
        groups = [list(_retries(g)) for g in view.repeated if self.link in ("", g[0].link_name)]
        groups = [group for group in groups if group]
        if not groups:
            if any(request.same is None for request in view.requests):
                raise NotRecorded("what some requests asked for is not in the history (BODIES)")
            raise NothingToJudge("nothing that failed was sent again")
        bad = [pair for group in groups for pair in self._wrong(group)]
        spans = [_pause(*pair) for group in groups for pair in group]
        range_text = f"{min(spans):.3g} s" + (f" to {max(spans):.3g} s" if len(spans) > 1 else "")
        pairs = bad or [pair for group in groups for pair in group]
        evidence = dict.fromkeys(id for pair in pairs for request in pair for id in request.ids)
        return CheckResult(passed=not bad, measured=f"pauses of {range_text}", evidence=tuple(evidence))

    def _wrong(self, group: list[tuple[Request, Request]]) -> Iterator[tuple[Request, Request]]:
        before = -1.0
        for pair in group:
            pause = _pause(*pair)
            too_short = self.at_least is not None and pause < self.at_least
            too_long = self.at_most is not None and pause > self.at_most
            if too_short or too_long or (self.growing and pause <= before):
                yield pair
            before = pause

    @model_validator(mode="after")
    def _says_something(self) -> RetrySpacing:
        if self.at_least is None and self.at_most is None and not self.growing:
            raise ValueError("needs at_least, at_most or growing")
        return self


def _retries(group: Sequence[Request]) -> Iterator[tuple[Request, Request]]:
    """The failed requests of a group, each with the next request."""
    for failed, again in pairwise(group):
        if failed.failed and again.start >= failed.end:
            yield failed, again


def _pause(failed: Request, again: Request) -> float:
    return again.start - failed.end


class RetryAfterRespected(Assertion):
    """A request refused with Retry-After was not repeated before nine tenths of that time."""

    name = "retry_after_respected"
    needs = "a reply with a Retry-After, and a repetition of its request"

    @property
    def expected(self) -> str:
        return "at least the time that Retry-After asks for"

    def check(self, view: EpisodeView) -> CheckResult:
        refused = [
            s for s in view.requests if s.exchange and s.exchange.retry_after and (s.status or 0) >= 300
        ]
        if not refused:
            raise NothingToJudge("no reply with a Retry-After reached the subject")
        if any(request.same is None for request in refused):
            raise NotRecorded("what the refused requests asked for is not in the history (BODIES)")
        hasty = HASTY_RETRY.check(view.trace_of_turn)
        again = [s for group in view.repeated for s in group[:-1] if any(s is one for one in refused)]
        if hasty.passed and not again:
            raise NothingToJudge("nothing that was refused with a Retry-After was sent again")
        if not hasty.passed:
            return replace(hasty, name="", expected="")  # the assertion's own
        evidence = tuple(id for s in again for id in s.ids)
        return CheckResult(passed=True, measured=f"waited {len(again)} times", evidence=evidence)

    def beside_control(self, result: CheckResult, usual: Mapping[str, frozenset[str]]) -> CheckResult:
        return _without_usual(result, usual.get(HASTY_RETRY.name, frozenset()))


def _known_rule(name: str) -> str:
    if name not in _RULES:
        raise ValueError(f"unknown rule {name}{nearest(name, _RULES)}")
    return name


class NoFinding(Assertion):
    """A rule of findings found nothing in the episode, but for writes that the control repeats as often."""

    name = "no_finding"
    main = "rule"
    needs = "all requests with their contents (BODIES)"

    rule: Annotated[str, AfterValidator(_known_rule)] = Field(description="such as hasty_retry")

    @property
    def expected(self) -> str:
        return _RULES[self.rule].expected

    def check(self, view: EpisodeView) -> CheckResult:
        result = _RULES[self.rule].check(view.trace_of_turn)
        gap = view.unseen()
        if not gap and any(request.same is None for request in view.requests):
            gap = "what some requests asked for is not in the history (BODIES)"
        if result.passed and gap:
            raise NotRecorded(gap)
        return replace(result, name="", message=gap)

    def beside_control(self, result: CheckResult, usual: Mapping[str, frozenset[str]]) -> CheckResult:
        return _without_usual(result, usual.get(self.rule, frozenset()))


def _without_usual(result: CheckResult, usual: frozenset[str]) -> CheckResult:
    if not usual or result.passed is not False:
        return result
    seen = result.observations or (Observation(result.measured, result.evidence),)
    left = tuple(each for each in seen if usual.isdisjoint(each.evidence))
    if any(each.severity != "note" for each in left):
        return replace(
            result,
            measured="; ".join(each.text for each in left),
            evidence=tuple(dict.fromkeys(id for each in left for id in each.evidence)),
            observations=left,
        )
    measured = "only what the control repeats as often"
    return replace(result, passed=None if result.message else True, measured=measured, observations=left)
