"""One episode on the page: its time line as a chart, and its events as nested lines. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from markupsafe import Markup

from wirefault.history.events import AttemptArmed, EpisodeJudged, EpisodeStarted
from wirefault.history.judged_events import SEVERITIES, Finding, Severity
from wirefault.history.reader import bare_id
from wirefault.judging.judge import JudgedEpisode
from wirefault.judging.oracle.outcome import OUTCOMES
from wirefault.judging.requests import Request
from wirefault.judging.trace import EpisodeTrace
from wirefault.report.page.phrase import Figure
from wirefault.report.page.svg import Span, different_parts, time_line
from wirefault.report.page_links import episode_anchor
from wirefault.report.timeline import TimelineLine, timeline_lines

_MAX_LINES = 300
_MAX_TEXT = 6000
_ALIKE = 0.3
"""Share of two texts that is equal, from which on their difference is marked."""
_CONTEXT = 3
"""Lines on each side of a difference, where it is cut out."""
AGENT, MODEL = "agent", "model"
_Failed = frozenset[tuple[str, ...]]
"""The ids of each request that failed."""


@dataclass(frozen=True)
class Sides:
    """A reply as the upstream sent it and as the agent received it, each with its different part marked."""

    upstream: tuple[str, str, str]
    agent: tuple[str, str, str]
    upstream_status: str
    agent_status: str
    upstream_headers: Sequence[tuple[str, bool]] = ()
    """Such as ``Retry-After: 2``, and whether the other side has not got it."""
    agent_headers: Sequence[tuple[str, bool]] = ()

    def near_difference(self) -> Sides:
        """Return the sides with a few lines around the difference; whole if nothing is marked."""
        if not self.upstream[1] and not self.agent[1]:
            return self
        return replace(self, upstream=_near(self.upstream), agent=_near(self.agent))


def _near(parts: tuple[str, str, str]) -> tuple[str, str, str]:
    before, different, after = parts
    first, last = before.splitlines(keepends=True), after.splitlines(keepends=True)
    head = "".join(first[-_CONTEXT:])
    tail = "".join(last[:_CONTEXT])
    if len(first) > _CONTEXT:
        head = f"...\n{head}"
    if len(last) > _CONTEXT:
        tail = f"{tail}..."
    return head, different, tail


@dataclass(frozen=True)
class Node:
    """A line with the lines that belong to it."""

    line: TimelineLine
    children: Sequence[Node] = ()
    sides: Sides | None = None
    anchor: str = ""
    """The id of its element, ``ep/3/gateway-0:2``; empty for lines without an event."""
    others: Sequence[str] = ()
    """Ids of the further events that it shows."""
    failed: bool = False
    """Whether it is a request that failed for the agent."""

    @property
    def label(self) -> str:
        return self.line.label or self.line.kind

    @property
    def faults(self) -> list[str]:
        """The effects of the faults at this line and below it."""
        below = [fault for child in self.children for fault in child.faults]
        return [self.line.text] if self.line.kind == "fault" else below

    @property
    def is_request(self) -> bool:
        """Whether it opens: requests and tool calls do."""
        return bool(self.children or self.sides)


@dataclass(frozen=True)
class EpisodeCard(JudgedEpisode):
    """An episode on the page."""

    number: int
    """Its place on the page, from 1."""
    arm: str
    row: dict[str, Any]
    """Its figures as data."""
    command: str
    """Prints the episode on the console."""
    repeat: str
    """Runs the episode again."""
    answer: tuple[str, str, str] | None
    """In an audit, in place of outcome and prompt: the answer of its question, its tone, and the question."""

    @property
    def key(self) -> str:
        return self.judged.episode

    @property
    def word(self) -> str:
        """Its outcome, or the answer of an audit's question."""
        return self.answer[0] if self.answer else self.judged.outcome.replace("_", " ")

    @property
    def tone(self) -> str:
        """The class of the word's colour."""
        return self.answer[1] if self.answer else f"o-{self.judged.outcome}"

    @property
    def title(self) -> str:
        return self.answer[2] if self.answer else self.judged.prompt

    @property
    def why(self) -> str:
        return "" if self.answer else self.judged.why

    @property
    def axes(self) -> str:
        """World, claim and value; empty in an audit, which has no oracle."""
        judged = self.judged
        axes = f"world {judged.world}, claim {judged.claim}, value {judged.value}"
        return "" if self.answer else ", ".join([axes, *judged.flags])

    @property
    def seconds(self) -> float:
        return float(self.row["seconds"])

    @cached_property
    def faults(self) -> Sequence[str]:
        """What acted: kinds of faults and toxics, each once."""
        acted = [each for each in self.judged.faults if each.reached("injected") or each.delivered]
        return list(dict.fromkeys(record.kind for record in acted))

    @property
    def is_judged(self) -> bool:
        """Whether its outcome counts: not without an oracle, and not after a failure of the lab."""
        return OUTCOMES[self.judged.outcome].in_rate

    @property
    def exit_text(self) -> str:
        """``exit code 1`` of a command that failed; empty for any other end."""
        end = self.trace.ends[-1].event if self.trace.ends else None
        if end is None or not end.exited_with_reason:
            return ""
        return (end.error or "").partition(":")[0].removeprefix("it ended with ")

    def figure(self, text: object, *path: str | int) -> Figure:
        """Return a figure of the episode. ``path``: its place below the episode's figures."""
        return Figure(text, "figures", "episodes", self.number - 1, *path)

    def evidence(self, finding: Finding) -> list[tuple[str, str]]:
        """Return id and link of each event that shows a finding."""
        ids = {id for request in self.trace.requests for id in request.ids}
        return [
            (bare_id(id), f"#{event_anchor(self.number, id) if id in ids else self.anchor}")
            for id in finding.evidence
        ]

    @cached_property
    def chart(self) -> Markup:
        """The time line."""
        return _chart(self.number, self.trace, self.judged)

    @cached_property
    def nodes(self) -> Sequence[Node]:
        failed = frozenset(request.ids for request in self.trace.requests if request.failed)
        return _nodes(self._lines[:_MAX_LINES], self.number, failed)

    @property
    def omitted(self) -> int:
        """How many lines are left out."""
        return max(len(self._lines) - _MAX_LINES, 0)

    @cached_property
    def _lines(self) -> list[TimelineLine]:
        return timeline_lines(self)

    @property
    def anchor(self) -> str:
        return episode_anchor(self.number)

    @property
    def severity(self) -> Severity | None:
        """The worst severity of its findings, if that is not a note and its word does not say it."""
        severities = [finding.severity for finding in self.findings]
        worst: Severity = min(severities, key=SEVERITIES.index, default="note")
        return None if worst == "note" or self.tone.startswith("s-") else worst


