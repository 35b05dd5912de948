"""Assertions on how many requests were made and failed, and on requests made again and again."""

from __future__ import annotations

from collections import Counter, defaultdict

from pydantic import Field

from wirefault.experiments.assertions.assertion import Limit, SummableLimit
from wirefault.experiments.assertions.episode_view import EpisodeView
from wirefault.experiments.assertions.figure import Figure, figure_of
from wirefault.experiments.bounds import Bounds, Truth
from wirefault.experiments.failures import has_failed
from wirefault.judging.requests import Request

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
