"""Assertions on tool calls and on repeated or bursting requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import Field, model_validator

from wirefault.experiments.assertions.assertion import Assertion, Limit, SummableLimit
from wirefault.experiments.episode_view import EpisodeView, NotRecorded, display_text
from wirefault.experiments.expression import Duration, Truth, every
from wirefault.experiments.measured import (
    ALL_TOKENS,
    NEEDS_REQUESTS,
    NEEDS_USAGE,
    Measured,
    counted_tokens,
    figure_of,
    ids_of,
)
from wirefault.judging.checker import CheckResult

_NEEDS_CALLS = (
    "the subject's record of its calls; without one, calls of MCP and of functions through the lab, or the"
    " bodies of the model's replies"
)


class ToolWasCalled(SummableLimit):
    """The tool was called this often; logical calls count, not their tries, whether they succeeded or not."""

    name = "tool_called"
    main = "tool"
    needs = _NEEDS_CALLS
    tool_keys = ("tool",)

    tool: str = Field(min_length=1)
    arguments: dict[str, Any] | None = Field(
        None, description="count only calls with these arguments; other arguments do not matter"
    )
    times: int | None = Field(None, ge=0, description="exact number of calls")
    at_least: int | None = Field(None, ge=0, description="1 by default")
    at_most: int | None = Field(None, ge=0)

    @property
    def expected(self) -> str:
        low, high = self._limits
        often = f"{low}" if low == high else f"{low} to {high}" if high is not None else f"at least {low}"
        actual = " with these arguments" if self.arguments else ""
        return f"{often} call{'' if often == '1' else 's'} of {self.tool}{actual}"

    @property
    def _limits(self) -> tuple[int, int | None]:
        if self.times is not None:
            return self.times, self.times
        unsaid = 1 if self.at_most is None else 0
        return unsaid if self.at_least is None else self.at_least, self.at_most

    def figure(self, view: EpisodeView) -> Measured:
        called = view.tool_uses
        uses = [use for use in called.uses if use.tool == self.tool]
        sure = [use for use in uses if self._fits(use.arguments) is True]
        unclear = sum(self._fits(use.arguments) is None for use in uses)
        gap = called.gap_of(self.tool)
        figure = figure_of(len(sure), [id for use in sure for id in use.evidence], gap)
        if gap or not unclear:
            return figure
        gap = f"the arguments of {unclear} calls are not in the history whole"
        return Measured(len(sure), len(sure) + unclear, figure.evidence, gap)

    def check(self, view: EpisodeView) -> CheckResult:
        """Without a call of the tool, name the called tools: the name may be misspelt."""
        result = super().check(view)
        called = dict.fromkeys(use.tool for use in view.tool_uses.uses)
        if self.tool in called:
            return result
        seen = display_text(f"no call of {self.tool} was seen; called: {', '.join(called) or 'no tool'}")
        return replace(result, message="; ".join(filter(None, [result.message, seen])))

    def holds(self, figure: Measured) -> Truth:
        low, high = self._limits
        return every([figure.at_least(low), True if high is None else figure.at_most(high)])

    def _fits(self, actual: Mapping[str, Any] | None) -> Truth:
        if not self.arguments:
            return True
        return None if actual is None else _is_part(self.arguments, actual)

    @model_validator(mode="after")
    def _says_how_often_once(self) -> ToolWasCalled:
        if self.times is not None and (self.at_least is not None or self.at_most is not None):
            raise ValueError("times: cannot be combined with `at_least` or `at_most`")
        return self


class ToolsInOrder(Assertion):
    """These tools were called in this order, with any other calls before, between and after."""

    name = "tools_in_order"
    main = "tools"
    needs = _NEEDS_CALLS
    tool_keys = ("tools",)

    tools: list[str] = Field(min_length=1)

    @property
    def expected(self) -> str:
        return ", then ".join(self.tools)

    def check(self, view: EpisodeView) -> CheckResult:
        called, left, evidence = view.tool_uses, list(self.tools), list[str]()
        for use in called.uses:
            if left and use.tool == left[0]:
                left.pop(0)
                evidence += use.evidence
        if left and (gap := called.gap_of(*self.tools)):
            raise NotRecorded(gap)
        measured = ", ".join(use.tool for use in called.uses) or "no call"
        message = f"{left[0]} did not follow" if left else ""
        return CheckResult(passed=not left, measured=measured, message=message, evidence=tuple(evidence))


def _is_part(expected: Any, actual: Any) -> bool:
    """Whether the values are equal; for mappings, whether all items of the first are in the second."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return all(key in actual and _is_part(value, actual[key]) for key, value in expected.items())
    return bool(expected == actual)


class NoLoop(Limit):
    """No tool call with the same arguments, and no identical model request, occurs more often than this in an
    attempt.

    If the subject records its calls, its logical tool calls count. Otherwise successful requests count; a
    request repeated after a failure may be a retry and leaves the figure open.
    """

    name = "no_loop"
    main = "most"
    needs = f"for model requests, the subject's record or bodies; {NEEDS_REQUESTS}"

    most: int = Field(3, ge=1, description="the highest number that is not a loop")

    @property
    def expected(self) -> str:
        return f"the same at most {self.most} times"

    def figure(self, view: EpisodeView) -> Measured:
        if view.started.recorded:
            calls = Counter(
                (call.event.attempt, call.event.tool, call.event.fingerprint) for call in view.recorded_calls
            )
            often = max(calls.values(), default=0)
            texts = [
                call.id
                for call in view.recorded_calls
                if calls[call.event.attempt, call.event.tool, call.event.fingerprint] == often
            ]
            return figure_of(often, texts, view.unseen())
        return _repeated_on_the_wire(view)

    def holds(self, figure: Measured) -> Truth:
        return figure.at_most(self.most)


def _repeated_on_the_wire(view: EpisodeView) -> Measured:
    groups = [group for group in view.trace_of_turn.equal if group[0].same is not None]
    answered = max((sum(request.succeeded for request in group) for group in groups), default=0)
    most_sent = max(groups, key=len, default=[])
    evidence = tuple(id for request in most_sent for id in request.ids)
    unclear = sum(request.same is None for request in view.requests)
    if unclear:
        gap = f"what {unclear} requests asked for is not in the history (BODIES)"
        return Measured(answered, max(len(most_sent), answered) + unclear, evidence, gap)
    if view.unseen():
        return figure_of(answered, evidence, view.unseen())
    gap = (
        "" if answered == len(most_sent) else "requests that failed and were sent again may have been retries"
    )
    return Measured(answered, len(most_sent), evidence, gap)


class NoTokenBurst(Limit):
    """No time span of this length has more tokens; each call counts at the time of its reply."""

    name = "no_token_burst"
    needs = NEEDS_USAGE

    count: int = Field(ge=1, description="tokens in and out")
    within: Duration = Field(description="the time span: seconds, or a text such as 10 s")

    @property
    def expected(self) -> str:
        return f"at most {self.count} tokens in any {self.within:g} s"

    def figure(self, view: EpisodeView) -> Measured:
        known, gap = counted_tokens(view, ALL_TOKENS)
        known.sort(key=lambda pair: pair[0].end)
        spans = [
            [pair for pair in known[place:] if pair[0].end - first.end <= self.within]
            for place, (first, _) in enumerate(known)
        ]
        largest = max(spans, key=lambda span: sum(tokens for _, tokens in span), default=[])
        tokens = sum(tokens for _, tokens in largest)
        return figure_of(tokens, ids_of(request for request, _ in largest), gap)

    def holds(self, figure: Measured) -> Truth:
        return figure.at_most(self.count)