def event_anchor(number: int, event: str) -> str:
    """Return the id of an event's element. ``event``: as in the history, without the name of its run."""
    return f"{episode_anchor(number)}/{bare_id(event)}"


def _nodes(lines: Sequence[TimelineLine], number: int, failed: _Failed) -> list[Node]:
    """Nest the lines by depth; the two sides of a reply become one block."""
    roots: list[Node] = []
    position = 0
    while position < len(lines):
        end = position + 1
        while end < len(lines) and lines[end].depth > lines[position].depth:
            end += 1
        roots.append(_node(lines[position], lines[position + 1 : end], number, failed))
        position = end
    return roots


def _node(line: TimelineLine, below: Sequence[TimelineLine], number: int, failed: _Failed) -> Node:
    upstream = next(
        (each for each in below if each.kind == "upstream" and each.depth == line.depth + 1), None
    )
    observed = next(
        (each for each in below if each.kind == "observed" and each.depth == line.depth + 1), None
    )
    sides = None
    if upstream is not None and observed is not None:
        sides = _sides(upstream, observed)
    rest = [each for each in below if each not in (upstream, observed) or sides is None]
    ids = [bare_id(id) for id in line.ids]
    anchor = event_anchor(number, ids[0]) if ids else ""
    others = [event_anchor(number, id) for id in ids[1:]]
    return Node(line, _nodes(rest, number, failed), sides, anchor, others, line.ids in failed)


