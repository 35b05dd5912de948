"""Assertions on the tools that were called: which, how often, with what, in which order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from wirefault.experiments.assertions.assertion import Assertion, Figure, Limit, SummableLimit, figure_of
from wirefault.experiments.assertions.episode_view import (
    AssertionResult,
    EpisodeView,
    NotRecorded,
    shown_text,
)
from wirefault.experiments.expression import Bounds, Duration, Truth, every
from wirefault.experiments.outages import has_failed
from wirefault.history.events import Exchange
from wirefault.judging.requests import Request

_NEEDS_CALLS = (
    "the subject's record of its calls; of a subject that keeps none, calls of MCP through the lab, or the"
    " bodies of its model's replies"
)


class ToolWasCalled(SummableLimit):
    """The tool was called so often, counting logical calls and not their tries, succeeded or not."""

    name = "tool_called"
    main = "tool"
    needs = _NEEDS_CALLS
    tool_keys = ("tool",)

    tool: str = Field(min_length=1)
    arguments: dict[str, Any] | None = Field(
        None, description="calls with these alone; those that a call has besides do not matter"
    )
    times: int | None = Field(None, ge=0, description="exactly so often")
    at_least: int | None = Field(None, ge=0, description="1 if nothing is said")
    at_most: int | None = Field(None, ge=0)

    @property
    def expected(self) -> str:
        low, high = self._limits
        often = f"{low}" if low == high else f"{low} to {high}" if high is not None else f"at least {low}"
        given = " with these arguments" if self.arguments else ""
        return f"{often} call{'' if often == '1' else 's'} of {self.tool}{given}"

    @property
    def _limits(self) -> tuple[int, int | None]:
        if self.times is not None:
            return self.times, self.times
        unsaid = 1 if self.at_most is None else 0
        return unsaid if self.at_least is None else self.at_least, self.at_most

    def figure(self, view: EpisodeView) -> Figure:
        called = view.tool_uses
        uses = [use for use in called.uses if use.tool == self.tool]
        sure = [use for use in uses if self._fits(use.arguments) is True]
        unclear = sum(self._fits(use.arguments) is None for use in uses)
        gap = called.gap_of(self.tool)
        found = figure_of(len(sure), [id for use in sure for id in use.evidence], gap)
        if gap or not unclear:
            return found
        gap = f"the arguments of {unclear} calls are not in the history whole"
        return Figure(Bounds(len(sure), len(sure) + unclear), found.evidence, gap)

    def check(self, view: EpisodeView) -> AssertionResult:
        """Without a call of the tool it says which were called: the name may be another than was meant."""
        result = super().check(view)
        called = dict.fromkeys(use.tool for use in view.tool_uses.uses)
        if self.tool in called:
            return result
        seen = shown_text(f"no call of {self.tool} was seen; called: {', '.join(called) or 'no tool'}")
        return replace(result, message="; ".join(filter(None, [result.message, seen])))

    def holds(self, figure: Figure) -> Truth:
        low, high = self._limits
        return every([figure.at_least(low), True if high is None else figure.at_most(high)])

    def _fits(self, given: Mapping[str, Any] | None) -> Truth:
        if not self.arguments:
            return True
        return None if given is None else _is_part(self.arguments, given)

    @model_validator(mode="after")
    def _says_how_often_once(self) -> ToolWasCalled:
        if self.times is not None and (self.at_least is not None or self.at_most is not None):
            raise ValueError("times: goes with neither `at_least` nor `at_most`")
        return self


class ToolsInOrder(Assertion):
    """These tools were called one after the other, whatever was called before, between and after."""

    name = "tools_in_order"
    main = "tools"
    needs = _NEEDS_CALLS
    tool_keys = ("tools",)

    tools: list[str] = Field(min_length=1)

    @property
    def expected(self) -> str:
        return ", then ".join(self.tools)

    def check(self, view: EpisodeView) -> AssertionResult:
        called, left, evidence = view.tool_uses, list(self.tools), list[str]()
        for use in called.uses:
            if left and use.tool == left[0]:
                left.pop(0)
                evidence += use.evidence
        if left and (gap := called.gap_of(*self.tools)):
            raise NotRecorded(gap)
        measured = ", ".join(use.tool for use in called.uses) or "no call"
        message = f"{left[0]} did not follow" if left else ""
        return AssertionResult(passed=not left, measured=measured, message=message, evidence=tuple(evidence))


def _is_part(expected: Any, given: Any) -> bool:
    """Whether it is the same, of mappings whether all keys of the first are so in the second."""
    if isinstance(expected, Mapping) and isinstance(given, Mapping):
        return all(key in given and _is_part(value, given[key]) for key, value in expected.items())
    return bool(expected == given)


_NEEDS_REQUESTS = "all requests through the lab: connections past it make the figure a lower bound"


def _model_calls(view: EpisodeView) -> Figure:
    requests = view.model_requests
    return figure_of(
        len(requests), [id for sent in requests for id in sent.ids], view.unseen(view.trace.links.model_names)
    )


class MaxModelCalls(SummableLimit):
    """At most so many requests to a model, those that an SDK sends again counted."""

    name = "max_model_calls"
    main = "count"
    needs = f"a link to a model in the wiring; {_NEEDS_REQUESTS}"

    count: int = Field(ge=0)

    @property
    def expected(self) -> str:
        return f"at most {self.count}"

    def figure(self, view: EpisodeView) -> Figure:
        return _model_calls(view)

    def holds(self, figure: Figure) -> Truth:
        return figure.at_most(self.count)


class MinModelCalls(SummableLimit):
    """At least so many requests to a model."""

    name = "min_model_calls"
    main = "count"
    needs = MaxModelCalls.needs

    count: int = Field(ge=1)

    @property
    def expected(self) -> str:
        return f"at least {self.count}"

    def figure(self, view: EpisodeView) -> Figure:
        return _model_calls(view)

    def holds(self, figure: Figure) -> Truth:
        return figure.at_least(self.count)


class MaxFailedCalls(SummableLimit):
    """At most so many requests to models and tools failed for the subject: an error, or no whole reply."""

    name = "max_failed_calls"
    main = "count"
    needs = f"whether each reply came to the subject, which a toxic can leave open; {_NEEDS_REQUESTS}"
    link_keys = ("link",)

    count: int = Field(ge=0)
    link: str = Field("", description="of that link alone")

    @property
    def expected(self) -> str:
        return f"at most {self.count} failed"

    def figure(self, view: EpisodeView) -> Figure:
        requests = [sent for sent in view.sent if self.link in ("", sent.link_name)]
        failed = [sent for sent in requests if has_failed(sent)]
        unclear = sum(has_failed(sent) is None for sent in requests)
        unseen = view.unseen([self.link] if self.link else ())
        found = figure_of(len(failed), [id for sent in failed for id in sent.ids], unseen)
        if not unclear or unseen:
            return found
        gap = f"whether {unclear} replies came to the subject is not known"
        return Figure(Bounds(len(failed), len(failed) + unclear), found.evidence, gap)

    def holds(self, figure: Figure) -> Truth:
        return figure.at_most(self.count)


class NoLoop(Limit):
    """No tool is called more often than that with the same arguments in an attempt, no model asked the same.

    Of a subject that records its calls these are its logical tool calls. Of another what was answered well
    counts; what failed and was sent again may have been a retry, so that it leaves the figure open.
    """

    name = "no_loop"
    main = "most"
    needs = f"bodies, for models of a subject that records nothing; {_NEEDS_REQUESTS}"

    most: int = Field(3, ge=1, description="so often is not yet a loop")

    @property
    def expected(self) -> str:
        return f"the same at most {self.most} times"

    def figure(self, view: EpisodeView) -> Figure:
        if view.started.recorded:
            calls = Counter(
                (call.event.attempt, call.event.tool, call.event.fingerprint) for call in view.recorded_calls
            )
            often = max(calls.values(), default=0)
            shown = [
                call.id
                for call in view.recorded_calls
                if calls[call.event.attempt, call.event.tool, call.event.fingerprint] == often
            ]
            return figure_of(often, shown, view.unseen())
        return _repeated_on_the_wire(view)

    def holds(self, figure: Figure) -> Truth:
        return figure.at_most(self.most)


def _repeated_on_the_wire(view: EpisodeView) -> Figure:
    groups: defaultdict[object, list[Request]] = defaultdict(list)
    for sent in view.sent:
        if sent.same is not None:
            groups[sent.same].append(sent)
    answered = max((sum(sent.succeeded for sent in group) for group in groups.values()), default=0)
    most_sent = max(groups.values(), key=len, default=[])
    evidence = tuple(id for sent in most_sent for id in sent.ids)
    unclear = sum(sent.same is None for sent in view.sent)
    if unclear:
        gap = f"what {unclear} requests asked for is not in the history (BODIES)"
        return Figure(Bounds(answered, max(len(most_sent), answered) + unclear), evidence, gap)
    if view.unseen():
        return figure_of(answered, evidence, view.unseen())
    gap = "" if answered == len(most_sent) else "what failed and was sent again may have been a retry"
    return Figure(Bounds(answered, len(most_sent)), evidence, gap)


_NEEDS_USAGE = "the usage in each reply of the model: without it the figure is a lower bound"
_TokenCount = Callable[[Exchange], int | None]


def _tokens_in(exchange: Exchange) -> int | None:
    return exchange.tokens_in


def _tokens_out(exchange: Exchange) -> int | None:
    return exchange.tokens_out


def _all_tokens(exchange: Exchange) -> int | None:
    if exchange.tokens_in is None or exchange.tokens_out is None:
        return None
    return exchange.tokens_in + exchange.tokens_out


class MaxTokens(SummableLimit):
    """At most so many tokens, in and out together, in all requests to models or in each single one."""

    name: ClassVar[str] = "max_tokens"
    main = "count"
    needs = _NEEDS_USAGE
    counted: ClassVar[_TokenCount] = staticmethod(_all_tokens)

    count: int = Field(ge=0)
    per: Literal["episode", "call"] = Field("episode", description="all requests together, or each by itself")

    @property
    def expected(self) -> str:
        return f"at most {self.count} tokens{' a call' if self.per == 'call' else ''}"

    def figure(self, view: EpisodeView) -> Figure:
        known, untold = _told(view.model_requests, type(self).counted)
        gap = _gap(view, untold)
        if self.per == "episode":
            return figure_of(sum(count for _, count in known), _ids(known), gap)
        largest = max((count for _, count in known), default=0)
        return figure_of(largest, _ids([pair for pair in known if pair[1] == largest]), gap)

    def holds(self, figure: Figure) -> Truth:
        return figure.at_most(self.count)

    @model_validator(mode="after")
    def _calls_are_not_summed(self) -> MaxTokens:
        if self.per == "call" and self.over == "arm":
            raise ValueError("per: call is of each call, and goes with no `over: arm`")
        return self


class MaxTokensIn(MaxTokens):
    """The same of the tokens that the model was given."""

    name: ClassVar[str] = "max_tokens_in"
    counted: ClassVar[_TokenCount] = staticmethod(_tokens_in)


class MaxTokensOut(MaxTokens):
    """The same of the tokens that it wrote."""

    name: ClassVar[str] = "max_tokens_out"
    counted: ClassVar[_TokenCount] = staticmethod(_tokens_out)


class NoTokenBurst(Limit):
    """In no span of that length are more tokens taken, each call's counted when its reply was there."""

    name = "no_token_burst"
    needs = _NEEDS_USAGE

    count: int = Field(ge=1, description="tokens in and out")
    within: Duration = Field(description="the span: seconds, or a text such as 10 s")

    @property
    def expected(self) -> str:
        return f"at most {self.count} tokens in any {self.within:g} s"

    def figure(self, view: EpisodeView) -> Figure:
        known, untold = _told(view.model_requests, _all_tokens)
        known.sort(key=lambda pair: pair[0].end)
        spans = [
            [pair for pair in known[place:] if pair[0].end - first.end <= self.within]
            for place, (first, _) in enumerate(known)
        ]
        largest = max(spans, key=_sum, default=[])
        return figure_of(_sum(largest), _ids(largest), _gap(view, untold))

    def holds(self, figure: Figure) -> Truth:
        return figure.at_most(self.count)


def _told(requests: Sequence[Request], counted: _TokenCount) -> tuple[list[tuple[Request, int]], int]:
    """The requests whose usage is known, with it, and how many others a model has answered."""
    known: list[tuple[Request, int]] = []
    untold = 0
    for sent in requests:
        count = counted(sent.exchange) if sent.exchange else None
        if sent.exchange is not None and count is not None:
            known.append((sent, count))
        elif sent.executed != "no":
            untold += 1
    return known, untold


def _gap(view: EpisodeView, untold: int) -> str:
    return (
        f"{untold} replies do not tell their tokens" if untold else view.unseen(view.trace.links.model_names)
    )


def _sum(known: Sequence[tuple[Request, int]]) -> int:
    return sum(count for _, count in known)


def _ids(known: Sequence[tuple[Request, int]]) -> list[str]:
    return [id for sent, _ in known for id in sent.ids]