def _sides(upstream: TimelineLine, observed: TimelineLine) -> Sides:
    same = observed.text.startswith("the same")
    sent_text, received = _pretty(upstream.text), _pretty(upstream.text if same else observed.text)
    one, other = different_parts(sent_text, received)
    if len(one[0]) + len(one[2]) < _ALIKE * max(len(sent_text), len(received)):
        one, other = (sent_text, "", ""), (received, "", "")  # marks help only in texts of one kind
    status = f"{observed.seen} {observed.text}" if same else observed.seen
    headers = [
        [(each, bool(twin.seen) and each not in twin.headers) for each in side.headers]
        for side, twin in ((upstream, observed), (observed, upstream))
    ]
    return Sides(one, other, upstream.seen, status.strip(), *headers)


def _pretty(text: str) -> str:
    """Indent JSON, so that two sides differ line by line."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return _cut(text)
    is_nested = isinstance(value, dict | list)
    return _cut(json.dumps(value, ensure_ascii=False, indent=2) if is_nested else text)


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]} ..."


def _chart(number: int, trace: EpisodeTrace, judgement: EpisodeJudged) -> Markup:
    started = trace.last(EpisodeStarted)
    ends = [each.event for each in trace.ends]
    begin = started.t if started else min((end.start for end in ends), default=0.0)
    lanes: dict[str, list[Span]] = {AGENT: [], MODEL: []}
    for end in ends:
        title = f"attempt {end.attempt}: {end.ms / 1000:.2f} s, ended by {end.ended_by}"
        lanes[AGENT].append(Span(end.start - begin, end.end - begin, "attempt", title))
    last = max((span.end for span in lanes[AGENT]), default=0.0)
    for request in trace.requests:
        lane = MODEL if request.of_model else request.link_name
        lanes.setdefault(lane, []).append(_request_span(number, request, begin))
    last = max([last, *(span.end for spans in lanes.values() for span in spans)])
    model_links = {request.link_name for request in trace.requests if request.of_model}
    for lane, span in _toxic_spans(trace, judgement, begin, last, model_links):
        lanes.setdefault(lane, []).append(span)
    drawn = {name: spans for name, spans in lanes.items() if spans}
    return time_line(drawn, last, f"Time line of episode {number}, {last:.2f} seconds")


def _request_span(number: int, request: Request, begin: float) -> Span:
    injected = [fault.kind for fault in request.injected]
    without = "no reply" if request.reply_lost else "not known whether its reply arrived"
    status = request.error or str(request.status or without)
    fault = f", fault {', '.join(injected)}" if injected else ""
    title = f"{request.name}: {status}, {request.ms:.0f} ms{fault}"
    kind = "failed" if request.failed else "request"
    href = f"#{event_anchor(number, request.ids[0])}" if request.ids else ""
    return Span(request.start - begin, request.end - begin, kind, title, href, mark=bool(injected))


def _toxic_spans(
    trace: EpisodeTrace, judgement: EpisodeJudged, begin: float, last: float, model_links: set[str]
) -> Iterator[tuple[str, Span]]:
    """Yield the lane and the time in which each toxic was in force."""
    ends: Mapping[int, float] = {each.event.attempt: each.event.end - begin for each in trace.ends}
    for armed in trace.all(AttemptArmed):
        for toxic in armed.toxics:
            if toxic.span.unit != "s":
                continue  # counted in calls: its requests are marked
            start = armed.t - begin + toxic.span.start
            end = min(armed.t - begin + toxic.span.end, ends.get(armed.attempt, last))
            lane = MODEL if toxic.link in model_links else toxic.link
            yield lane, Span(max(start, 0.0), max(end, start), "shade", f"toxic {toxic.kind} {toxic.stream}")
